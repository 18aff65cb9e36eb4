"""The stage that binds a model's names to what was read: `abw.core.graph.bind`, as steps over registers.

A register says where arrays lie in the block, as offsets of 32-bit integers: of a type its vertices, and how
many they are; of a link its offsets (-1: a single one) and targets; of a field its numbers and -1; of texts
where each begins and ends. The first registers are what `Binding.tables` has.
"""

from __future__ import annotations

import numpy as np

from abw.core.data.derive import _count
from abw.core.data.intern import hash_pieces
from abw.core.data.links import invert
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
from abw.core.run.onepass.state import APART, FINE, MORE, full, take
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
def _begin(words: int, count: int, register: int, half: int) -> int:
    """Room for so many numbers, which half of a register tells of; where it lies, 0 without."""
    state = longs_at(words, at.WORDS)
    found = take(words, count, 4)
    longs_at(state[at.REGISTERS], at.ENDLESS)[2 * register + half] = (found - state[at.BLOCK]) >> 2
    return 0 if full(words) else found


@fragment
def _place(words: int, register: int, half: int) -> int:
    """Where what half of a register tells of lies."""
    state = longs_at(words, at.WORDS)
    return state[at.BLOCK] + 4 * longs_at(state[at.REGISTERS], at.ENDLESS)[2 * register + half]  # type: ignore[no-any-return]


@fragment
def _say(words: int, register: int, half: int, number: int) -> None:
    longs_at(longs_at(words, at.WORDS)[at.REGISTERS], at.ENDLESS)[2 * register + half] = number


@fragment
def _members(words: int, mask: int) -> int:
    """Where it lies which kinds are meant."""
    return longs_at(words, at.WORDS)[at.MEMBERS] + (mask << 8)  # type: ignore[no-any-return]


@fragment
def _vertices(words: int, a: int) -> None:
    """SELECT: the kinds. FILTER: the vertices, the numbers, the comparison, against what."""
    state = longs_at(words, at.WORDS)
    steps, v = longs_in(state, at.BINDING), state[at.VERTICES]
    to, first, second = steps[a + 1], steps[a + 2], steps[a + 3]
    count = v if steps[a] == SELECT else longs_at(state[at.REGISTERS], at.ENDLESS)[2 * first + 1]
    place = _begin(words, count + 1, to, 0)
    if place == 0:
        return
    out = ints_at(place, count + 1)
    if steps[a] == SELECT:
        found = _select(bytes_at(state[at.KIND_AT], v), bools_at(_members(words, first), 256), out)
    else:
        given, number = ints_at(_place(words, first, 0), count), ints_at(_place(words, second, 0), v)
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
    place = _begin(words, v + 1, to, 0 if several else 1)
    if not several:
        _say(words, to, 0, -1)
    if place == 0:
        return
    target, start = ints_at(place, v + 1), longs_in(state, at.START)
    kind = bytes_at(state[at.KIND_AT], v)
    if several:
        for u in range(v + 1):
            target[u] = 0
        _say(words, to, 1, 0)
    elif do == FIRST_CHILD:
        last = ints_at(_place(words, first, 1), v)
        for u in range(v):
            target[u] = u + 1 if last[u] >= 0 else -1
    elif do == ONE:
        way, edge = ints_at(_place(words, first, 1), at.ENDLESS), steps[a + 3]
        listed = longs_at(state[at.REGISTERS], at.ENDLESS)[2 * first] >= 0
        ptr = ints_at(_place(words, first, 0), v + 1)
        for u in range(v):
            target[u] = way[u] if not listed else -1
            if listed:
                e = edge + (ptr[u] if edge >= 0 else ptr[u + 1])
                target[u] = way[e] if ptr[u] <= e < ptr[u + 1] else -1
    elif do == ADJACENT:
        onwards = 1 if first != 0 else -1
        for i in range(count):
            low, high = start[i] + 1, start[i + 1] - 1
            target[start[i]] = -1
            for u in range(low, high + 1):
                w = u + onwards
                inside = (w >= low) & (w <= high)
                target[u] = w if inside and kind[min(max(w, low), high)] == kind[u] else -1
    else:
        for u in range(v):
            target[u] = -1
        if do == FOLLOWING:
            wanted = bools_at(_members(words, steps[a + 3]), 256)
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
        else:
            wanted = bools_at(_members(words, first), 256)
            for i in range(count):
                for u in range(start[i] + (do != HOME), start[i + 1]):
                    target[u] = start[i] if do != MEMBERS or wanted[kind[u]] else -1


@fragment
def _list(words: int, a: int) -> None:
    """A link to several.

    INVERSE: the link. ALONG: the list (-1: each vertex alone), the link, an edge's number or EVERY.
    """
    state = longs_at(words, at.WORDS)
    steps, v = longs_in(state, at.BINDING), state[at.VERTICES]
    to, first = steps[a + 1], steps[a + 2]
    registers = longs_at(state[at.REGISTERS], at.ENDLESS)
    if steps[a] == ALONG and first < 0:
        way = steps[a + 3]
        if registers[2 * way] >= 0 and steps[a + 4] == EVERY:
            registers[2 * to], registers[2 * to + 1] = registers[2 * way], registers[2 * way + 1]
            return
    place = _begin(words, v + 2, to, 0)
    if place == 0:
        return
    if steps[a] == ALONG:
        _along(words, to, first, steps[a + 3], steps[a + 4])
    elif registers[2 * first] >= 0:
        _reverse(words, to, first)
    else:
        target, end, there = ints_at(_place(words, first, 1), v), ints_at(place, v + 2), 0
        for u in range(v):
            there += target[u] >= 0
        found = _begin(words, there + 1, to, 1)
        if found > 0:
            for u in range(v + 2):
                end[u] = 0
            invert(target, end, ints_at(found, there + 1))


@fragment
def _reverse(words: int, to: int, first: int) -> None:
    """The other way round, of a link to several: a counting sort by targets."""
    state = longs_at(words, at.WORDS)
    v = state[at.VERTICES]
    ptr = ints_at(_place(words, first, 0), v + 1)
    target, end = ints_at(_place(words, first, 1), ptr[v]), ints_at(_place(words, to, 0), v + 2)
    found = _begin(words, ptr[v] + 1, to, 1)
    if found == 0:
        return
    out = ints_at(found, ptr[v] + 1)
    for u in range(v + 2):
        end[u] = 0
    for e in range(ptr[v]):
        end[target[e] + 2] += 1
    for u in range(v):
        end[u + 2] += end[u + 1]
    for u in range(v):  # end[w + 1] runs through the room of w, to where the next one's begins
        for e in range(ptr[u], ptr[u + 1]):
            w = target[e] + 1
            out[end[w]] = u
            end[w] += 1


@fragment
def _along(words: int, to: int, before: int, way: int, edge: int) -> None:
    """To where a link leads from the members of a list: counted first, and written then."""
    state = longs_at(words, at.WORDS)
    v, registers = state[at.VERTICES], longs_at(state[at.REGISTERS], at.ENDLESS)
    end, every = ints_at(_place(words, to, 0), v + 1), before < 0
    ptr = ints_at(_place(words, max(before, 0), 0), v + 1)
    listed, single = ints_at(_place(words, max(before, 0), 1), at.ENDLESS), registers[2 * way] < 0
    begin, target = ints_at(_place(words, way, 0), v + 1), ints_at(_place(words, way, 1), at.ENDLESS)
    count, found = 0, at.ZERO
    for written in range(2):
        out = ints_at(found, count + 1)
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
            found = _begin(words, count + 1, to, 1)
            if found == 0:
                return


@fragment
def _numbers(words: int, a: int) -> None:
    """A number for each vertex. HASHED: texts, rows. WORD: texts, the vocabulary, the row of unknown words.
    BELOW: numbers, from which on they count as none.
    """
    state = longs_at(words, at.WORDS)
    steps, v, start = longs_in(state, at.BINDING), state[at.VERTICES], longs_in(state, at.START)
    do, to, first, second = steps[a], steps[a + 1], steps[a + 2], steps[a + 3]
    place, hashed = _begin(words, v, to, 0), take(words, v, 8)
    _say(words, to, 1, -1)
    if full(words):
        return
    out, hashes, count = ints_at(place, v), hashes_at(hashed, v), state[at.COUNT]
    if do == INDEX:
        kinds = ints_at(hashed, second)
        _count(bytes_at(state[at.KIND_AT], v), longs_in(state, at.START), kinds, out)
    elif do == COIN:
        numbers = longs_at(state[at.NUMBERS], count)
        for i in range(count):
            number = np.uint64(numbers[i] if state[at.NUMBERS] != 0 else i) << np.uint64(32)
            for u in range(start[i], start[i + 1]):
                inside = np.uint64(u - start[i] - 1) & np.uint64(0xFFFFFFFF)
                x = (number | inside) + np.uint64(state[at.SEED]) * np.uint64(GOLDEN)
                out[u] = np.int32(mix(x) >> np.uint64(63))
    elif do == BELOW:
        given = ints_at(_place(words, first, 0), v)
        for u in range(v):
            out[u] = given[u] if given[u] < second else -1
    else:
        begin, end = ints_at(_place(words, first, 0), v), ints_at(_place(words, first, 1), v)
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
    steps, v = longs_in(state, at.BINDING), state[at.VERTICES]
    to = steps[a + 1]
    place = _begin(words, v, to, 0)
    _say(words, to, 1, -1)
    f = (steps[a + 3] if steps[a] == FLOWING else steps[a + 2]) * build.OF_FIELD
    fields = longs_in(state, at.FIELDS)
    if steps[a] == FLOWING:
        fields[f + build.VERTEX], fields[f + build.ROWS] = take(words, v, 4), take(words, v, 4)
        fields[f + build.FLOATS] = 1
    if full(words):
        return
    out = ints_at(place, v)
    if steps[a] == FLOWING:
        number, count = ints_at(_place(words, steps[a + 2], 0), v), 0
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
