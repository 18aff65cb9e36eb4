"""Questions to computed values: the largest element, a number above a limit, the best of several."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.cpu.tape import state as at
from abw.core.exec.cpu.tape.advance import advance
from abw.core.exec.interface import ASK_WORDS, FALSE, HEAD, TRUE
from abw.core.graph.growing.choices import largest
from abw.core.graph.growing.state import DONE, FAILED, FULL, LANE, LARGEST, PAUSED, PLUS, STATUS
from abw.core.jit.addresses import (
    address_of,
    bytes_at,
    call,
    doubles_at,
    floats_at,
    ints_in,
    longs_at,
    longs_in,
)
from abw.core.jit.decorators import entry, inner

Longs = NDArray[np.int64]
Doubles = NDArray[np.float64]

# Where a recorder's words of these names are.
(
    WORDS, AT, BEGIN, NEXT, BEGUN, ASKS, MASKS, ASKED, MASKED, LEAST, MOST, ANSWERS, ROUNDS, CUTS, TAPE, _,
    HANDLES, PLUS_OF, SCORES, RANK_ROOM, RANKED, PICKED,
) = range(len(HEAD))  # fmt: skip
HIGHEST, LOWEST = 2**63 - 1, -(2**63)


@entry
def answer_round(head: int) -> int:
    """Execute what a recorder has noted, and answer all that it asks: see `CompiledTape.round`.

    Returns DONE, with the questions forgotten; PAUSED where some ask what is computed already and others do
    not; FULL where there is no room; else what `advance` or `choose` returned. The recorder's words say what
    was executed.
    """
    noted = longs_at(head, len(HEAD))
    state = longs_at(noted[TAPE], at.WORDS)
    begun = _time(state)
    status = _answer(state, noted)
    state[at.NANOSECONDS] += _time(state) - begun
    return status


@inner
def _time(state: Longs) -> int:
    """Some nanoseconds on a clock."""
    if state[at.CLOCK] == 0:
        return 0
    call(state[at.CLOCK], (state[at.CLOCK_NUMBER], address_of(state) + 8 * at.TIME_SECONDS))
    return int(1_000_000_000 * state[at.TIME_SECONDS] + state[at.TIME_REST])


@inner
def _answer(state: Longs, noted: Longs) -> int:
    """See `answer_round`."""
    if noted[LEAST] >= noted[BEGUN]:
        begin, length, first = noted[BEGIN], noted[AT] - noted[BEGIN], state[at.COUNT]
        room = min(state[at.BEGIN + 1], state[at.OPERAND + 1], state[at.TYPE + 1] - first)
        if state[at.LOOKS] != 0:
            most = min(state[at.SAME + 1] - first, state[at.TABLE + 1] // 2 - first)
            room = min(room, most, (state[at.KEYS + 1] - longs_in(state, at.USED)[0]) // 4)
        if length > room:  # so many nodes at most: each has a word of its own
            return FULL
        status = advance(state, noted[WORDS] + 8 * begin, length)
        if status != DONE:
            return status
        cut = longs_at(noted[CUTS] + 24 * noted[ROUNDS], 3)
        cut[0], cut[1], cut[2] = begin, noted[AT], state[at.COUNT] - first
        noted[ROUNDS] += 1
        noted[BEGIN], noted[BEGUN] = noted[AT], noted[NEXT]
    elif noted[MOST] >= noted[BEGUN]:
        return PAUSED
    status = _choose(state, noted)
    if status == DONE:
        noted[ASKED] = noted[MASKED] = noted[RANKED] = noted[PICKED] = 0
        noted[LEAST], noted[MOST] = HIGHEST, LOWEST
    return status


@inner
def _choose(state: Longs, noted: Longs) -> int:
    """Answer all questions. Returns DONE; FULL where a function has to be compiled; or FAILED.

    It fails where a score is not a number, a value is none of this run's vectors, or fewer of the best than
    are wanted have a share: of the others not all were seen.
    """
    asks = longs_at(noted[ASKS], ASK_WORDS * noted[ASKED])
    limits = doubles_at(noted[ASKS], ASK_WORDS * noted[ASKED])
    answers, size = longs_at(noted[ANSWERS], noted[ASKED]), ints_in(state, at.SIZE)
    argmax = longs_in(state, at.ARGMAX)
    for j in range(noted[ASKED]):
        ask = ASK_WORDS * j
        if asks[ask] == 2:
            answers[j] = _pick(state, noted, ask)
            if answers[j] >= 0:
                return int(answers[j])
            continue
        place, output = _place(state, asks[ask + 1])
        if place == 0:
            return FAILED
        if asks[ask] == 1:
            score = floats_at(place, 1)[0]
            if np.isnan(score):
                return FAILED
            answers[j] = TRUE if score > limits[ask + 2] else FALSE
        elif size[output] == 0:
            return FAILED
        elif asks[ask + 2] >= 0:
            found = _largest(place, noted[MASKS] + asks[ask + 2], size[output])
            if found < -1:
                return FAILED
            answers[j] = found
        else:
            state[STATUS] = DONE
            call(argmax[output], (address_of(state), place))
            if state[STATUS] != DONE:
                return FAILED
            answers[j] = state[LARGEST]
    return DONE


@inner
def _largest(place: int, mask: int, size: int) -> int:
    """The first of the largest of some numbers, of those whose byte in a mask is not 0.

    -1 where there is none, -2 where one is not a number.
    """
    scores = floats_at(place, size)
    for i in range(size):
        if np.isnan(scores[i]):
            return -2
    return largest(scores, 0, size, bytes_at(mask, size))


@inner
def _pick(state: Longs, noted: Longs, ask: int) -> int:
    """Find the best elements of the several values of a question: the answer, or FULL or FAILED."""
    asked = longs_at(noted[ASKS] + 8 * ask, ASK_WORDS)
    first, count, wanted = asked[2], asked[3], asked[4]
    handles, plus = longs_at(noted[HANDLES] + 8 * first, count), doubles_at(noted[PLUS_OF] + 8 * first, count)
    scores = noted[SCORES] + 8 * asked[5]
    lanes = noted[SCORES] + 8 * noted[RANK_ROOM] + 4 * asked[5]
    totals, plus_word = doubles_at(scores, wanted), doubles_at(address_of(state) + 8 * PLUS, 1)
    function, size = 0, 0
    for i in range(count):
        place, output = _place(state, handles[i])
        size = ints_in(state, at.SIZE)[output]
        if place == 0 or size == 0:
            return FAILED
        if i == 0:
            function = _best_of(state, size, wanted)
            if function == 0:
                return FULL
            totals[:] = np.nan
        state[STATUS], state[LANE], plus_word[0] = DONE, i, plus[i]
        call(function, (address_of(state), place, scores, lanes, lanes + 4 * noted[RANK_ROOM], -1))
        if state[STATUS] != DONE:
            return FAILED
    found = min(count * size, wanted)
    return FALSE - found if totals[found - 1] > -np.inf else FAILED


@inner
def _best_of(state: Longs, size: int, wanted: int) -> int:
    """The function that finds so many best of vectors of a size, 0 where it has to be compiled."""
    bests = longs_in(state, at.BESTS)
    for b in range(0, len(bests), 3):
        if bests[b] == size and bests[b + 1] == wanted:
            return int(bests[b + 2])
    state[at.LENGTH], state[at.WANTED] = size, wanted
    return 0


@inner
def _place(state: Longs, handle: int) -> tuple[int, int]:
    """A value's address, 0 for a constant and for what an earlier run had; and its number among outputs."""
    reference = (handle >> state[at.BITS]) - state[at.BASE]
    if reference < 0:
        return 0, 0
    width = state[at.WIDTH]
    t = ints_in(state, at.TYPE)[reference >> state[at.SHIFT]]
    output = t * width + (reference & width - 1)
    arena = ints_in(state, at.OUTPUT_ARENA)[output]
    offset = ints_in(state, at.ROW)[reference] * longs_in(state, at.PITCH)[arena]
    return longs_in(state, at.ARENA)[arena] + offset, output
