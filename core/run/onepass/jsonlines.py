"""The stage that reads JSON lines: `abw.core.data.readers.jsonl`, into the block.

What `scan` there leaves to others, what the model's schema does not have, texts with escapes, and numbers
that are to be read again end the pass with OTHER.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.data.intern import hash_pieces
from abw.core.data.readers import jsonscan as scanned
from abw.core.data.readers.jsonscan import TEXT, VECTOR, WHOLE, Room, parse
from abw.core.data.readers.jsontokens import Json
from abw.core.jit.addresses import (
    bools_at,
    bytes_at,
    doubles_at,
    doubles_in,
    eights_at,
    floats_at,
    hashes_at,
    int_cube,
    int_table,
    ints_at,
    long_table,
    longs_at,
    longs_in,
    text_at,
)
from abw.core.jit.decorators import entry, fragment
from abw.core.run.onepass import build
from abw.core.run.onepass import state as at
from abw.core.run.onepass.read import escaped, field_room, in_lines
from abw.core.run.onepass.state import FINE, MORE, OTHER, WRONG, clear, full, spare, take
from abw.core.run.onepass.vocabulary import row_of

Longs = NDArray[np.int64]

# Of a field: how its values are written; how many numbers they are, 0 for whole ones and texts; the register
# of these, or the number of a field that flows in (-1: neither is wanted); which kinds have it.
FORM, SIZE, FIELD_TO, FIELD_OF, OF_KINDS, OF_FIELD = range(6)
# Of a link: whether it leads to several; its register; from which kinds, to which.
MANY, LINK_TO, FROM, TO, OF_LINK = range(5)
# The kinds of names: those of kinds, fields, links. So many kinds there are at most.
NAMES, KINDS = 3, 256
# Ids of more digits may not have 64 bits.
ID_DIGITS = 18


@entry
def json_lines(words: int) -> int:
    """Registers: those that `JSON_FIELDS` and `JSON_LINKS` name."""
    state = longs_at(words, at.WORDS)
    size, count = state[at.SIZE], state[at.COUNT]
    if size <= 8 or not in_lines(words):
        return WRONG
    lines, values, numbers = size // 14 + 2, size // 5 + 2, size // 2 + 2
    links = state[at.JSON_LINKS + 1] // OF_LINK
    names = max(state[at.JSON_FIELDS + 1] // OF_FIELD, links, state[at.KINDS]) + 1
    state[at.IDS], state[at.ID_ROOM] = take(words, 3 * lines, 4), lines
    room = Room(
        int_table(take(words, 2 * lines, 4), 2, lines),
        int_table(state[at.IDS], 3, lines),
        spare(words, size // 10 + 2),
        int_table(take(words, 5 * values, 4), 5, values),
        doubles_at(take(words, numbers, 8), numbers),
        int_table(take(words, 3 * numbers, 4), 3, numbers),
        int_table(take(words, 3 * numbers, 4), 3, numbers),
        int_cube(take(words, NAMES * names * 2, 4), NAMES, names, 2),
        int_table(take(words, 2 * names, 4), 2, names),
        longs_at(take(words, scanned.COUNTS, 8), scanned.COUNTS),
    )
    number = long_table(take(words, NAMES * names, 8), NAMES, names)
    state[at.START], state[at.START + 1] = take(words, count + 1, 8), count + 1
    if full(words):
        return MORE
    clear(room.counts)
    for i in range(names):
        room.last[0, i] = room.last[1, i] = -1
    text = text_at(state[at.TEXT], size)
    json = Json(text, eights_at(state[at.TEXT], size - 7), doubles_in(state, at.JSON_POWERS))
    seen, _ = parse(json, at.ZERO, at.ZERO, count, room)
    if seen != count or room.counts[scanned._HARD] > 0 or not _named(words, room, number):
        return OTHER
    position = _vertices(words, room, number)
    if position == 0:
        return MORE
    ends = _fields(words, room, number, position)
    return _links(words, room, number, position) if ends == FINE else ends


@fragment
def _named(words: int, room: Room, number: Longs) -> bool:
    """Write the number of each name in the model's schema; False for one that is not there, or odd ids."""
    state = longs_at(words, at.WORDS)
    text, place = text_at(state[at.TEXT], state[at.SIZE]), take(words, 3, 8)
    if full(words):
        return True
    begin, end, hashes = ints_at(place, 1), ints_at(place + 8, 1), hashes_at(place + 16, 1)
    vocabularies = longs_in(state, at.JSON_NAMES)
    for which in range(NAMES):
        for n in range(room.counts[scanned._KINDS + which]):
            begin[0], end[0] = room.known[which, n, 0], room.known[which, n, 1]
            hash_pieces(text, begin, end, hashes)
            size = end[0] - begin[0] + at.ZERO
            number[which, n] = row_of(vocabularies[which], state[at.TEXT] + begin[0], size, hashes[0], -1)
            if number[which, n] < 0 or escaped(words, begin[0], end[0]):
                return False
    ids = room.names
    for i in range(state[at.COUNT]):
        if ids[0, i] == 1 + WHOLE and ids[2, i] - ids[1, i] > ID_DIGITS:
            return False
        if ids[0, i] == 1 + TEXT and escaped(words, ids[1, i], ids[2, i]):
            return False
    return True


@fragment
def _vertices(words: int, room: Room, number: Longs) -> int:
    """Where instances begin, and the kind of each vertex.

    Returns where each vertex of the lines has its number among all; 0 without room.
    """
    state = longs_at(words, at.WORDS)
    given, count = room.counts[scanned._VERTICES], state[at.COUNT]
    state[at.VERTICES], state[at.KIND_AT] = given + count, take(words, given + count, 1)
    found = take(words, given, 4)
    if full(words):
        return 0
    start, lines, position = longs_in(state, at.START), room.line, ints_at(found, given)
    kind = bytes_at(state[at.KIND_AT], given + count)
    for i in range(count):
        start[i] = lines[1, i] + i
        kind[start[i]] = 0
        for v in range(lines[1, i], lines[1, i + 1] if i + 1 < count else given):
            position[v] = v + i + 1
            kind[v + i + 1] = number[0, room.kind[v]]
    start[count] = given + count
    return found


@fragment
def _fields(words: int, room: Room, number: Longs, position: int) -> int:
    """Write the values of fields to their registers; OTHER for what the schema does not have."""
    state = longs_at(words, at.WORDS)
    v, values, many = state[at.VERTICES], room.value, room.counts[scanned._VALUES]
    fields, told = longs_in(state, at.JSON_FIELDS), longs_in(state, at.FIELDS)
    where, kind = ints_at(position, at.ENDLESS), bytes_at(state[at.KIND_AT], v)
    registers, begin = longs_in(state, at.REGISTERS), state[at.BLOCK]
    for f in range(0, len(fields), OF_FIELD):
        whole = fields[f + FORM] == WHOLE
        if not field_room(words, fields[f + FIELD_TO], fields[f + FIELD_OF], whole, many, fields[f + SIZE]):
            return MORE
    data = ints_at(begin, at.ENDLESS)
    for m in range(many):
        u, f = where[values[0, m]], number[1, values[1, m]] * OF_FIELD
        form, low, high = values[2, m], values[3, m], values[4, m]
        size = fields[f + SIZE]
        if not bools_at(state[at.MEMBERS] + (fields[f + OF_KINDS] << 8), KINDS)[kind[u]]:
            return OTHER
        if size > 0:
            if form == TEXT or (high - low if form == VECTOR else 1) != size:
                return OTHER
            if fields[f + FIELD_OF] >= 0:
                flows = fields[f + FIELD_OF] * build.OF_FIELD
                row = told[flows + build.COUNT]
                told[flows + build.COUNT] = row + 1
                ints_at(told[flows + build.VERTEX], row + 1)[row] = u
                place = floats_at(told[flows + build.ROWS] + 4 * row * size, size)
                for j in range(size):
                    place[j] = room.number[low + j]
            continue
        if form != fields[f + FORM]:
            return OTHER
        to = 2 * fields[f + FIELD_TO]
        if form == TEXT:
            if low == high or escaped(words, low, high):
                return OTHER
            if to >= 0:
                data[registers[to] + u], data[registers[to + 1] + u] = low, high
        elif to >= 0:
            data[registers[to] + u] = np.int32(room.number[low])
    return FINE


@fragment
def _links(words: int, room: Room, number: Longs, position: int) -> int:
    """Write the edges of links to their registers; OTHER for what the schema does not have."""
    state = longs_at(words, at.WORDS)
    edges, edge, v = room.counts[scanned._EDGES], room.edge, state[at.VERTICES]
    start, links, kind = (
        longs_in(state, at.START),
        longs_in(state, at.JSON_LINKS),
        bytes_at(state[at.KIND_AT], v),
    )
    where, registers, begin = ints_at(position, at.ENDLESS), longs_in(state, at.REGISTERS), state[at.BLOCK]
    for e in range(edges):  # from here on an edge is a link's place in `links` and two vertices
        a, link = edge[1, e], number[2, edge[0, e]] * OF_LINK
        edge[0, e], edge[2, e] = link, where[edge[2, e]]
        edge[1, e] = where[a] if a >= 0 else start[-1 - a]
        if not (
            bools_at(state[at.MEMBERS] + (links[link + FROM] << 8), KINDS)[kind[edge[1, e]]]
            and bools_at(state[at.MEMBERS] + (links[link + TO] << 8), KINDS)[kind[edge[2, e]]]
        ):
            return OTHER
    for link in range(0, len(links), OF_LINK):
        many, to = links[link + MANY] != 0, 2 * links[link + LINK_TO]
        count = 0
        for e in range(edges):
            count += edge[0, e] == link
        first, second = take(words, v + 2, 4), take(words, count + 1 if many else v, 4)
        if full(words):
            return MORE
        registers[to] = (first - begin) >> 2 if many else -1
        registers[to + 1] = (second - begin) >> 2
        end, target = ints_at(first, v + 2), ints_at(second, at.ENDLESS)
        if not many:
            for u in range(v):
                target[u] = -1
            for e in range(edges if count > 0 else 0):
                if edge[0, e] == link:
                    if target[edge[1, e]] >= 0:
                        return OTHER
                    target[edge[1, e]] = edge[2, e]
            continue
        clear(end)
        for e in range(edges):
            end[edge[1, e] + 2] += edge[0, e] == link
        for u in range(v):
            end[u + 2] += end[u + 1]
        for e in range(edges):  # end[u + 1] runs through the room of u, to where the next one's begins
            if edge[0, e] == link:
                u = edge[1, e] + 1
                target[end[u]] = edge[2, e]
                end[u] += 1
    return FINE
