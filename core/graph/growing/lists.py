"""The steps of `walk` that are about lists, with machine code of their own: many models have none."""

from __future__ import annotations

from abw.core.graph.growing import state as at
from abw.core.graph.growing.state import column, register
from abw.core.graph.growing.walk import COUNT, LIST, MEMBER, MEMBERS, REDUCE
from abw.core.jit.addresses import ints_in, longs_at, longs_in
from abw.core.jit.decorators import entry, fragment


@entry
def lists(words: int) -> int:
    """Do a step REDUCE, or one from LIST to SPREAD; how many of the next steps are passed over."""
    state = longs_at(words, at.WORDS)
    steps, sizes, now = ints_in(state, at.STEPS), longs_in(state, at.SIZES), state[at.STEP]
    do, to, source = steps[now], steps[now + 1], steps[now + 2]
    a, b, e, over = steps[now + 3], steps[now + 4], steps[now + 7], 0
    out, vertices, n, k = register(state, to), register(state, source), sizes[source], 0
    if do == REDUCE:
        over = 0 if _reduce(words, now) else e
    elif do == LIST:
        _list(words, now)
    elif do == MEMBER:
        _member(words, now)
    elif do == COUNT:  # a, b, c: see `_range`; d: how many vertices may be added for each member
        for i in range(n):
            low, high = _range(words, now + 3, vertices[i])
            k += high - low
        state[at.MEMBERS] = max(state[at.MEMBERS], k * max(1, steps[now + 6]))
        state[at.ADDING] += k * steps[now + 6]
    elif do == MEMBERS:  # a: register of whose they are; b, c, d: see `_range`; e: column of members
        owner, members, data = register(state, a), column(state, e), ints_in(state, at.DATA)
        target = 0 if b < 0 else longs_in(state, at.LISTS)[2 * b + 1]
        for i in range(n):
            low, high = _range(words, now + 4, vertices[i])
            for place in range(low, high):
                out[k] = members[place + 1] if b < 0 else data[target + place] - state[at.BEGIN]
                owner[k] = i
                k += 1
        sizes[to] = sizes[a] = k
    else:  # a: register of ends: each value as often as its node has members
        ends = register(state, a)
        for i in range(n):
            for k in range(ends[i], ends[i + 1]):
                out[k] = vertices[i]
    return over


@fragment
def _range(words: int, a: int, vertex: int) -> tuple[int, int]:
    """Where a vertex's members begin and end. Arguments from `a` on: number of the list of the data, or the
    columns of a grown list's begin and end behind a -1.
    """
    state = longs_at(words, at.WORDS)
    steps = ints_in(state, at.STEPS)
    if steps[a] < 0:
        return column(state, steps[a + 1])[vertex + 1], column(state, steps[a + 2])[vertex + 1]
    if vertex < 0:
        return 0, 0
    data, place = ints_in(state, at.DATA), longs_in(state, at.LISTS)[2 * steps[a]] + vertex + state[at.BEGIN]
    return data[place], data[place + 1]


@fragment
def _list(words: int, a: int) -> None:
    """Make the lists of a round's vertices: members lie one after the other in a column, from the round's
    first vertex on. Arguments: the column of the link to the owner, none, those of the list's begin, its end,
    members.
    """
    state = longs_at(words, at.WORDS)
    steps, first, last = ints_in(state, at.STEPS), state[at.FIRST], state[at.LAST]
    owner, members = column(state, steps[a + 1]), column(state, steps[a + 5])
    low, high = column(state, steps[a + 3]), column(state, steps[a + 4])
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

    Arguments: that column, none, those of the list's begin, its end, members; the number.
    """
    state = longs_at(words, at.WORDS)
    steps = ints_in(state, at.STEPS)
    out, members, number = column(state, steps[a + 1]), column(state, steps[a + 5]), steps[a + 6]
    low, high = column(state, steps[a + 3]), column(state, steps[a + 4])
    for v in range(state[at.FIRST], state[at.LAST]):
        place = number + (low[v + 1] if number >= 0 else high[v + 1])
        out[v + 1] = members[place + 1] if low[v + 1] <= place < high[v + 1] else -1


@fragment
def _reduce(words: int, a: int) -> int:
    """Drop what is missing of lists; vertices with two values or more are nodes. How many have none.

    Arguments: the register of nodes' vertices, that of all vertices, that of members' owners, whether a value
    alone counts as missing, how many slots have lists, how many outputs. Register s has slot s's values. In
    the register behind the nodes' their lists end, behind a 0; in the following ones is what stands for the
    outputs of all vertices: the value where there is one alone; 0 for now where there is a node.
    """
    state = longs_at(words, at.WORDS)
    steps, sizes = ints_in(state, at.STEPS), longs_in(state, at.SIZES)
    to, several, slots, outputs = steps[a + 1], steps[a + 4], steps[a + 5], steps[a + 6]
    vertices, owner = register(state, steps[a + 2]), register(state, steps[a + 3])
    present = register(state, 0)
    nodes, ends = register(state, to), register(state, to + 1)
    n, k, filled, count, missing = sizes[steps[a + 3]], 0, 0, 0, 0
    ends[0] = 0
    for i in range(sizes[steps[a + 2]]):
        begin = filled
        while k < n and owner[k] == i:
            if present[k] != -1:
                for s in range(slots):
                    values = register(state, s)
                    values[filled] = values[k]
                filled += 1
            k += 1
        for o in range(outputs):
            alone = register(state, o)[begin] if filled - begin == 1 and not several else -1
            register(state, to + 2 + o)[i] = 0 if filled - begin > 1 else alone
        if filled - begin > 1:
            nodes[count], ends[count + 1] = vertices[i], filled
            count += 1
        else:
            missing += filled == begin or several
            filled = begin
    for o in range(outputs):
        sizes[to + 2 + o] = sizes[steps[a + 2]]
    sizes[to] = count
    return missing
