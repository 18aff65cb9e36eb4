"""JSON lines read by compiled code, straight into arrays; what is unusual or wrong it leaves to others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from abw.core.data.feed import Bytes, Source
from abw.core.data.instances import Ints, Longs
from abw.core.data.intern import EIGHT
from abw.core.data.readers.jsontokens import (
    BAIL,
    CLOSE,
    CLOSE_LIST,
    COLON,
    COMMA,
    LARGEST,
    MINUS,
    NEWLINE,
    NINE,
    OPEN,
    OPEN_LIST,
    PLUS,
    POINT,
    QUOTE,
    TOO_LARGE,
    ZERO,
    Doubles,
    Json,
    blank,
    is_at,
    is_digit,
    json_of,
    masked,
    read_number,
    read_whole,
    same,
    string,
    string_end,
)
from abw.core.jit.decorators import njit, within

# How a value is written: a whole number from 0 to 2^31 - 1, another number, a list of numbers, a string.
WHOLE, NUMBER, VECTOR, TEXT = range(4)
# So many kinds, fields and links each are told apart at once.
MOST_NAMES = 256
# Ids have 64 bits, and so many digits at most.
LEAST_ID, LARGEST_ID, MOST_DIGITS = -(2**63), 2**64 - 1, 20

# Keys as they are written, with the quote that ends them, as far as it is one of the first eight bytes.
_KIND, _VERTICES_KEY, _LINKS_KEY, _ID = (
    np.uint64(int.from_bytes(key, "little")) for key in (b'kind"', b"vertices", b'links"', b'id"')
)
_LINES, _VERTICES, _VALUES, _NUMBERS, _HARD, _EDGES, _KINDS, _FIELDS, _LINKS, COUNTS = range(10)


@dataclass(frozen=True, slots=True)
class Columns:
    """n instances with V vertices, m values of fields and e edges of links, as they stand on their lines.

    Instance i stands on line `line[i]` of its source (n,), counted from 0, with the vertices
    `ptr[i]:ptr[i + 1]` (n + 1,), of the kinds `kinds[kind[v]]` (V,). A value is a column of `value` (5, m):
    its vertex, its field's number in `fields`, its form (WHOLE, …), and where it begins and ends: a string in
    `data`, between its quotes and as it is written there; numbers in `number`. An edge is a column of `edge`
    (3, e): its link's number in `links` and the two vertices, -1 - i for where it leads from instance i
    itself. `names` are the instances' ids, '' for none.
    """

    data: bytes
    number: Doubles
    line: Ints
    ptr: Ints
    names: tuple[str | int, ...]
    kinds: tuple[str, ...]
    kind: Ints
    fields: tuple[str, ...]
    value: Ints
    links: tuple[str, ...]
    edge: Ints

    def __len__(self) -> int:
        return len(self.line)


class Room(NamedTuple):
    """Where `parse` writes what it reads, and what it knows of it.

    `line` (2, n) has each line's number and first vertex, `names` (3, n) the form of its id (0: none) and its
    offsets; for `kind`, `value`, `number` and `edge` see `Columns`. `hard` (3, …) are the positions of
    numbers that are to be read again, and the offsets of these. `known` (3, names, 2) are the offsets of the
    names of kinds, fields and links, `last` (2, names) the last vertex or line with a field or link: -1 at
    first. `counts` (COUNTS,) say how much of all there is.
    """

    line: Ints
    names: Ints
    kind: Ints
    value: Ints
    number: Doubles
    hard: Ints
    edge: Ints
    known: Ints
    last: Ints
    counts: Longs


def _room(size: int, most: int) -> Room:
    """Room for so many bytes, by the least that each takes: a line, a vertex, a value, a number, an edge."""
    return Room(
        np.empty((2, size // 14 + 2), np.int32),
        np.empty((3, size // 14 + 2), np.int32),
        np.empty(size // 10 + 2, np.int32),
        np.empty((5, size // 5 + 2), np.int32),
        np.empty(size // 2 + 2),
        np.empty((3, size // 2 + 2), np.int32),
        np.empty((3, size // 2 + 2), np.int32),
        np.empty((3, most, 2), np.int32),
        np.full((2, most), -1, np.int32),
        np.zeros(COUNTS, np.int64),
    )


def scan(source: Source, skip: int, stop: int, most: int = MOST_NAMES) -> tuple[Columns, int, int] | None:
    """The lines `skip` to `stop` of a source that are not blank, how many those to `stop` are, and the offset
    behind them; None where they are not plainly right: then they are to be read with care.

    `most`: names of a sort. Cost: about 1.5 ns a byte.
    """
    data = source.data
    room = _room(len(data), most)
    seen, end = parse(json_of(data), source.begin, skip, stop, room)
    if seen < 0:
        return None
    lines, vertices, values, numbers, hard, edges, *known = room.counts.tolist()
    for at, begin, after in room.hard[:, :hard].T.tolist():
        room.number[at] = float(data[begin:after])
        if abs(room.number[at]) >= TOO_LARGE:
            return None
    try:
        kinds, fields, links = (
            tuple(string(data[a - 1 : b + 1].decode()) for a, b in table[:n].tolist())
            for table, n in zip(room.known, known, strict=True)
        )
        named = room.names[:, :lines]
        if (named[0] == 1 + TEXT).all() and b"\\" not in data:
            ids: list[str | int] = [data[begin:end].decode() for begin, end in named[1:].T.tolist()]
        else:
            ids = [id_of(data, *row) for row in named.T.tolist()] if named[0].any() else []
    except ValueError:  # half of a surrogate pair, no such escape, no UTF-8, or more than 64 bits
        return None
    if "instance" in kinds or any(len({*names}) < len(names) for names in (kinds, fields, links)):
        return None
    columns = Columns(
        data,
        room.number[:numbers],
        room.line[0, :lines],
        np.append(room.line[1, :lines], np.int32(vertices)),
        tuple(ids) or ("",) * lines,
        kinds,
        room.kind[:vertices],
        fields,
        room.value[:, :values],
        links,
        room.edge[:, :edges],
    )
    return columns, seen, end


def id_of(data: bytes, form: int, begin: int, end: int) -> str | int:
    """The id of an instance, as `Room.names` has it. Errors: ValueError."""
    if form == 0:
        return ""
    if form == 1 + TEXT:
        return string(data[begin - 1 : end + 1].decode())
    name = int(data[begin:end])
    if not LEAST_ID <= name <= LARGEST_ID:
        raise ValueError(name)
    return name


@within
def _behind(text: Bytes, at: int, byte: int) -> int:
    """The offset behind blanks, that byte, and blanks."""
    at = blank(text, at)
    return blank(text, at + 1) if is_at(text, at, byte) else BAIL


@within
def _goes_on(text: Bytes, at: int, close: int) -> tuple[int, bool]:
    """The offset of what follows a member and its comma, or the closing bracket; whether it was a comma."""
    at = blank(text, at)
    more = is_at(text, at, COMMA)
    return blank(text, at + 1) if more or is_at(text, at, close) else BAIL, more


@within
def _value_of(json: Json, at: int, key: np.uint64, size: int) -> int:
    """The offset of the value of that key, of so many bytes, if it is the one at an offset."""
    text, end = json.text, at + 1 + size
    if not is_at(text, end, QUOTE) or text[at] != QUOTE:
        return BAIL
    there = masked(json.eights, at + 1, min(size + 1, EIGHT)) == np.uint64(key)
    return _behind(text, end + 1, COLON) if there else BAIL


@within
def _named(json: Json, at: int, known: Ints, guess: int, count: int) -> tuple[int, int]:
    """The number of the name in the string at an offset among the `count` known ones, `guess` tried first, or
    of the new one that it is; and the offset of the quote that ends it.
    """
    text, eights, begin = json.text, json.eights, at + 1
    if not is_at(text, at, QUOTE):
        return 0, BAIL
    if guess < count:
        first = known[guess, 0]
        size = known[guess, 1] - first
        if is_at(text, begin + size, QUOTE) and same(eights, begin, eights, first, size):
            return guess, begin + size
    end = string_end(json, begin)
    for n in range(count):
        first = known[n, 0]
        if known[n, 1] - first == end - begin and same(eights, begin, eights, first, end - begin):
            return n, end
    if count == len(known):
        return 0, BAIL
    known[count, 0], known[count, 1] = begin, end
    return count, end


@within
def _number(json: Json, at: int, room: Room) -> int:
    """Write the number at an offset to the next place of `number`; returns the offset behind it.

    One that is not certain to be the nearest float32 is noted as `hard`.
    """
    found, certain, after = read_number(json, at)
    count, hard = room.counts, room.hard
    position = count[_NUMBERS]
    count[_NUMBERS] += 1
    if not certain:
        h = count[_HARD]
        hard[0, h], hard[1, h], hard[2, h] = position, at, after
        count[_HARD] += 1
    room.number[position] = found
    return BAIL if certain and abs(found) >= TOO_LARGE else after


@within
def _field(json: Json, at: int, m: int, room: Room) -> int:
    """Read the value at an offset: a string, a number, or a list of numbers."""
    text, value, first = json.text, room.value, room.counts[_NUMBERS]
    if is_at(text, at, QUOTE):
        end = string_end(json, at + 1)
        value[2, m], value[3, m], value[4, m] = TEXT, at + 1, end
        return end + 1
    form, begin, more = VECTOR, at, is_at(text, at, OPEN_LIST)
    if more:
        at = blank(text, at + 1)
        while more:
            at, more = _goes_on(text, _number(json, at, room), CLOSE_LIST)
    else:
        at = _number(json, at, room)
        form = WHOLE if 0 <= room.number[first] <= LARGEST else NUMBER
        for j in range(begin, min(at, text.size)):
            if text[j] > NINE or text[j] == POINT or text[j] == PLUS:
                form = NUMBER
    value[2, m], value[3, m], value[4, m] = form, first, room.counts[_NUMBERS]
    return at


@within
def _vertex(json: Json, at: int, room: Room) -> int:
    """Read the object of a vertex, behind its first bracket."""
    count, kind, value = room.counts, room.kind, room.value
    v, field, more = count[_VERTICES], 0, True
    count[_VERTICES] += 1
    kind[v] = -1
    while more:
        begin = _value_of(json, at, _KIND, 4)
        if begin < BAIL:
            n, end = _named(json, begin, room.known[0], kind[v - 1] if v else 0, count[_KINDS])
            if kind[v] >= 0 or end == begin + 1:
                return BAIL
            kind[v], at = n, end + 1
            count[_KINDS] += n == count[_KINDS]
        else:
            field, end = _named(json, at, room.known[1], field, count[_FIELDS])
            if room.last[0, field] == v:
                return BAIL
            room.last[0, field] = v
            count[_FIELDS] += field == count[_FIELDS]
            m = count[_VALUES]
            count[_VALUES] += 1
            value[0, m], value[1, m] = v, field
            at = _field(json, _behind(json.text, end + 1, COLON), m, room)
            field += 1
        at, more = _goes_on(json.text, at, CLOSE)
    return at if kind[v] >= 0 else BAIL


@within
def _vertices(json: Json, at: int, room: Room) -> int:
    """Read the list of a line's vertices at an offset."""
    at, more = _behind(json.text, at, OPEN_LIST), True
    while more:
        at = _vertex(json, _behind(json.text, at, OPEN), room)
        at, more = _goes_on(json.text, at, CLOSE_LIST)
    return at


@within
def _targets(text: Bytes, at: int, link: int, edge: Ints, count: Longs) -> int:
    """Read a link's pairs [from, to], or the vertices to which the instance itself leads: several, or one.

    These have -1 for the vertex from which.
    """
    several = more = is_at(text, at, OPEN_LIST)
    at = blank(text, at + several)
    if several and is_at(text, at, CLOSE_LIST):
        return at + 1
    while True:
        a, pair = -1, several and is_at(text, at, OPEN_LIST)
        if pair:
            a, at = read_whole(text, blank(text, at + 1))
            at = _behind(text, at, COMMA)
        b, at = read_whole(text, at)
        if pair:
            at = _behind(text, at, CLOSE_LIST)
        e = count[_EDGES]
        count[_EDGES] += 1
        edge[0, e], edge[1, e], edge[2, e] = link, a, b
        if several:
            at, more = _goes_on(text, at, CLOSE_LIST)
        if not more:
            return at


@within
def _links(json: Json, at: int, i: int, room: Room) -> int:
    """Read the object of the links of line `i` at an offset."""
    text, count, link = json.text, room.counts, 0
    at = _behind(text, at, OPEN)
    if is_at(text, at, CLOSE):
        return at + 1
    more = True
    while more:
        link, end = _named(json, at, room.known[2], link, count[_LINKS])
        if room.last[1, link] == i:
            return BAIL
        room.last[1, link] = i
        count[_LINKS] += link == count[_LINKS]
        at = _targets(text, _behind(text, end + 1, COLON), link, room.edge, count)
        link += 1
        at, more = _goes_on(text, at, CLOSE)
    return at


@within
def _name(json: Json, at: int, i: int, names: Ints) -> int:
    """Read the id of line `i` at an offset."""
    text, begin = json.text, at
    if is_at(text, at, QUOTE):
        end = string_end(json, at + 1)
        names[0, i], names[1, i], names[2, i] = 1 + TEXT, at + 1, end
        return end + 1
    at += is_at(text, at, MINUS)
    digits = at
    while is_digit(text, at):
        at += 1
    if not 0 < at - digits <= MOST_DIGITS or (text[digits] == ZERO and at > digits + 1):
        return BAIL
    names[0, i], names[1, i], names[2, i] = 1 + WHOLE, begin, at
    return at


@within
def _line(json: Json, at: int, i: int, room: Room) -> int:
    """Read the object of line `i`, behind its first bracket."""
    count, edge = room.counts, room.edge
    first, edges = count[_VERTICES], count[_EDGES]
    has_links = has_name = False
    more = True
    while more:
        vertices, links, name = (
            _value_of(json, at, _VERTICES_KEY, 8),
            _value_of(json, at, _LINKS_KEY, 5),
            _value_of(json, at, _ID, 2),
        )
        if vertices < BAIL and count[_VERTICES] == first:
            at = _vertices(json, vertices, room)
        elif links < BAIL and not has_links:
            has_links = True
            at = _links(json, links, i, room)
        elif name < BAIL and not has_name:
            has_name = True
            at = _name(json, name, i, room.names)
        else:
            return BAIL
        at, more = _goes_on(json.text, at, CLOSE)
    vertices = count[_VERTICES] - first
    for e in range(edges, count[_EDGES]):
        if edge[1, e] >= vertices or edge[2, e] >= vertices:
            return BAIL
        edge[1, e] = first + edge[1, e] if edge[1, e] >= 0 else -1 - i
        edge[2, e] += first
    return at if vertices else BAIL


@njit
def parse(json: Json, at: int, skip: int, stop: int, room: Room) -> tuple[int, int]:
    """Read lines from the offset `at` until `stop` of them are seen, blank ones apart, the first `skip` not.

    Returns the lines seen, and the offset behind them; -1 where something is not plainly right.
    """
    text = json.text
    seen = number_of_line = 0
    while at < text.size and seen < stop:
        at = blank(text, at)
        if at < text.size and text[at] != NEWLINE:
            if text[at] != OPEN:
                return -1, at
            seen += 1
            if seen <= skip:
                while at < text.size and text[at] != NEWLINE:
                    at += 1
            else:
                i = room.counts[_LINES]
                room.counts[_LINES] += 1
                room.line[0, i], room.line[1, i] = number_of_line, room.counts[_VERTICES]
                room.names[0, i] = room.names[1, i] = room.names[2, i] = 0
                at = blank(text, _line(json, blank(text, at + 1), i, room))
                if at > text.size or (at < text.size and text[at] != NEWLINE):
                    return -1, at
        at += 1
        number_of_line += 1
    return seen, min(at, text.size)
