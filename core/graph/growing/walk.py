"""The compiled walk over a model's growth: what rounds compute, and which vertices come to be by decisions.

`bytecode.py` writes the steps, `state.py` names the words of the state. A step works on registers: lists of
vertices, rows, references, numbers or truths, an entry for each of the vertices that it is about. -1 stands
for none of any of them.

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

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.growing import state as at
from abw.core.graph.growing.choices import choose
from abw.core.graph.growing.launch import launch
from abw.core.graph.growing.state import column, entries, register, resize
from abw.core.jit.addresses import address_of, bytes_in, ints_in, longs_at, longs_in
from abw.core.jit.decorators import fragment, njit

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

# A step is one of these operations, and up to seven arguments: mostly the register to write, then those to
# read, then columns.
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
    steps = longs_in(state, at.STEPS)
    while step < end:
        a = FIELDS * step
        do = steps[a]
        if do <= REDUCE:
            if do == FILL_VALUES:
                missing = _fill_values(words, a)
            elif do == FILL_ROWS:
                missing = _fill_rows(words, a)
            else:
                missing = _reduce(words, a)
            if missing == 0:
                step += max(steps[a + OTHERWISE], 0)
            elif steps[a + OTHERWISE] < 0:
                return _fail(words, step)
        elif do == FOLLOW:
            _follow(words, steps[a + 1], steps[a + 2], steps[a + 3])
        elif do == FILL_CONSTANT:
            _fill_constant(words, steps[a + 1], steps[a + 2], steps[a + 3], steps[a + 4])
        elif do == FIELD:
            _field(words, steps[a + 1], steps[a + 2], steps[a + 3], steps[a + 4])
        elif do == SET_FIELD:
            _set_field(words, a)
        elif do == TEST:
            _test(words, a)
        elif do == SET:
            _set(words, steps[a + 1], steps[a + 2], steps[a + 3])
        elif do == SET_NUMBER:
            _set_number(words, steps[a + 1], steps[a + 2], steps[a + 3])
        elif do == ADD:
            _add(words, a)
        elif do == SELECT:
            _select(words, a)
        elif do == FILTER:
            _filter(words, a)
        elif do == MEMBERS:
            _members(words, a)
        elif do == COUNT:
            _count(words, a)
        elif do == SPREAD:
            _spread(words, steps[a + 1], steps[a + 2], steps[a + 3])
        elif do == GATHER:
            _gather(words, steps[a + 1], steps[a + 2], steps[a + 3])
        elif do == PICKED:
            _picked(words, steps[a + 1], steps[a + 2], steps[a + 3])
        elif do == LIST:
            _list(words, a)
        elif do == MEMBER:
            _member(words, a)
        elif do == LAUNCH:
            launch(words, a)
        elif not choose(words, a):
            return _fail_at(words, step)
        step += 1
    return True


@fragment
def _fail(words: int, step: int) -> bool:
    """Note at which vertex a step misses something."""
    state = longs_at(words, at.WORDS)
    steps, a, i = longs_in(state, at.STEPS), FIELDS * step, 0
    found, vertices = register(state, steps[a + 1]), register(state, -1 - steps[a + OTHERWISE])
    while found[i] != -1:
        i += 1
    state[at.FAILED_VERTEX] = vertices[i]
    return _fail_at(words, step)


@fragment
def _fail_at(words: int, step: int) -> bool:
    state = longs_at(words, at.WORDS)
    state[at.STATUS], state[at.FAILED_STEP] = at.FAILED, step
    return False


@fragment
def _select(words: int, a: int) -> None:
    """Into a register, the round's vertices of a group of kinds; of a group of origins, unless that is -1;
    also given ones."""
    state = longs_at(words, at.WORDS)
    steps, kind = longs_in(state, at.STEPS), column(state, state[at.KIND])
    out, group, origins, given = register(state, steps[a + 1]), steps[a + 2], steps[a + 3], steps[a + 4]
    wanted, some = bytes_in(state, at.GROUPS), bytes_in(state, at.ORIGINS)
    origin = column(state, max(state[at.ORIGIN], 0))
    v, n = state[at.FIRST], 0
    last, begin = state[at.LAST], group * state[at.KINDS_OF]
    if given:
        for g in range(state[at.GIVEN_FIRST], state[at.GIVEN_LAST]):
            if wanted[begin + kind[g + 1]]:
                out[n] = g
                n += 1
    while v < last:
        if wanted[begin + kind[v + 1]] and (origins < 0 or some[origins + origin[v + 1]]):
            out[n] = v
            n += 1
        v += 1
    resize(state, steps[a + 1], n)


@fragment
def _filter(words: int, a: int) -> None:
    """Into a register, those of another whose number in a column compares so with a constant."""
    state = longs_at(words, at.WORDS)
    steps = longs_in(state, at.STEPS)
    out, vertices, numbers = (
        register(state, steps[a + 1]),
        register(state, steps[a + 2]),
        column(state, steps[a + 3]),
    )
    n = 0
    for i in range(entries(state, steps[a + 2])):
        if _passes(numbers[vertices[i] + 1], steps[a + 4], steps[a + 5]):
            out[n] = vertices[i]
            n += 1
    resize(state, steps[a + 1], n)


@fragment
def _passes(value: int, test: int, against: int) -> bool:
    """Whether a number passes a test: see TESTS."""
    return value >= 0 and (test >> (1 + (value > against) - (value < against))) & 1 != 0


@fragment
def _follow(words: int, to: int, source: int, link: int) -> None:
    """Into a register, what a column says of the vertices in another."""
    state = longs_at(words, at.WORDS)
    out, vertices, there, n = (
        register(state, to),
        register(state, source),
        column(state, link),
        entries(state, source),
    )
    for i in range(n):
        out[i] = there[vertices[i] + 1]
    resize(state, to, n)


@fragment
def _list(words: int, a: int) -> None:
    """Make the lists of a round's vertices: members lie one after the other in a column, from the round's
    first vertex on. Arguments: the columns of the link to the owner, of the list's begin, its end, members.
    """
    state = longs_at(words, at.WORDS)
    steps = longs_in(state, at.STEPS)
    owner, low, high = (
        column(state, steps[a + 1]),
        column(state, steps[a + 2]),
        column(state, steps[a + 3]),
    )
    members, first, last = column(state, steps[a + 4]), state[at.FIRST], state[at.LAST]
    for v in range(first, last):
        high[v + 1] = 0
    for v in range(first, last):
        if owner[v + 1] >= 0:
            high[owner[v + 1] + 1] += 1
    place = first
    for v in range(first, last):
        size = high[v + 1]
        low[v + 1] = high[v + 1] = place
        place += size
    for v in range(first, last):
        if owner[v + 1] >= 0:
            members[high[owner[v + 1] + 1] + 1] = v
            high[owner[v + 1] + 1] += 1


@fragment
def _member(words: int, a: int) -> None:
    """Into a column, one of each vertex's members, counted from the front or, below 0, from the end.

    Arguments: that column, those of the list's begin, its end, members; the number.
    """
    state = longs_at(words, at.WORDS)
    steps = longs_in(state, at.STEPS)
    out, low, high, members = (
        column(state, steps[a + 1]),
        column(state, steps[a + 2]),
        column(state, steps[a + 3]),
        column(state, steps[a + 4]),
    )
    for v in range(state[at.FIRST], state[at.LAST]):
        place = steps[a + 5] + (low[v + 1] if steps[a + 5] >= 0 else high[v + 1])
        out[v + 1] = members[place + 1] if low[v + 1] <= place < high[v + 1] else -1


@fragment
def _range(words: int, a: int, vertex: int) -> tuple[int, int]:
    """Where a vertex's members begin and end. Arguments from `a` on: number of the list of the data, or the
    columns of a grown list's begin and end behind a -1.
    """
    state = longs_at(words, at.WORDS)
    steps = longs_in(state, at.STEPS)
    if steps[a] < 0:
        return column(state, steps[a + 1])[vertex + 1], column(state, steps[a + 2])[vertex + 1]
    if vertex < 0:
        return 0, 0
    data, place = ints_in(state, at.DATA), longs_in(state, at.LISTS)[2 * steps[a]] + vertex + state[at.BEGIN]
    return data[place], data[place + 1]


@fragment
def _count(words: int, a: int) -> None:
    """Count the members of the vertices in a register: see `_range`; behind it how many vertices may be added
    for each.
    """
    state = longs_at(words, at.WORDS)
    steps, total = longs_in(state, at.STEPS), 0
    vertices = register(state, steps[a + 1])
    for i in range(entries(state, steps[a + 1])):
        low, high = _range(words, a + 2, vertices[i])
        total += high - low
    state[at.MEMBERS] = max(state[at.MEMBERS], total * max(1, steps[a + 5]))
    state[at.ADDING] += total * steps[a + 5]


@fragment
def _members(words: int, a: int) -> None:
    """Into a register, the members of lists one after the other, into another of which entry each is.

    Arguments: the two, the register of who has the lists, `_range`'s three; the column of grown members.
    """
    state = longs_at(words, at.WORDS)
    steps, n = longs_in(state, at.STEPS), 0
    out, owner, vertices = (
        register(state, steps[a + 1]),
        register(state, steps[a + 2]),
        register(state, steps[a + 3]),
    )
    grown = steps[a + 4] < 0
    members, data = column(state, steps[a + 7]), ints_in(state, at.DATA)
    target = 0 if grown else longs_in(state, at.LISTS)[2 * steps[a + 4] + 1]
    for i in range(entries(state, steps[a + 3])):
        low, high = _range(words, a + 4, vertices[i])
        for place in range(low, high):
            out[n] = members[place + 1] if grown else data[target + place] - state[at.BEGIN]
            owner[n] = i
            n += 1
    resize(state, steps[a + 1], n)
    resize(state, steps[a + 2], n)


@fragment
def _fill_values(words: int, a: int) -> int:
    """Fill a register with the values that a column says of the vertices in another, or of those to which a
    link leads from there (-1: none): where it has none yet, or anew. How many are missing still.

    Arguments: the two, the column of the link, that of the values, whether anew.
    """
    state = longs_at(words, at.WORDS)
    steps = longs_in(state, at.STEPS)
    out, vertices, n = (
        register(state, steps[a + 1]),
        register(state, steps[a + 2]),
        entries(state, steps[a + 2]),
    )
    link, fresh, missing = steps[a + 3], steps[a + 5], 0
    way, there = column(state, max(link, 0)), column(state, steps[a + 4])
    for i in range(n):
        if fresh or out[i] == -1:
            vertex = vertices[i] if link < 0 else way[vertices[i] + 1]
            out[i] = value = there[vertex + 1]
            missing += value == -1
    if fresh:
        resize(state, steps[a + 1], n)
    return missing


@fragment
def _fill_rows(words: int, a: int) -> int:
    """The same of rows of a constant that a column says: arguments as there, then the constant, and what is
    done with the row: 0 nothing, k > 0 modulo k, k < 0: none from -k on.
    """
    state = longs_at(words, at.WORDS)
    steps = longs_in(state, at.STEPS)
    out, vertices, rows = (
        register(state, steps[a + 1]),
        register(state, steps[a + 2]),
        column(state, steps[a + 3]),
    )
    fresh, base, limit, sign = (
        steps[a + 4],
        longs_in(state, at.BASES)[steps[a + 5]],
        steps[a + 6],
        state[at.SIGN],
    )
    n, missing = entries(state, steps[a + 2]), 0
    for i in range(n):
        if fresh or out[i] == -1:
            row = int(rows[vertices[i] + 1])
            if row >= 0 and limit > 0:
                row = int(row % limit)
            elif limit < 0 and row >= -limit:
                row = -1
            out[i] = base + sign * row if row >= 0 else -1
            missing += row < 0
    if fresh:
        resize(state, steps[a + 1], n)
    return missing


@fragment
def _fill_constant(words: int, to: int, source: int, constant: int, fresh: int) -> None:
    """The same of a constant of one row."""
    state = longs_at(words, at.WORDS)
    out, base, n = register(state, to), longs_in(state, at.BASES)[constant], entries(state, source)
    for i in range(n):
        if fresh or out[i] == -1:
            out[i] = base
    if fresh:
        resize(state, to, n)


@fragment
def _reduce(words: int, a: int) -> int:
    """Drop what is missing of lists; vertices with two values or more go into a register.

    Arguments: the register of all vertices, that of members' owners, the first of the slots' values, how many
    slots have lists, how many outputs; the register of nodes' vertices. In the next one their lists end,
    behind a 0; in the following ones is what stands for the outputs of all vertices: the value where there is
    one alone; 0 for now where there is a node. How many are missing.
    """
    state = longs_at(words, at.WORDS)
    steps = longs_in(state, at.STEPS)
    vertices, owner, present = (
        register(state, steps[a + 1]),
        register(state, steps[a + 2]),
        register(state, steps[a + 3]),
    )
    slots, outputs, to = steps[a + 4], steps[a + 5], steps[a + 6]
    nodes, ends = register(state, to), register(state, to + 1)
    n, k, filled, count, missing = entries(state, steps[a + 2]), 0, 0, 0, 0
    ends[0] = 0
    for i in range(entries(state, steps[a + 1])):
        begin = filled
        while k < n and owner[k] == i:
            if present[k] != -1:
                for s in range(slots):
                    values = register(state, steps[a + 3] + s)
                    values[filled] = values[k]
                filled += 1
            k += 1
        for o in range(outputs):
            first = register(state, steps[a + 3] + o)[begin] if filled - begin == 1 else -1
            register(state, to + 2 + o)[i] = 0 if filled - begin > 1 else first
        if filled - begin > 1:
            nodes[count], ends[count + 1] = vertices[i], filled
            count += 1
        else:
            missing += filled == begin
            filled = begin
    resize(state, to, count)
    for s in range(slots):
        resize(state, steps[a + 3] + s, filled)
    for o in range(outputs):
        resize(state, to + 2 + o, entries(state, steps[a + 1]))
    return missing


@fragment
def _spread(words: int, to: int, source: int, ends: int) -> None:
    """Into a register, the value of each node as often as it has members, whose ends are in a third one."""
    state = longs_at(words, at.WORDS)
    out, values, end = register(state, to), register(state, source), register(state, ends)
    for i in range(entries(state, source)):
        for k in range(end[i], end[i + 1]):
            out[k] = values[i]


@fragment
def _field(words: int, to: int, source: int, number: int, plus: int) -> None:
    """Into a register, the numbers that a column says of vertices, or those in the register where it is -1;
    and `plus`.
    """
    state = longs_at(words, at.WORDS)
    out, vertices, n = register(state, to), register(state, source), entries(state, source)
    numbers = column(state, max(number, 0))
    for i in range(n):
        found = vertices[i] if number < 0 else numbers[vertices[i] + 1]
        out[i] = max(np.int32(found + plus), -1) if found >= 0 else -1
    resize(state, to, n)


@fragment
def _test(words: int, a: int) -> None:
    """Into a register, whether numbers in another pass a test, or do not if it is negated; and what a further
    one says (-1: nothing). Arguments: the two, the test, the number to compare with, negated, the third; the
    column that has the numbers of the vertices in the second, -1 if that has them.
    """
    state = longs_at(words, at.WORDS)
    steps = longs_in(state, at.STEPS)
    source, test, against, negated, also = (
        steps[a + 2],
        steps[a + 3],
        steps[a + 4],
        steps[a + 5],
        steps[a + 6],
    )
    out, values, n = register(state, steps[a + 1]), register(state, source), entries(state, source)
    other, numbers = register(state, max(also, 0)), column(state, max(steps[a + 7], 0))
    for i in range(n):
        value = values[i] if steps[a + 7] < 0 else numbers[values[i] + 1]
        out[i] = (_passes(value, test, against) != (negated != 0)) and (also < 0 or other[i] != 0)
    resize(state, steps[a + 1], n)


@fragment
def _gather(words: int, to: int, source: int, owner: int) -> None:
    """Into a register, the entries of another whose numbers a third one has."""
    state = longs_at(words, at.WORDS)
    out, values, which, n = (
        register(state, to),
        register(state, source),
        register(state, owner),
        entries(state, owner),
    )
    for k in range(n):
        out[k] = values[which[k]]
    resize(state, to, n)


@fragment
def _picked(words: int, to: int, numbers: int, picks: int) -> None:
    """Into registers, the vertices of the round's picks, what was picked, and the picks' own numbers."""
    state = longs_at(words, at.WORDS)
    vertex, number, first = (
        ints_in(state, at.PICK_VERTEX),
        ints_in(state, at.PICK_NUMBER),
        state[at.PICK_FIRST],
    )
    n = state[at.PICK_NEXT] - first
    for i in range(n):
        register(state, to)[i], register(state, numbers)[i] = vertex[first + i], number[first + i]
        register(state, picks)[i] = first + i
    resize(state, to, n)
    resize(state, numbers, n)
    resize(state, picks, n)


@fragment
def _add(words: int, a: int) -> None:
    """New vertices of a kind where a register says so and there is room; the new ones into a register.

    Arguments: that register, the one of the deciding vertices, the one that says where (-1: everywhere), the
    number of the growing kind; the register of picks by which they come (-1: none), whether the pick's
    hypothesis goes on by that; their origin.
    """
    state = longs_at(words, at.WORDS)
    steps = longs_in(state, at.STEPS)
    out, vertices, where = (
        register(state, steps[a + 1]),
        register(state, steps[a + 2]),
        register(state, max(steps[a + 3], 0)),
    )
    grown, by, goes_on, origin = steps[a + 4], steps[a + 5], steps[a + 6], steps[a + 7]
    picks, ended = register(state, max(by, 0)), bytes_in(state, at.PICK_ENDED)
    kind, most = longs_in(state, at.KINDS)[grown], longs_in(state, at.MOST)[grown]
    count, cut = longs_in(state, at.COUNT), bytes_in(state, at.CUT)
    instance, home = column(state, state[at.INSTANCE]), column(state, state[at.HOME])
    n, new = entries(state, steps[a + 2]), state[at.NEXT]
    for i in range(n):
        out[i] = -1
        if steps[a + 3] >= 0 and where[i] == 0:
            continue
        v = vertices[i] + 1
        place = kind * state[at.INSTANCES] + instance[v]
        if count[place] >= most:
            cut[place] = 1
            continue
        column(state, state[at.KIND])[new + 1] = kind
        column(state, state[at.INDEX])[new + 1] = count[place]
        column(state, state[at.IN_ROUND])[new + 1] = state[at.ROUND]
        instance[new + 1] = instance[v]
        home[new + 1] = home[v] if home[v] >= 0 else v - 1
        if state[at.ORIGIN] >= 0:
            column(state, state[at.ORIGIN])[new + 1] = origin
        if by >= 0:
            column(state, state[at.PICK])[new + 1] = picks[i]
            if goes_on:
                ended[picks[i]] = 0
        count[place] += 1
        out[i] = new
        new += 1
    state[at.NEXT] = new
    resize(state, steps[a + 1], n)


@fragment
def _set(words: int, to: int, source: int, values: int) -> None:
    """Write into a column, of the vertices in a register, what another one has."""
    state = longs_at(words, at.WORDS)
    out, vertices, value = column(state, to), register(state, source), register(state, values)
    for i in range(entries(state, source)):
        if vertices[i] >= 0:
            out[vertices[i] + 1] = value[i]


@fragment
def _set_field(words: int, a: int) -> None:
    """Write into a column, of the vertices in a register, the numbers that another column says of those in a
    second one, and so much more. Arguments: column, registers, column, number.
    """
    state = longs_at(words, at.WORDS)
    steps = longs_in(state, at.STEPS)
    out, vertices, others, numbers = (
        column(state, steps[a + 1]),
        register(state, steps[a + 2]),
        register(state, steps[a + 3]),
        column(state, steps[a + 4]),
    )
    for i in range(entries(state, steps[a + 2])):
        if vertices[i] >= 0:
            found = numbers[others[i] + 1]
            out[vertices[i] + 1] = max(np.int32(found + steps[a + 5]), -1) if found >= 0 else -1


@fragment
def _set_number(words: int, to: int, source: int, value: int) -> None:
    """Write the same number into a column of the vertices in a register."""
    state = longs_at(words, at.WORDS)
    out, vertices = column(state, to), register(state, source)
    for i in range(entries(state, source)):
        if vertices[i] >= 0:
            out[vertices[i] + 1] = value


# What `run` is to do: add what instances begin with, the first round's vertices; go on round after round
# until RUNNING ends, where kernels are called by address; begin a round that others compute or decide; say
# what it computes; make its decisions; do its clauses.
BEGIN, GO_ON, OPEN, COLLECT, CHOOSE_ALL, ADD_ALL = range(6)


@njit
def run(state: Longs, task: int) -> None:
    """Do one of the above. A single function: each that Python calls takes a second to compile."""
    words, first = address_of(state), state[at.NEXT]
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


@fragment
def _collect(words: int) -> None:
    """Number a round's nodes, type after type from TAKEN on, write what they read, and note their values."""
    state = longs_at(words, at.WORDS)
    nodes, first = longs_in(state, at.NODES), state[at.TAKEN]
    for t in range(len(nodes)):
        nodes[t] = 0
    for counted in range(2):
        state[at.NODE_COUNT] = state[at.OPERANDS] = 0
        walk(words, state[at.FEED], state[at.DECIDE])
        for t in range(0 if counted else len(nodes)):
            nodes[t], first = first, first + nodes[t]


@fragment
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
