"""JSON lines read by compiled code, straight into arrays; what is unusual or wrong it leaves to others."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from abw.core.data.feed import Bytes, Source
from abw.core.data.instances import Ints, Longs
from abw.core.data.intern import EIGHT, intern
from abw.core.data.readers.jsontokens import (
    BACKSLASH,
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
_LINES, _VERTICES, _VALUES, _NUMBERS, _HARD, _EDGES, _KINDS, _FIELDS, _LINKS, _ESCAPED = range(10)


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
    first. `counts` (10,) say how much of all there is, and at last whether names may have escapes.
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


def _room(size: int, most: int, escaped: bool) -> Room:
    """Room for so many bytes, by the least that each takes: a line, a vertex, a value, a number, an edge."""
    counts = np.zeros(10, np.int64)
    counts[_ESCAPED] = escaped
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
        counts,
    )


def scan(source: Source, skip: int, stop: int, checked: bool = False) -> tuple[Columns, int, int] | None:
    """The lines `skip` to `stop` of a source that are not blank, how many those to `stop` are, and the offset
    behind them; None where they are not plainly right: then they are to be read with care.

    `checked`: each name is written in one way, and there may be any number of them. Cost: about 1.5 ns a
    byte.
    """
    data, text = source.data, source.text
    most = max(MOST_NAMES, data.count(b'":')) if checked else MOST_NAMES
    room = _room(len(text), most, checked)
    seen, end = parse(json_of(data), source.begin, skip, stop, room)
    if seen < 0:
        return None
    lines, vertices, values, numbers, hard, edges, *known, _ = room.counts.tolist()
    for at, begin, after in room.hard[:, :hard].T.tolist():
        room.number[at] = float(data[begin:after])
        if abs(room.number[at]) >= TOO_LARGE:
            return None
    number = room.number[:numbers]
    kinds, fields, links = (
        tuple(
            _string(data[a - 1 : b + 1].decode()) if checked else data[a:b].decode(errors="replace")
            for a, b in table[:n].tolist()
        )
        for table, n in zip(room.known, known, strict=True)
    )
    if "instance" in kinds:
        return None
    try:
        named = room.names[:, :lines]
        if (named[0] == 1 + TEXT).all() and b"\\" not in data:
            ids: list[str | int] = [data[begin:end].decode() for begin, end in named[1:].T.tolist()]
        else:
            ids = [id_of(data, *row) for row in named.T.tolist()] if named[0].any() else []
    except ValueError:  # half of a surrogate pair, no such escape, or more than 64 bits
        return None
    columns = Columns(
        data,
        number,
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


def texts(data: bytes, begin: Ints, end: Ints) -> tuple[Ints, list[str]]:
    """The number of each string among the distinct ones, and these. Errors: ValueError for no UTF-16."""
    # an empty string is no piece of a text to `intern`: its quotes are read with it
    number, pieces = intern(data, begin - np.int32(1), end + np.int32(1))
    quoted = list(pieces)
    found = [_string(word) for word in quoted]
    numbers = dict(zip(dict.fromkeys(found), range(len(found)), strict=False))
    if len(numbers) < len(found):  # one string, written in several ways
        number = np.array([numbers[word] for word in found], np.int32)[number]
    return number, list(numbers)


def _string(quoted: str) -> str:
    """Errors: ValueError for no UTF-16."""
    if "\\" not in quoted:
        return quoted[1:-1]
    word: str = json.loads(quoted)
    word.encode()
    return word


def id_of(data: bytes, form: int, begin: int, end: int) -> str | int:
    """The id of an instance, as `Room.names` has it. Errors: ValueError."""
    if form == 0:
        return ""
    if form == 1 + TEXT:
        return _string(data[begin - 1 : end + 1].decode())
    name = int(data[begin:end])
    if not LEAST_ID <= name <= LARGEST_ID:
        raise ValueError(name)
    return name


@within
def _quoted(json: Json, at: int) -> int:
    """The offset of the quote that ends the string at an offset."""
    return string_end(json, at + 1) if is_at(json.text, at, QUOTE) else BAIL


@within
def _value(text: Bytes, end: int) -> int:
    """The offset of the value whose key ends with the quote at an offset."""
    at = blank(text, end + 1)
    if end < 0 or not is_at(text, at, COLON):
        return BAIL
    at = blank(text, at + 1)
    return at if at < text.size else BAIL


@within
def _is_key(json: Json, at: int, key: np.uint64, size: int) -> bool:
    """Whether that key, of so many bytes, is at an offset with its quotes."""
    text = json.text
    end = at + 1 + size
    if end >= text.size or text[at] != QUOTE or text[end] != QUOTE:
        return False
    return bool(masked(json.eights, at + 1, min(size + 1, EIGHT)) == np.uint64(key))


@within
def _named(json: Json, at: int, known: Ints, guess: int, count: int, escaped: int) -> tuple[int, int]:
    """The number of the name in the string at an offset among the `count` known ones, `guess` tried first, or
    of the new one that it is; and the offset of the quote that ends it.
    """
    text, eights, begin = json.text, json.eights, at + 1
    if guess < count and is_at(text, at, QUOTE):
        first = known[guess, 0]
        size = known[guess, 1] - first
        if is_at(text, begin + size, QUOTE) and same(eights, begin, eights, first, size):
            return guess, begin + size
    end = _quoted(json, at)
    for n in range(count if end >= 0 else 0):
        first = known[n, 0]
        if known[n, 1] - first == end - begin and same(eights, begin, eights, first, end - begin):
            return n, end
    if end < 0 or count == len(known):
        return BAIL, end
    for j in range(begin, end):
        if text[j] == BACKSLASH and not escaped:
            return BAIL, end
    known[count, 0], known[count, 1] = begin, end
    return count, end


@within
def _number(json: Json, at: int, room: Room) -> int:
    """Write the number at an offset to the next place of `number`; returns the offset behind it.

    One that is not certain to be the nearest float32 is noted as `hard`.
    """
    found, certain, after = read_number(json, at)
    if after < 0 or (certain and abs(found) >= TOO_LARGE):
        return BAIL
    count, hard = room.counts, room.hard
    position = count[_NUMBERS]
    count[_NUMBERS] += 1
    if not certain:
        h = count[_HARD]
        hard[0, h], hard[1, h], hard[2, h] = position, at, after
        count[_HARD] += 1
    room.number[position] = found
    return after


@within
def _vertex(json: Json, at: int, room: Room) -> int:
    """Read the object of a vertex, behind its first bracket."""
    text, count, kind, value = json.text, room.counts, room.kind, room.value
    v, field = count[_VERTICES], 0
    count[_VERTICES] += 1
    kind[v] = -1
    while True:
        at = blank(text, at)
        if _is_key(json, at, _KIND, 4):
            at = _value(text, at + 5)
            if at < 0 or kind[v] >= 0:
                return BAIL
            guess = kind[v - 1] if v else 0
            n, end = _named(json, at, room.known[0], guess, count[_KINDS], count[_ESCAPED])
            if n < 0 or end == at + 1:
                return BAIL
            kind[v], at = n, end + 1
            count[_KINDS] += n == count[_KINDS]
        else:
            field, end = _named(json, at, room.known[1], field, count[_FIELDS], count[_ESCAPED])
            if field < 0 or room.last[0, field] == v:
                return BAIL
            at = _value(text, end)
            if at < 0:
                return BAIL
            count[_FIELDS] += field == count[_FIELDS]
            room.last[0, field] = v
            m = count[_VALUES]
            count[_VALUES] += 1
            value[0, m], value[1, m] = v, field
            first, form, begin = count[_NUMBERS], TEXT, at
            if text[at] == QUOTE:
                first, at = at + 1, string_end(json, at + 1)
                if at < 0:
                    return BAIL
                value[4, m] = at
                at += 1
            else:
                several = is_at(text, at, OPEN_LIST)
                more = True
                while more:
                    at = _number(json, blank(text, at + several), room)
                    if at < 0:
                        return BAIL
                    at = blank(text, at)
                    more = several and is_at(text, at, COMMA)
                value[4, m] = count[_NUMBERS]
                form = VECTOR
                if not several:
                    form = WHOLE if 0 <= room.number[first] <= LARGEST else NUMBER
                    for j in range(begin, at):
                        if text[j] > NINE or text[j] == POINT or text[j] == PLUS:
                            form = NUMBER
                elif not is_at(text, at, CLOSE_LIST):
                    return BAIL
                at += several
            value[2, m], value[3, m] = form, first
            field += 1
        at = blank(text, at)
        if is_at(text, at, CLOSE):
            return at + 1 if kind[v] >= 0 else BAIL
        if not is_at(text, at, COMMA):
            return BAIL
        at += 1


@within
def _targets(text: Bytes, at: int, link: int, edge: Ints, count: Longs) -> int:
    """Read a link's pairs [from, to], or the vertices to which the instance itself leads: several, or one.

    These have -1 for the vertex from which.
    """
    several = is_at(text, at, OPEN_LIST)
    if several:
        at = blank(text, at + 1)
        if is_at(text, at, CLOSE_LIST):
            return at + 1
    while True:
        a, pair = -1, several and is_at(text, at, OPEN_LIST)
        if pair:
            a, at = read_whole(text, blank(text, at + 1))
            if at < 0:
                return BAIL
            at = blank(text, at)
            if not is_at(text, at, COMMA):
                return BAIL
            at = blank(text, at + 1)
        b, at = read_whole(text, at)
        if at < 0:
            return BAIL
        if pair:
            at = blank(text, at)
            if not is_at(text, at, CLOSE_LIST):
                return BAIL
            at += 1
        e = count[_EDGES]
        count[_EDGES] += 1
        edge[0, e], edge[1, e], edge[2, e] = link, a, b
        if not several:
            return at
        at = blank(text, at)
        if is_at(text, at, CLOSE_LIST):
            return at + 1
        if not is_at(text, at, COMMA):
            return BAIL
        at = blank(text, at + 1)


@within
def _vertices(json: Json, at: int, room: Room) -> int:
    """Read the list of a line's vertices at an offset."""
    text = json.text
    if not is_at(text, at, OPEN_LIST):
        return BAIL
    while True:
        at = blank(text, at + 1)
        if not is_at(text, at, OPEN):
            return BAIL
        at = _vertex(json, at + 1, room)
        if at < 0:
            return BAIL
        at = blank(text, at)
        if not is_at(text, at, COMMA):
            return at + 1 if is_at(text, at, CLOSE_LIST) else BAIL


@within
def _links(json: Json, at: int, i: int, room: Room) -> int:
    """Read the object of the links of line `i` at an offset."""
    text = json.text
    if not is_at(text, at, OPEN):
        return BAIL
    link, at = 0, blank(text, at + 1)
    more = not is_at(text, at, CLOSE)
    while more:
        at = blank(text, at)
        link, end = _named(json, at, room.known[2], link, room.counts[_LINKS], room.counts[_ESCAPED])
        if link < 0 or room.last[1, link] == i:
            return BAIL
        room.counts[_LINKS] += link == room.counts[_LINKS]
        room.last[1, link] = i
        at = _value(text, end)
        if at < 0:
            return BAIL
        at = _targets(text, at, link, room.edge, room.counts)
        if at < 0:
            return BAIL
        link += 1
        at = blank(text, at)
        more = is_at(text, at, COMMA)
        at += more
    return at + 1 if is_at(text, at, CLOSE) else BAIL


@within
def _name(json: Json, at: int, i: int, names: Ints) -> int:
    """Read the id of line `i` at an offset."""
    text, begin = json.text, at
    if text[at] == QUOTE:
        end = string_end(json, at + 1)
        if end < 0:
            return BAIL
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
    text, count, edge = json.text, room.counts, room.edge
    first, edges = count[_VERTICES], count[_EDGES]
    has_vertices = has_links = has_name = False
    while True:
        at = blank(text, at)
        if _is_key(json, at, _VERTICES_KEY, 8) and not has_vertices:
            has_vertices = True
            at = _value(text, at + 9)
            at = _vertices(json, at, room) if at >= 0 else BAIL
        elif _is_key(json, at, _LINKS_KEY, 5) and not has_links:
            has_links = True
            at = _value(text, at + 6)
            at = _links(json, at, i, room) if at >= 0 else BAIL
        elif _is_key(json, at, _ID, 2) and not has_name:
            has_name = True
            at = _value(text, at + 3)
            at = _name(json, at, i, room.names) if at >= 0 else BAIL
        else:
            return BAIL
        if at < 0:
            return BAIL
        at = blank(text, at)
        if is_at(text, at, CLOSE):
            break
        if not is_at(text, at, COMMA):
            return BAIL
        at += 1
    vertices = count[_VERTICES] - first
    for e in range(edges, count[_EDGES]):
        if edge[1, e] >= vertices or edge[2, e] >= vertices:
            return BAIL
        edge[1, e] = first + edge[1, e] if edge[1, e] >= 0 else -1 - i
        edge[2, e] += first
    return at + 1 if vertices else BAIL


@njit
def parse(json: Json, at: int, skip: int, stop: int, room: Room) -> tuple[int, int]:
    """Read lines from the offset `at` until `stop` of them are seen, blank ones apart, the first `skip` not.

    Returns the lines seen, and the offset behind them; -1 where something is not plainly right.
    """
    text = json.text
    seen = number_of_line = 0
    while at < text.size and seen < stop:
        at = blank(text, at)
        if at == text.size:
            break
        if text[at] != NEWLINE:
            if text[at] != OPEN:
                return BAIL, at
            seen += 1
            if seen <= skip:
                while at < text.size and text[at] != NEWLINE:
                    at += 1
            else:
                i = room.counts[_LINES]
                room.counts[_LINES] += 1
                room.line[0, i], room.line[1, i] = number_of_line, room.counts[_VERTICES]
                room.names[0, i] = room.names[1, i] = room.names[2, i] = 0
                at = _line(json, at + 1, i, room)
                if at < 0:
                    return BAIL, at
                at = blank(text, at)
                if at < text.size and text[at] != NEWLINE:
                    return BAIL, at
        at += 1
        number_of_line += 1
    return seen, min(at, text.size)
