"""What is chosen by scores, in compiled code: the largest, one drawn by its share, the best hypotheses.

Scores of a vertex are a row of the state's SCORES, in double precision; step CHOOSE says what is done with
them: see `ARGUMENTS`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.growing import state as at
from abw.core.graph.growing.state import column, entries, register
from abw.core.jit.addresses import (
    ask,
    bytes_at,
    bytes_in,
    call,
    doubles_at,
    doubles_in,
    floats_at,
    ints_in,
    longs_at,
    longs_in,
)
from abw.core.jit.decorators import entry, fragment, within
from abw.core.jit.splitmix import GOLDEN, fraction, mix

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Doubles = NDArray[np.float64]
Bytes = NDArray[np.uint8]
Scores = NDArray[np.floating[Any]]

# The arguments of CHOOSE: number of the decision, register of its vertices, the first of those that say
# which choices are allowed (-1: all are), which of HOWS, the column to write, that of the scores, how many
# these are.
ARGUMENTS = 8
DECISION, VERTICES, ALLOWED, HOW, CHOSEN, VALUES, COUNT = range(1, ARGUMENTS)
HOWS = ("argmax", "sample", "best", "over", "chance")
ARGMAX, SAMPLE, BEST, OVER, CHANCE = range(len(HOWS))

# How exponentials are found: the least number that counts; what leaves the nearest whole number in the last
# bits of a sum; the coefficients of a power of 2 as a polynomial; what is counted, and what leaves the number
# of these in the last bits of a sum.
LEAST, LOG2_E, NEAREST = -40.0, 1 / math.log(2), 1.5 * 2.0**52
POWERS = tuple(math.log(2) ** i / math.factorial(i) for i in range(8))
UNIT, IN_UNITS = 2.0**-40, 1.5 * 2.0**12
_C0, _C1, _C2, _C3, _C4, _C5, _C6, _C7 = POWERS


@fragment
def _first_allowed(words: int, a: int, j: int, begin: int) -> int:
    """Give the j-th vertex's scores -inf where a choice is not allowed; the first that is, -1 for none.

    -2 where a score is not a number.
    """
    state = longs_at(words, at.WORDS)
    steps, scores = ints_in(state, at.STEPS), doubles_in(state, at.SCORES)
    count, allowed = steps[a + COUNT], steps[a + ALLOWED]
    for i in range(begin, begin + count):
        if np.isnan(scores[i]):
            return -2
    if allowed < 0:
        return 0
    first = -1
    for i in range(count - 1, -1, -1):
        if register(state, allowed + i)[j] >= 0:
            first = i
        else:
            scores[begin + i] = -np.inf
    return first


@within
def _rows(words: int, a: int) -> tuple[int, int, int, Ints]:
    """For executors that run kernels by address: the function for rows of scores as they are, 0 for none;
    where the scores' arena lies, the bytes of a row, and the column of rows.
    """
    state = longs_at(words, at.WORDS)
    steps, function = ints_in(state, at.STEPS), longs_in(state, at.FUNCTION)
    decision, row = 2 * steps[a + DECISION], column(state, steps[a + VALUES])
    if state[at.KERNEL] == 0:
        return 0, 0, 0, row
    arena = function[decision + 1]
    return function[decision], longs_in(state, at.ARENA)[arena], longs_in(state, at.PITCH)[arena], row


@fragment
def _scores(words: int, a: int, vertex: int) -> int:
    """Where a vertex's scores begin, in double precision."""
    state = longs_at(words, at.WORDS)
    begin, count = state[at.SCORED], ints_in(state, at.STEPS)[a + COUNT]
    if state[at.KERNEL] == 0:
        state[at.SCORED] += count
        return begin  # type: ignore[no-any-return]
    _, base, pitch, rows = _rows(words, a)
    scores, row = doubles_in(state, at.SCORES), floats_at(base + rows[vertex + 1] * pitch, count)
    for i in range(count):
        scores[i] = row[i]
    return 0


@within
def choose(words: int, a: int) -> bool:
    """Do a step CHOOSE; whether all scores are numbers, else the vertex is noted.

    FUNCTION (D, 2): the function for rows of scores as they are, 0 for none, and their arena. What few models
    need has machine code of its own: `BY_BEST` and `BY_CHANCE` lead to it.
    """
    state = longs_at(words, at.WORDS)
    steps, how = ints_in(state, at.STEPS), ints_in(state, at.STEPS)[a + HOW]
    state[at.STEP] = a
    if how == BEST:
        return ask(state[at.BY_BEST], words) != 0  # type: ignore[no-any-return]
    if how != ARGMAX and how != OVER:
        return ask(state[at.BY_CHANCE], words) != 0  # type: ignore[no-any-return]
    vertices, chosen = register(state, steps[a + VERTICES]), column(state, steps[a + CHOSEN])
    function, base, pitch, rows = _rows(words, a)
    for j in range(entries(state, steps[a + VERTICES])):
        v = vertices[j] + 1
        if function != 0:
            call(function, (words, base + rows[v] * pitch))
            chosen[v] = state[at.LARGEST]
        elif not _choose(words, a, j, _scores(words, a, v - 1)):
            state[at.FAILED_VERTEX] = v - 1
            return False
    return bool(state[at.STATUS] == at.RUNNING)


@entry
def choose_best(words: int) -> int:
    """Do a step CHOOSE of `best`, as `choose`."""
    state = longs_at(words, at.WORDS)
    steps, a = ints_in(state, at.STEPS), state[at.STEP]
    vertices = register(state, steps[a + VERTICES])
    function, base, pitch, rows = _rows(words, a)
    for j in range(entries(state, steps[a + VERTICES])):
        if function != 0:
            good = _best_by_function(words, vertices[j], function, base + rows[vertices[j] + 1] * pitch)
        else:
            good = _enter_best(words, a, j, _scores(words, a, vertices[j]))
        if not good:
            state[at.FAILED_VERTEX] = vertices[j]
            return 0
    _keep_all(words)
    return 1


@entry
def choose_by_chance(words: int) -> int:
    """Do a step CHOOSE of `sample` or `chance`, as `choose`."""
    state = longs_at(words, at.WORDS)
    steps, a = ints_in(state, at.STEPS), state[at.STEP]
    vertices, chosen = register(state, steps[a + VERTICES]), column(state, steps[a + CHOSEN])
    decision, scores, count = steps[a + DECISION], doubles_in(state, at.SCORES), steps[a + COUNT]
    for j in range(entries(state, steps[a + VERTICES])):
        drawn = _drawn(words, vertices[j], decision)
        if steps[a + HOW] == CHANCE:
            chosen[vertices[j] + 1] = drawn < doubles_in(state, at.LIMITS)[decision]
            continue
        begin = _scores(words, a, vertices[j])
        first = _first_allowed(words, a, j, begin)
        if first == -2:
            state[at.FAILED_VERTEX] = vertices[j]
            return 0
        found = first
        if first >= 0:
            found = _sampled(scores, begin, count, drawn)
        chosen[vertices[j] + 1] = found if found >= 0 else first
    return 1


@fragment
def _best_by_function(words: int, vertex: int, function: int, place: int) -> bool:
    """The best continuations of a vertex become candidates; whether the scores at an address are numbers."""
    state = longs_at(words, at.WORDS)
    instance, before = _open_candidates(words, vertex)
    first = instance * state[at.BEAM]
    state[at.LANE] = vertex
    doubles_at(words + 8 * at.PLUS, 1)[0] = before
    totals, which = state[at.BEAM_TOTAL] + 8 * first, state[at.BEAM_VERTEX] + 4 * first
    call(function, (words, place, totals, which, state[at.BEAM_NUMBER] + 4 * first, 0))
    return bool(state[at.STATUS] == at.RUNNING)


@fragment
def _choose(words: int, a: int, j: int, begin: int) -> bool:
    """Write what is largest, or over a limit, at the j-th vertex, whose scores begin there; whether they are
    numbers.
    """
    state = longs_at(words, at.WORDS)
    steps, scores = ints_in(state, at.STEPS), doubles_in(state, at.SCORES)
    vertex, decision, count = register(state, steps[a + VERTICES])[j], steps[a + DECISION], steps[a + COUNT]
    chosen, first = column(state, steps[a + CHOSEN]), _first_allowed(words, a, j, begin)
    if first == -2:
        return False
    if steps[a + HOW] == OVER:
        chosen[vertex + 1] = scores[begin] > doubles_in(state, at.LIMITS)[decision]
    elif first < 0:
        chosen[vertex + 1] = -1
    else:
        found = largest(scores, begin, count, bytes_at(0, 0))
        chosen[vertex + 1] = found if scores[begin + found] > -np.inf else first
    return True


@fragment
def largest(scores: Scores, begin: int, count: int, allowed: Bytes) -> int:
    """The first of the largest of some scores, of those that are allowed, or of all where that is empty; -1
    for none.
    """
    found = -1
    for i in range(count):
        may = len(allowed) == 0 or allowed[i] != 0
        if may and (found < 0 or scores[begin + i] > scores[begin + found]):
            found = i
    return found


@fragment
def _sampled(scores: Doubles, begin: int, count: int, drawn: float) -> int:
    """The first choice up to which the shares of the softmax add up to more than what is drawn; -1 where none
    has a share. The scores become sums.
    """
    end, last = begin + count, -1
    top = scores[begin + largest(scores, begin, count, bytes_at(0, 0))]
    total = 0.0
    for i in range(begin, end):
        if scores[i] > -np.inf:
            last = i - begin
        total += math.exp(_relative(scores[i], top))
        scores[i] = total
    found = 0
    for i in range(begin, end):
        found += scores[i] / total <= drawn
    return min(found, last)


@fragment
def _drawn(words: int, vertex: int, decision: int) -> float:
    """A number from 0 to below 1 for a vertex, whatever mini-batch it is in.

    splitmix64's finaliser (Steele, Lea and Flood, OOPSLA 2014) of the instance's number in the file, the
    vertex's number among its kind, the kind, the decision's name and the seed.
    """
    state = longs_at(words, at.WORDS)
    number = longs_in(state, at.NUMBERS)[column(state, state[at.INSTANCE])[vertex + 1]]
    x = np.uint64(number) << np.uint64(32) | np.uint64(column(state, state[at.INDEX])[vertex + 1])
    x ^= np.uint64(column(state, state[at.KIND])[vertex + 1]) << np.uint64(24)
    salt = np.uint64(longs_in(state, at.SALTS)[decision])
    return fraction(mix(mix(x + salt) + np.uint64(GOLDEN)))


@fragment
def _relative(score: float, top: float) -> float:
    """A score less the largest; 0 for that, if infinite too."""
    return 0.0 if score == top else score - top


@fragment
def _log_total(scores: Doubles, begin: int, count: int, top: float) -> float:
    """The logarithm of the sum of scores' exponentials beside that of the largest, `top`.

    Exponentials are whole UNITs, to 5e-9, and exact at 0: by sums and products alone, each rounded, so that
    whoever does them has the same; they add up to the same in whatever order.
    """
    total = np.int64(0)
    for i in range(begin, begin + count):
        turned = max(_relative(scores[i], top), LEAST) * LOG2_E
        nearest = (turned + NEAREST) - NEAREST
        turned -= nearest
        power = _C7 * turned + _C6
        power = power * turned + _C5
        power = power * turned + _C4
        power = power * turned + _C3
        power = power * turned + _C2
        power = power * turned + _C1
        power = power * turned + _C0
        total += np.int64(((math.ldexp(power, int(nearest)) + IN_UNITS) - IN_UNITS) / UNIT)
    return math.log(np.float64(total) * UNIT)


@fragment
def _open_candidates(words: int, vertex: int) -> tuple[int, float]:
    """A vertex's instance, with what it has kept and has ended among its candidates, and how likely the
    hypothesis is.
    """
    state = longs_at(words, at.WORDS)
    instance, width = column(state, state[at.INSTANCE])[vertex + 1], state[at.BEAM]
    total, ended = doubles_in(state, at.PICK_TOTAL), bytes_in(state, at.PICK_ENDED)
    compared, kept = longs_in(state, at.BEAM_ROUND), ints_in(state, at.BEAM_KEPT)
    if compared[instance] != state[at.ROUND]:
        compared[instance] = state[at.ROUND]
        totals = doubles_in(state, at.BEAM_TOTAL)
        for i in range(instance * width, (instance + 1) * width):
            totals[i] = np.nan
        for i in range(instance * width, (instance + 1) * width):
            if kept[i] >= 0 and ended[kept[i]] != 0:
                _insert(words, instance, total[kept[i]], -1, kept[i])
    by = column(state, state[at.PICK])[vertex + 1]
    return instance, total[by] if by >= 0 else 0.0


@fragment
def _insert(words: int, instance: int, total: float, vertex: int, number: int) -> None:
    """Put a candidate among an instance's, the best first, behind equal ones; the last falls out.

    `vertex` is -1 of a hypothesis that has ended, whose pick `number` is then.
    """
    state = longs_at(words, at.WORDS)
    totals, vertices = doubles_in(state, at.BEAM_TOTAL), ints_in(state, at.BEAM_VERTEX)
    numbers = ints_in(state, at.BEAM_NUMBER)
    begin, place = instance * state[at.BEAM], (instance + 1) * state[at.BEAM]
    while place > begin and not totals[place - 1] >= total:  # one that is not a number is none
        place -= 1
        if place + 1 < begin + state[at.BEAM]:
            totals[place + 1] = totals[place]
            vertices[place + 1], numbers[place + 1] = vertices[place], numbers[place]
    if place < begin + state[at.BEAM]:
        totals[place], vertices[place], numbers[place] = total, vertex, number


@fragment
def _enter_best(words: int, a: int, j: int, begin: int) -> bool:
    """The best continuations of the j-th vertex become candidates; of equals the first. Whether the scores
    are numbers.

    What has no share is none, unless all have none: then the first that is allowed. Where nothing is, the
    hypothesis ends. The scores are changed.
    """
    state = longs_at(words, at.WORDS)
    steps, scores = ints_in(state, at.STEPS), doubles_in(state, at.SCORES)
    vertex, count = register(state, steps[a + VERTICES])[j], steps[a + COUNT]
    instance, before = _open_candidates(words, vertex)
    first = _first_allowed(words, a, j, begin)
    if first < 0:
        if first == -1:
            _insert(words, instance, before, vertex, -1)
        return first == -1
    found = largest(scores, begin, count, bytes_at(0, 0))
    top = scores[begin + found]
    whole = _log_total(scores, begin, count, top)
    found = found if top > -np.inf else first
    for _ in range(min(state[at.BEAM], count)):
        score = scores[begin + found]
        share = _relative(score, top) - whole
        _insert(words, instance, before + ((share + IN_UNITS) - IN_UNITS), vertex, found)
        scores[begin + found] = -np.inf
        found = largest(scores, begin, count, bytes_at(0, 0))
        if not scores[begin + found] > -np.inf:
            break
    return True


@fragment
def _keep_all(words: int) -> None:
    """Keep each instance's best candidates; the first alone if it has ended."""
    state = longs_at(words, at.WORDS)
    width, compared = state[at.BEAM], longs_in(state, at.BEAM_ROUND)
    state[at.PICK_FIRST] = state[at.PICK_NEXT]
    for instance in range(state[at.INSTANCE_FIRST], state[at.INSTANCE_LAST]):
        if compared[instance] == state[at.ROUND]:
            _keep(words, instance * width, width)


@fragment
def _keep(words: int, begin: int, width: int) -> None:
    """Those from `begin` on."""
    state = longs_at(words, at.WORDS)
    totals, vertices = doubles_in(state, at.BEAM_TOTAL), ints_in(state, at.BEAM_VERTEX)
    numbers = ints_in(state, at.BEAM_NUMBER)
    kept, pick = ints_in(state, at.BEAM_KEPT), ints_in(state, at.KEPT_PICK)
    when = ints_in(state, at.KEPT_ROUND)
    over = vertices[begin] < 0
    for i in range(begin, begin + width):
        kept[i] = -1
        if np.isnan(totals[i]) or (over and i > begin):
            continue
        kept[i] = numbers[i]
        if vertices[i] >= 0:
            kept[i] = new = state[at.PICK_NEXT]
            ints_in(state, at.PICK_VERTEX)[new] = vertices[i]
            ints_in(state, at.PICK_NUMBER)[new] = numbers[i]
            doubles_in(state, at.PICK_TOTAL)[new] = totals[i]
            bytes_in(state, at.PICK_ENDED)[new] = 1
            state[at.PICK_NEXT] = new + 1
        pick[state[at.KEPT_NEXT]] = kept[i]
        when[state[at.KEPT_NEXT]] = state[at.ROUND]
        state[at.KEPT_NEXT] += 1
