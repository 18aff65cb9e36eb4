"""The stage that binds a model's names to what was read: `abw.core.graph.bind`, as steps over registers.

A register says where arrays lie in the block, as offsets of 32-bit integers: of a type its vertices, and how
many they are; of a link its offsets (-1: a single one) and targets; of a field its numbers and -1; of texts
where each begins and ends. The first registers are what `Binding.tables` has.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.data.derive import _count
from abw.core.data.intern import hash_pieces
from abw.core.graph.bind import _select
from abw.core.jit.addresses import (
    bools_at,
    bytes_at,
    floats_at,
    hashes_at,
    ints_at,
    longs_at,
    longs_in,
    text_at,
)
from abw.core.jit.decorators import entry, fragment
from abw.core.jit.splitmix import GOLDEN, mix
from abw.core.run.onepass import build
from abw.core.run.onepass import state as at
from abw.core.run.onepass.state import APART, FINE, MORE, Ints, clear, full, spare, take
from abw.core.run.onepass.vocabulary import row_of

# A step is one of these operations, the register that it fills, and up to six arguments.
WIDTH = 8
# What another register has; vertices of some kinds; those of a register whose number passes a comparison.
SAME, SELECT, FILTER = range(3)
# Links: one that no vertex has; to the first of a tree's children; from an instance to its first or last
# vertex; to the instance, from all but that (OWNER), from all (HOME), from those of some kinds (MEMBERS); to
# the vertex before or behind, of the same kind, or of some kinds; to one of those
# to which another link leads.
NONE, FIRST_CHILD, EDGE, OWNER, HOME, MEMBERS, ADJACENT, FOLLOWING, ONE = range(3, 12)
# Links to several: a link the other way round; to where a link leads from each vertex, or a list's members.
INVERSE, ALONG = range(12, 14)
# Numbers: of a vertex among its kind, the coin, a text's hash modulo rows, its row in a vocabulary, a number
# that is below so many; the row of a field of numbers that flows in as floats, and of one of floats.
INDEX, COIN, HASHED, WORD, BELOW, FLOWING, PLACED = range(14, 21)

# The comparisons of FILTER, as `abw.core.graph.bind.passes` has them.
EQUAL, UNEQUAL, LESS, AT_MOST, MORE_THAN, AT_LEAST = range(6)
# In place of the number of one of a link's edges: all of them.
EVERY = 1 << 31


@entry
def bind(words: int) -> int:
    """Do all steps; MORE without room."""
    state = longs_at(words, at.WORDS)
    steps = longs_in(state, at.BINDING)
    state[at.TABLES], state[at.TABLES + 1] = state[at.REGISTERS], state[at.REGISTERS + 1]
    if state[at.VERTICES] > state[at.MOST_VERTICES]:
        return APART
    state[at.DATA_AT], state[at.FIRST], state[at.LAST] = state[at.BLOCK], 0, state[at.COUNT]
    for a in range(0, len(steps), WIDTH):
        do = steps[a]
        if do == SAME:
            registers, to, first = longs_in(state, at.REGISTERS), 2 * steps[a + 1], 2 * steps[a + 2]
            registers[to], registers[to + 1] = registers[first], registers[first + 1]
        elif do <= FILTER:
            _vertices(words, a)
        elif do <= ONE:
            _single(words, a)
        elif do <= ALONG:
            _list(words, a)
        elif do <= BELOW:
            _numbers(words, a)
        else:
            _flow(words, a)
        if full(words):
            return MORE
    return FINE


@fragment
def _begin(words: int, count: int, register: int, half: int) -> Ints:
    """Room for so many numbers, which half of a register tells of; see `full`."""
    state = longs_at(words, at.WORDS)
    _say(words, register, half, state[at.NEXT] >> 2)
    return spare(words, count)


@fragment
def _given(words: int, register: int, half: int, count: int) -> Ints:
    """So many of the numbers that half of a register tells of."""
    state = longs_at(words, at.WORDS)
    begin = longs_at(state[at.REGISTERS], at.ENDLESS)[2 * register + half]
    return ints_at(state[at.BLOCK] + 4 * begin, count)  # type: ignore[no-any-return]


@fragment
def _say(words: int, register: int, half: int, number: int) -> None:
    longs_at(longs_at(words, at.WORDS)[at.REGISTERS], at.ENDLESS)[2 * register + half] = number


@fragment
def _members(words: int, mask: int) -> NDArray[np.bool_]:
    """Which kinds are meant."""
    return bools_at(longs_at(words, at.WORDS)[at.MEMBERS] + (mask << 8), 256)  # type: ignore[no-any-return]


@fragment
def _vertices(words: int, a: int) -> None:
    """SELECT: the kinds. FILTER: the vertices, the numbers, the comparison, against what."""
    state = longs_at(words, at.WORDS)
    steps, v = longs_in(state, at.BINDING), state[at.VERTICES]
    to, first, second = steps[a + 1], steps[a + 2], steps[a + 3]
    count = v if steps[a] == SELECT else longs_at(state[at.REGISTERS], at.ENDLESS)[2 * first + 1]
    out = _begin(words, count + 1, to, 0)
    if full(words):
        return
    if steps[a] == SELECT:
        found = _select(bytes_at(state[at.KIND_AT], v), _members(words, first), out)
    else:
        given, number = _given(words, first, 0, count), _given(words, second, 0, v)
        compare, against, found = steps[a + 4], steps[a + 5], at.ZERO
        for i in range(count):
            n = number[given[i]]
            out[found] = given[i]
            found += (n >= 0) & (
                ((compare == EQUAL) & (n == against))
                | ((compare == UNEQUAL) & (n != against))
                | ((compare == LESS) & (n < against))
                | ((compare == AT_MOST) & (n <= against))
                | ((compare == MORE_THAN) & (n > against))
                | ((compare == AT_LEAST) & (n >= against))
            )
    _say(words, to, 1, found)


@fragment
def _single(words: int, a: int) -> None:
    """A link to one vertex.

    NONE: whether it is one to several. FIRST_CHILD: the last one. EDGE: 0 the first, 1 the last vertex.
    MEMBERS: the kinds. ADJACENT: whether behind. FOLLOWING: whether behind, the kinds. ONE: the link, which
    of the edges, from the end below 0.
    """
    state = longs_at(words, at.WORDS)
    steps, v, count = longs_in(state, at.BINDING), state[at.VERTICES], state[at.COUNT]
    do, to, first = steps[a], steps[a + 1], steps[a + 2]
    several = do == NONE and first != 0
    target = _begin(words, v + 1, to, 0 if several else 1)
    _say(words, to, 1 if several else 0, 0 if several else -1)
    if full(words):
        return
    start, kind = longs_in(state, at.START), bytes_at(state[at.KIND_AT], v)
    for u in range(v + 1):
        target[u] = 0 if several else -1
    if do == FIRST_CHILD:
        last = _given(words, first, 1, v)
        for u in range(v):
            target[u] = u + 1 if last[u] >= 0 else -1
    elif do == ONE:
        way, edge = _given(words, first, 1, at.ENDLESS), steps[a + 3]
        listed = longs_at(state[at.REGISTERS], at.ENDLESS)[2 * first] >= 0
        ptr = _given(words, first, 0, v + 1)
        for u in range(v):
            target[u] = way[u] if not listed else -1
            if listed:
                e = edge + (ptr[u] if edge >= 0 else ptr[u + 1])
                target[u] = way[e] if ptr[u] <= e < ptr[u + 1] else -1
    elif do == ADJACENT:
        onwards = 1 if first != 0 else -1
        for i in range(count):
            low, high = start[i] + 1, start[i + 1] - 1
            for u in range(low, high + 1):
                w = u + onwards
                inside = (w >= low) & (w <= high)
                target[u] = w if inside and kind[min(max(w, low), high)] == kind[u] else -1
    elif do == FOLLOWING:
        wanted = _members(words, steps[a + 3])
        for i in range(count):
            before = -1
            for u in range(start[i], start[i + 1]):
                if wanted[kind[u]]:
                    if before >= 0 and first != 0:
                        target[before] = u
                    elif before >= 0:
                        target[u] = before
                    before = u
    elif do == EDGE:
        for i in range(count):
            if start[i + 1] - start[i] > 1:
                target[start[i]] = start[i] + 1 if first == 0 else start[i + 1] - 1
    elif do != NONE:
        wanted = _members(words, first)
        for i in range(count):
            for u in range(start[i] + (do != HOME), start[i + 1]):
                target[u] = start[i] if do != MEMBERS or wanted[kind[u]] else -1


@fragment
def _list(words: int, a: int) -> None:
    """A link to several.

    INVERSE: the link. ALONG: the list (-1: each vertex alone), the link, an edge's number or EVERY.
    """
    state = longs_at(words, at.WORDS)
    steps, registers = longs_in(state, at.BINDING), longs_at(state[at.REGISTERS], at.ENDLESS)
    to, first, way, edge = steps[a + 1], steps[a + 2], steps[a + 3], steps[a + 4]
    if steps[a] == INVERSE:
        _reverse(words, to, first)
    elif first < 0 and registers[2 * way] >= 0 and edge == EVERY:
        registers[2 * to], registers[2 * to + 1] = registers[2 * way], registers[2 * way + 1]
    else:
        _along(words, to, first, way, edge)


@fragment
def _reverse(words: int, to: int, first: int) -> None:
    """The other way round: a counting sort by targets."""
    state = longs_at(words, at.WORDS)
    v, single = state[at.VERTICES], longs_at(state[at.REGISTERS], at.ENDLESS)[2 * first] < 0
    ptr, target = _given(words, first, 0, v + 1), _given(words, first, 1, at.ENDLESS)
    edges = v if single else ptr[v] + at.ZERO
    end, out = _begin(words, v + 2, to, 0), _begin(words, edges + 1, to, 1)
    if full(words):
        return
    clear(end)
    for e in range(edges):
        end[target[e] + 2] += target[e] >= 0
    for u in range(v):
        end[u + 2] += end[u + 1]
    for u in range(v):  # end[w + 1] runs through the room of w, to where the next one's begins
        for e in range(u if single else ptr[u], u + 1 if single else ptr[u + 1]):
            w = target[e] + 1
            if w > 0:
                out[end[w]] = u
                end[w] += 1


@fragment
def _along(words: int, to: int, before: int, way: int, edge: int) -> None:
    """To where a link leads from the members of a list: counted first, and written then."""
    state = longs_at(words, at.WORDS)
    v, registers = state[at.VERTICES], longs_at(state[at.REGISTERS], at.ENDLESS)
    end, every = _begin(words, v + 2, to, 0), before < 0
    if full(words):
        return
    ptr, listed = _given(words, max(before, 0), 0, v + 1), _given(words, max(before, 0), 1, at.ENDLESS)
    begin, target, single = (
        _given(words, way, 0, v + 1),
        _given(words, way, 1, at.ENDLESS),
        registers[2 * way] < 0,
    )
    count, out = 0, end
    for written in range(2):
        count = 0
        for u in range(v):
            end[u] = count
            for m in range(u if every else ptr[u], u + 1 if every else ptr[u + 1]):
                w = np.int64(m if every else listed[m])
                low, high = w, w + 1
                if not single:
                    low, high = np.int64(begin[w]), np.int64(begin[w + 1])
                    if edge != EVERY:
                        one = low + edge if edge >= 0 else high + edge
                        high = one + 1 if low <= one < high else low
                        low = one if high > one else low
                for e in range(low, high):
                    if target[e] >= 0:
                        if written:
                            out[count] = target[e]
                        count += 1
        end[v] = count
        if not written:
            out = _begin(words, count + 1, to, 1)
            if full(words):
                return


@fragment
def _numbers(words: int, a: int) -> None:
    """A number for each vertex. HASHED: texts, rows. WORD: texts, the vocabulary, the row of unknown words.
    BELOW: numbers, from which on they count as none.
    """
    state = longs_at(words, at.WORDS)
    steps, v, start = longs_in(state, at.BINDING), state[at.VERTICES], longs_in(state, at.START)
    do, to, first, second = steps[a], steps[a + 1], steps[a + 2], steps[a + 3]
    out, hashed = _begin(words, v, to, 0), take(words, v, 8)
    _say(words, to, 1, -1)
    if full(words):
        return
    hashes, count = hashes_at(hashed, v), state[at.COUNT]
    if do == INDEX:
        _count(bytes_at(state[at.KIND_AT], v), start, ints_at(hashed, second), out)
    elif do == COIN:
        numbers = longs_at(state[at.NUMBERS], count)
        for i in range(count):
            number = np.uint64(numbers[i] if state[at.NUMBERS] != 0 else i) << np.uint64(32)
            for u in range(start[i], start[i + 1]):
                inside = np.uint64(u - start[i] - 1) & np.uint64(0xFFFFFFFF)
                x = (number | inside) + np.uint64(state[at.SEED]) * np.uint64(GOLDEN)
                out[u] = np.int32(mix(x) >> np.uint64(63))
    elif do == BELOW:
        given = _given(words, first, 0, v)
        for u in range(v):
            out[u] = given[u] if given[u] < second else -1
    else:
        begin, end = _given(words, first, 0, v), _given(words, first, 1, v)
        hash_pieces(text_at(state[at.TEXT], state[at.SIZE]), begin, end, hashes)
        rows, vocabularies, text = np.uint64(max(second, 1)), longs_in(state, at.VOCABULARY), state[at.TEXT]
        for u in range(v):
            if end[u] == begin[u]:
                out[u] = -1
            elif do == HASHED:
                out[u] = np.int32(hashes[u] - hashes[u] // rows * rows)
            else:
                word, size = text + begin[u], end[u] - begin[u] + at.ZERO
                out[u] = row_of(vocabularies[second], word, size, hashes[u], steps[a + 4])


@fragment
def _flow(words: int, a: int) -> None:
    """The rows of a field that flows in as it is. FLOWING: numbers, the field. PLACED: the field, which was
    read as floats.
    """
    state = longs_at(words, at.WORDS)
    steps, v, fields = longs_in(state, at.BINDING), state[at.VERTICES], longs_in(state, at.FIELDS)
    out = _begin(words, v, steps[a + 1], 0)
    _say(words, steps[a + 1], 1, -1)
    f = (steps[a + 3] if steps[a] == FLOWING else steps[a + 2]) * build.OF_FIELD
    if steps[a] == FLOWING:
        fields[f + build.VERTEX], fields[f + build.ROWS] = take(words, v, 4), take(words, v, 4)
        fields[f + build.FLOATS] = 1
    if full(words):
        return
    if steps[a] == FLOWING:
        number, count = _given(words, steps[a + 2], 0, v), 0
        vertex, rows = ints_at(fields[f + build.VERTEX], v), floats_at(fields[f + build.ROWS], v)
        for u in range(v):
            vertex[count], rows[count] = u, number[u]
            out[u] = count if number[u] >= 0 else -1
            count += number[u] >= 0
        fields[f + build.COUNT] = count
        return
    given = ints_at(fields[f + build.VERTEX], fields[f + build.COUNT])
    for u in range(v):
        out[u] = -1
    for i in range(len(given)):
        out[given[i]] = i
