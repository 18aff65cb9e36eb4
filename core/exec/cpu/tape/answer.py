"""Questions to computed values: the largest element, a number above a limit, the best of several."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.cpu.tape import state as at
from abw.core.exec.cpu.tape.advance import advance
from abw.core.exec.interface import FALSE, HEAD, TRUE
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
from abw.core.jit.decorators import entry, inner, njit

Longs = NDArray[np.int64]
Doubles = NDArray[np.float64]

# Where a recorder's words of these names are.
(
    WORDS, AT, BEGIN, NEXT, BEGUN, ASKS, MASKS, ASKED, MASKED, LEAST, MOST, ANSWERS, ROUNDS, CUTS, TAPE, _,
) = range(len(HEAD))  # fmt: skip
HIGHEST, LOWEST = 2**63 - 1, -(2**63)


@entry
def answer_round(head: int) -> int:
    """Execute what a recorder has noted since the last time, and answer all that it asks: see `Tape.round`.

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
            room = min(room, most, (state[at.KEYS + 1] - longs_in(state, at.USED)[0]) // 2)
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
        noted[ASKED] = noted[MASKED] = 0
        noted[LEAST], noted[MOST] = HIGHEST, LOWEST
    return status


@inner
def _choose(state: Longs, noted: Longs) -> int:
    """Answer all questions. Returns DONE or FAILED.

    It fails where a score is not a number, or a value is none of this run's vectors.
    """
    asked, masks = noted[ASKED], noted[MASKS]
    asking, limits = longs_at(noted[ASKS], 3 * asked), doubles_at(noted[ASKS], 3 * asked)
    answers, size = longs_at(noted[ANSWERS], asked), ints_in(state, at.SIZE)
    argmax = longs_in(state, at.ARGMAX)
    for j in range(asked):
        place, output = _place(state, asking[3 * j + 1])
        if place == 0:
            return FAILED
        if asking[3 * j] != 0:
            score = floats_at(place, 1)[0]
            if np.isnan(score):
                return FAILED
            answers[j] = TRUE if score > limits[3 * j + 2] else FALSE
        elif size[output] == 0:
            return FAILED
        elif asking[3 * j + 2] >= 0:
            found = _largest(place, masks + asking[3 * j + 2], size[output])
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


@njit
def best(
    state: Longs, function: int, size: int, k: int, handles: Longs, ptr: Longs, plus: Doubles, found: int
) -> int:
    """For each question the k best elements of some vectors of a size, by `function`: see `Tape.best`.

    `found` is the address of room for (questions, k) scores, as many 32-bit numbers of vectors, and as many
    of elements. Returns DONE; FAILED where a score is not a number, and where there are elements, but fewer
    than wanted have a share: of the others not all were seen.
    """
    questions = len(ptr) - 1
    totals, plus_word = doubles_at(found, questions * k), doubles_at(address_of(state) + 8 * PLUS, 1)
    for j in range(questions):
        total, lane = found + 8 * j * k, found + 8 * questions * k + 4 * j * k
        for i in range(j * k, (j + 1) * k):
            totals[i] = np.nan
        for i in range(ptr[j], ptr[j + 1]):
            place, _ = _place(state, handles[i])
            if place == 0:
                return FAILED
            state[STATUS], state[LANE], plus_word[0] = DONE, i - ptr[j], plus[i]
            call(function, (address_of(state), place, total, lane, lane + 4 * questions * k, -1))
            if state[STATUS] != DONE:
                return FAILED
        wanted = min((ptr[j + 1] - ptr[j]) * size, k)
        if wanted and not totals[j * k + wanted - 1] > -np.inf:
            return FAILED
    return DONE


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
