"""The compiled walk over a model's growth: what rounds compute, and which vertices decisions create.

`bytecode.py` writes the steps, `state.py` names the words of the state. A step works on registers: lists of
vertices, rows, references, numbers or truths, an entry for each of the vertices that it is about. -1 stands
for none of any of them; what is true is anything else.

Where an executor's kernels can be called by address, `run` goes on until growth ends. For others it says what
a round computes, and goes on from the scores; who knows the decisions already writes them where it would
choose.

Values are rows of arenas where kernels are called by address; elsewhere references, those of constants, which
are negative, less one (`encoded`).

An example, greedy decoding: ROOM selects the round's steps as register 4. FEED follows the column `prev` from
there to register 5, fills register 0 with the rows of the decoder's outputs there (FILL_VALUES), where there
is none with those of the encoder, and LAUNCHes the decoder, which notes its rows in columns. DECIDE chooses
words into a column, GROW tests them (TEST), and adds steps (ADD) whose links and fields it SETs.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.growing import state as at
from abw.core.graph.growing.choices import choose
from abw.core.graph.growing.launch import launch
from abw.core.graph.growing.state import column, register
from abw.core.jit.addresses import ask, bytes_in, ints_in, longs_at, longs_in
from abw.core.jit.decorators import address_of_code, ask_code, entry, fragment, within
from abw.core.jit.pointers import address

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

# A step is one of these operations, and up to seven arguments: mostly the register to write, and the one to
# read, whose entries are the step's vertices; then those that the walk names.
FIELDS = 8
(
    FILL_VALUES, FILL_ROWS, REDUCE,
    FILL_CONSTANT, FOLLOW, TEST, SET, SET_FIELD, SET_NUMBER, ADD,
    SELECT, FILTER, FIELD, GATHER, PICKED, LIST, MEMBER, COUNT, MEMBERS, SPREAD,
    LAUNCH, CHOOSE,
) = range(22)  # fmt: skip

# The last argument of the first three: how many steps to pass over where nothing is missing; or, below 0,
# that the walk fails where something is, which inputs at the vertices in register `-1 - argument` need.
OTHERWISE = 7

# A test says which outcomes of a comparison pass, a bit each: less, equal, more. What is none never passes.
TESTS = {"<": 1, "==": 2, "<=": 3, ">": 4, "!=": 5, ">=": 6}
POSITIVE, THERE, ALWAYS = TESTS[">"], TESTS[">="], 7


@fragment
def walk(words: int, step: int, end: int) -> bool:
    """Do the steps up to an end; False, and FAILED, where one fails."""
    state = longs_at(words, at.WORDS)
    steps, sizes = ints_in(state, at.STEPS), longs_in(state, at.SIZES)
    while step < end:
        now = FIELDS * step
        do, to, source = steps[now], steps[now + 1], steps[now + 2]
        a, b, c, d, e = steps[now + 3], steps[now + 4], steps[now + 5], steps[now + 6], steps[now + 7]
        out, vertices, n = register(state, to), register(state, source), sizes[source]
        if do == FILL_VALUES:  # a: column of a link to follow, or -1; b: of the values; c: whether anew
            way, there, missing = column(state, max(a, 0)), column(state, b), 0
            for i in range(n):
                if c or out[i] == -1:
                    reached = there[(vertices[i] if a < 0 else way[vertices[i] + 1]) + 1]
                    out[i] = reached
                    missing += reached == -1
            sizes[to] = n
            if missing == 0:
                step += max(e, 0)
            elif e < 0:
                return _fail(words, step)
        elif do == FILL_ROWS:  # a: column, b: whether anew, c: constant, d: rows
            # (of a row the remainder is taken; below 0: there are -d; 0: as it is)
            rows, base, missing = column(state, a), longs_in(state, at.BASES)[c], 0
            for i in range(n):
                if b or out[i] == -1:
                    row = int(rows[vertices[i] + 1])
                    row = int(row % d) if row >= d > 0 else row
                    there_is = row >= 0 and (d >= 0 or row < -d)
                    out[i] = base + state[at.SIGN] * row if there_is else -1
                    missing += not there_is
            sizes[to] = n
            if missing == 0:
                step += max(e, 0)
            elif e < 0:
                return _fail(words, step)
        elif do == FILL_CONSTANT:  # a: constant, b: whether anew
            base = longs_in(state, at.BASES)[a]
            for i in range(n):
                if b or out[i] == -1:
                    out[i] = base
            sizes[to] = n
        elif do == FOLLOW:  # a: column of a link, b: of one from there, or -1
            way, onwards = column(state, a), column(state, max(b, 0))
            for i in range(n):
                reached = way[vertices[i] + 1]
                out[i] = reached if b < 0 else onwards[reached + 1]
            sizes[to] = n
        elif do == FIELD:  # a: column of numbers, or -1: the entries are numbers; b: plus
            numbers = column(state, max(a, 0))
            for i in range(n):
                out[i] = _plus(vertices[i] if a < 0 else numbers[vertices[i] + 1], b)
            sizes[to] = n
        elif do == TEST:  # a: test, b: against, c: whether negated, d: what else holds, e: as FIELD's a
            numbers, other = column(state, max(e, 0)), register(state, max(d, 0))
            for i in range(n):
                value = vertices[i] if e < 0 else numbers[vertices[i] + 1]
                out[i] = ((_passes(value, a, b) != (c != 0)) and (d < 0 or other[i] >= 0)) - 1
            sizes[to] = n
        elif do == SET:  # to: column, a: register of values
            written, values = column(state, to), register(state, a)
            for i in range(n):
                if vertices[i] >= 0:
                    written[vertices[i] + 1] = values[i]
        elif do == SET_FIELD:  # to: column, a: register of other vertices, b: column of numbers, c: plus
            written, others, numbers = column(state, to), register(state, a), column(state, b)
            for i in range(n):
                if vertices[i] >= 0:
                    written[vertices[i] + 1] = _plus(numbers[others[i] + 1], c)
        elif do == SET_NUMBER:  # to: column, a: number
            written = column(state, to)
            for i in range(n):
                if vertices[i] >= 0:
                    written[vertices[i] + 1] = a
        elif do == ADD:
            _add(words, now)
        elif do == FILTER:  # a: column, b: test, c: against
            numbers, k = column(state, a), 0
            for i in range(n):
                if _passes(numbers[vertices[i] + 1], b, c):
                    out[k] = vertices[i]
                    k += 1
            sizes[to] = k
        elif do == GATHER:  # source: numbers of entries, a: register of these
            values = register(state, a)
            for i in range(n):
                out[i] = values[vertices[i]]
            sizes[to] = n
        elif do == PICKED:  # the vertices of the round's picks; a, b: registers of their choices, numbers
            first, numbers, picks = state[at.PICK_FIRST], register(state, a), register(state, b)
            n = sizes[to] = sizes[a] = sizes[b] = state[at.PICK_NEXT] - first
            for i in range(n):
                out[i] = ints_in(state, at.PICK_VERTEX)[first + i]
                numbers[i], picks[i] = ints_in(state, at.PICK_NUMBER)[first + i], first + i
        elif do == SELECT:
            sizes[to] = _select(words, now)
        elif do == LAUNCH:
            launch(words, now)
        elif do == CHOOSE:
            if not choose(words, now):
                return _fail(words, step)
        else:  # see `lists`
            state[at.STEP] = now
            step += ask(state[at.BY_LISTS], words)
        step += 1
    return True


@fragment
def _fail(words: int, step: int) -> bool:
    """Note the step, and where it is to fill a register, the first vertex that has nothing there."""
    state = longs_at(words, at.WORDS)
    steps, now, i = ints_in(state, at.STEPS), FIELDS * step, 0
    state[at.STATUS], state[at.FAILED_STEP] = at.FAILED, step
    if steps[now] <= FILL_ROWS:
        while register(state, steps[now + 1])[i] != -1:
            i += 1
        state[at.FAILED_VERTEX] = register(state, -1 - steps[now + OTHERWISE])[i]
    return False


@fragment
def _passes(value: int, test: int, against: int) -> bool:
    """Whether a number passes a test: see TESTS."""
    return value >= 0 and (test >> (1 + (value > against) - (value < against))) & 1 != 0


@fragment
def _plus(number: int, plus: int) -> int:
    """A number and so much more, -1 where there is none."""
    return max(int(np.int32(number + plus)), -1) if number >= 0 else -1


@within
def _select(words: int, a: int) -> int:
    """Into a register, the round's vertices of a group of kinds; of a group of origins, unless that is -1;
    also given ones. Their number. Arguments behind the register: none, the two, whether given ones.
    """
    state = longs_at(words, at.WORDS)
    steps, n = ints_in(state, at.STEPS), 0
    out, kind = register(state, steps[a + 1]), column(state, state[at.KIND])
    origin = column(state, max(state[at.ORIGIN], 0))
    wanted, some = bytes_in(state, at.GROUPS), bytes_in(state, at.ORIGINS)
    group, origins = steps[a + 3] * state[at.KINDS_OF], steps[a + 4]
    for v in range(state[at.GIVEN_FIRST], state[at.GIVEN_LAST] if steps[a + 5] else 0):
        if wanted[group + kind[v + 1]]:
            out[n] = v
            n += 1
    for v in range(state[at.FIRST], state[at.LAST]):
        if wanted[group + kind[v + 1]] and (origins < 0 or some[origins + origin[v + 1]]):
            out[n] = v
            n += 1
    return n


@within
def _add(words: int, a: int) -> None:
    """New vertices of a kind where a register says so and there is room; the new ones into a register.

    Arguments: that register, the one of the deciding vertices, the one that says where (-1: everywhere), the
    number of the growing kind; the register of picks by which they come (-1: none), whether the pick's
    hypothesis goes on by that; their origin.
    """
    state = longs_at(words, at.WORDS)
    steps, new = ints_in(state, at.STEPS), state[at.NEXT]
    source, grown, by, goes_on = steps[a + 2], steps[a + 4], steps[a + 5], steps[a + 6]
    out, vertices = register(state, steps[a + 1]), register(state, source)
    where, picks = register(state, max(steps[a + 3], 0)), register(state, max(by, 0))
    kind, most = longs_in(state, at.KINDS)[grown], longs_in(state, at.MOST)[grown]
    count, instance = longs_in(state, at.COUNT), column(state, state[at.INSTANCE])
    home = column(state, state[at.HOME])
    for i in range(longs_in(state, at.SIZES)[source]):
        out[i] = -1
        if steps[a + 3] >= 0 and where[i] < 0:
            continue
        v = vertices[i] + 1
        place = kind * state[at.INSTANCES] + instance[v]
        if count[place] >= most:
            cut = ints_in(state, at.CUT)
            cut[place] = cut[place] if cut[place] != 0 else state[at.ROUND]
            continue
        column(state, state[at.KIND])[new + 1] = kind
        column(state, state[at.INDEX])[new + 1] = count[place]
        column(state, state[at.IN_ROUND])[new + 1] = state[at.ROUND]
        instance[new + 1] = instance[v]
        home[new + 1] = home[v] if home[v] >= 0 else v - 1
        if state[at.ORIGIN] >= 0:
            column(state, state[at.ORIGIN])[new + 1] = steps[a + 7]
        if by >= 0:
            column(state, state[at.PICK])[new + 1] = picks[i]
            if goes_on:
                bytes_in(state, at.PICK_ENDED)[picks[i]] = 0
        count[place] += 1
        out[i] = new
        new += 1
    state[at.NEXT] = new
    longs_in(state, at.SIZES)[steps[a + 1]] = longs_in(state, at.SIZES)[source]


# What `run` is to do: add what instances begin with, the first round's vertices; go on round after round
# until RUNNING ends, where kernels are called by address; begin a round that others compute or decide; say
# what it computes; make its decisions; do its clauses.
BEGIN, GO_ON, OPEN, COLLECT, CHOOSE_ALL, ADD_ALL = range(6)


@entry
def run(words: int) -> int:
    """Do the TASK. A single function, called by its address: each takes seconds to compile."""
    state = longs_at(words, at.WORDS)
    task, first = state[at.TASK], state[at.NEXT]
    if task == GO_ON:
        state[at.STATUS] = at.RUNNING
        while state[at.STATUS] == at.RUNNING:
            first = state[at.NEXT]
            if _prepare(words) and walk(words, state[at.FEED], state[at.STOP]):
                _advance(words, first)
    elif task == OPEN:
        state[at.STATUS] = at.RUNNING
        _prepare(words)
    elif task == COLLECT:
        _collect(words)
    elif task == CHOOSE_ALL:
        state[at.SCORED] = 0
        walk(words, state[at.DECIDE], state[at.GROW])
    elif task == ADD_ALL:
        walk(words, state[at.GROW], state[at.STOP])
        _advance(words, first)
    else:
        walk(words, state[at.START], state[at.ROOM])
        state[at.FIRST], state[at.LAST] = first, state[at.NEXT]
    return at.DONE


@cache
def code() -> int:
    """Where the machine code of `run` lies, compiled or loaded now."""
    return address_of_code(run)


def do(state: Longs, task: int) -> None:
    """Let the walk do one of the above on a state."""
    state[at.TASK] = task
    ask_code(code(), address(state))


@fragment
def _collect(words: int) -> None:
    """Number a round's nodes from TAKEN on, step after step, write what they read, and note their values."""
    state = longs_at(words, at.WORDS)
    state[at.NODE_COUNT] = state[at.OPERANDS] = 0
    walk(words, state[at.FEED], state[at.DECIDE])


@within
def _prepare(words: int) -> bool:
    """Make the next round's lists, and begin it if there is room for all that may come of it; else FULL."""
    state = longs_at(words, at.WORDS)
    now = state[at.LAST] - state[at.FIRST] + state[at.GIVEN_LAST] - state[at.GIVEN_FIRST]
    most = now * max(state[at.BEAM], 1)
    state[at.NOW], state[at.ADDING], state[at.MEMBERS] = now, now * state[at.MOST_ADDED], most
    fits = most + 2 <= state[at.ENTRIES]
    if fits:
        walk(words, state[at.ROOM], state[at.FEED])
        fits = state[at.MEMBERS] + 2 <= state[at.ENTRIES]
    fits = fits and state[at.NEXT] + state[at.ADDING] <= state[at.END]
    if state[at.BEAM] > 0:  # what is kept is never less than what is picked
        fits = fits and state[at.KEPT_NEXT] + most <= state[at.KEPT_END]
    fits = fits and (state[at.ROUND] + 2) * state[at.STEPS_EACH] <= state[at.LAUNCHED + 1]
    if state[at.LOOKS] > 0:
        nodes, operands = now * state[at.STEPS_EACH], state[at.MEMBERS] * state[at.OPERANDS_EACH]
        fits = fits and state[at.DISTINCT] + nodes <= state[at.AT + 1]
        fits = fits and longs_in(state, at.USED)[0] + operands + 3 * nodes <= state[at.KEYS + 1]
    rows = longs_in(state, at.ROWS)
    for a in range(0, len(rows), 3):
        fits = fits and rows[a] + now * rows[a + 2] <= rows[a + 1]
    if fits:
        state[at.ROUND] += 1
    else:
        state[at.STATUS] = at.FULL
    return bool(fits)


@fragment
def _advance(words: int, first: int) -> None:
    """Let the next round be of the vertices from `first` on, if there are any."""
    state = longs_at(words, at.WORDS)
    count = state[at.NEXT] - first
    state[at.FIRST], state[at.LAST], state[at.GIVEN_LAST] = first, state[at.NEXT], state[at.GIVEN_FIRST]
    state[at.LEFT] -= count
    if count == 0:
        state[at.STATUS] = at.DONE
    elif state[at.LEFT] <= 0:
        state[at.STATUS] = at.PAUSED
