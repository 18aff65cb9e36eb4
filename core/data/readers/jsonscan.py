"""JSON lines read by compiled code, straight into arrays; what is unusual or wrong it leaves to others."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.data.feed import Bytes, Source
from abw.core.data.instances import Ints
from abw.core.data.intern import intern
from abw.core.data.readers.jsontokens import (
    BACKSLASH,
    BAIL,
    CLOSE,
    CLOSE_LIST,
    COLON,
    COMMA,
    LARGEST,
    MINUS,
    NINE,
    OPEN,
    OPEN_LIST,
    POWERS,
    QUOTE,
    ZERO,
    Doubles,
    blank,
    equal,
    is_at,
    is_digit,
    read_number,
    read_whole,
    string_end,
)
from abw.core.jit.decorators import inner, njit

# How a value is written: a whole number from 0 to 2^31 - 1, another number, a list of numbers, a string.
WHOLE, NUMBER, VECTOR, TEXT = range(4)
# So many kinds, fields and links each may be told apart at once.
MOST_NAMES = 256
# The least number that float32 rounds to infinity.
TOO_LARGE = 2.0**128 - 2.0**103

_KEYS = np.frombuffer(b"kindverticeslinksid", np.uint8)
_LINES, _VERTICES, _VALUES, _NUMBERS, _HARD, _EDGES, _KINDS, _FIELDS, _LINKS = range(9)


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


def scan(source: Source, skip: int, stop: int) -> tuple[Columns, int, int] | None:
    """The lines `skip` to `stop` of a source that are not blank, how many those to `stop` are, and the offset
    behind them; None where they are not plainly right: then they are to be read with care.

    Cost: about 1.5 ns a byte.
    """
    data, text = source.data, source.text
    size = len(text)
    # the least that each takes: a line, a vertex, a value, a number, an edge
    line, names = np.empty((2, size // 14 + 2), np.int32), np.empty((3, size // 14 + 2), np.int32)
    kind = np.empty(size // 10 + 2, np.int32)
    value, number = np.empty((5, size // 5 + 2), np.int32), np.empty(size // 2 + 2)
    hard, edge = np.empty((3, size // 2 + 2), np.int32), np.empty((3, size // 2 + 2), np.int32)
    known, last = np.empty((3, MOST_NAMES, 2), np.int32), np.full((2, MOST_NAMES), -1, np.int32)
    count = np.zeros(9, np.int64)
    seen, end = parse(
        text,
        source.begin,
        skip,
        stop,
        _KEYS,
        POWERS,
        line,
        names,
        kind,
        value,
        number,
        hard,
        edge,
        known,
        last,
        count,
    )
    if seen < 0:
        return None
    lines, vertices, values, numbers, hards, edges, *known_counts = count.tolist()
    for at, begin, after in hard[:, :hards].T.tolist():
        number[at] = float(data[begin:after])
    number = number[:numbers]
    if (np.abs(number) >= TOO_LARGE).any():
        return None
    tables = [
        tuple(data[a:b].decode(errors="replace") for a, b in table[:n].tolist())
        for table, n in zip(known, known_counts, strict=True)
    ]
    if "instance" in tables[0]:
        return None
    try:
        ids = (
            tuple([_id(data, *row) for row in names[:, :lines].T.tolist()]) if names[0, :lines].any() else ()
        )
    except ValueError:  # half of a surrogate pair, or no such escape
        return None
    ptr = np.append(line[1, :lines], np.int32(vertices))
    return (
        Columns(
            data,
            number,
            line[0, :lines],
            ptr,
            ids or ("",) * lines,
            tables[0],
            kind[:vertices],
            tables[1],
            value[:, :values],
            tables[2],
            edge[:, :edges],
        ),
        seen,
        end,
    )


def texts(columns: Columns, begin: Ints, end: Ints) -> tuple[Ints, list[str]]:
    """The number of each string among the distinct ones, and these. Errors: ValueError for no UTF-16."""
    # an empty string is no piece of a text to `intern`: its quotes are read with it
    number, pieces = intern(columns.data, begin - np.int32(1), end + np.int32(1))
    quoted = list(pieces)
    found = [_string(word) for word in quoted]
    numbers = dict(zip(dict.fromkeys(found), range(len(found)), strict=False))
    if len(numbers) < len(found):  # one string, written in several ways
        number = np.array([numbers[word] for word in found], np.int32)[number]
    return number, list(numbers)


def _string(quoted: str) -> str:
    if "\\" not in quoted:
        return quoted[1:-1]
    word: str = json.loads(quoted)
    word.encode()
    return word


def _id(data: bytes, form: int, begin: int, end: int) -> str | int:
    if form == 0:
        return ""
    if form == 1 + TEXT:
        return _string(data[begin - 1 : end + 1].decode())
    return int(data[begin:end])


@inner
def _named(text: Bytes, begin: int, end: int, known: Ints, guess: int, count: int) -> int:
    """The number of a name among the `count` known ones, `guess` tried first, or of the new one it is."""
    for k in range(count):
        n = (guess + k) % count
        first = known[n, 0]
        if known[n, 1] - first == end - begin:
            j = 0
            while begin + j < end and text[begin + j] == text[first + j]:
                j += 1
            if begin + j == end:
                return n
    if count == MOST_NAMES:
        return BAIL
    for j in range(begin, end):
        if text[j] == BACKSLASH:
            return BAIL
    known[count, 0], known[count, 1] = begin, end
    return count


@inner
def _number(
    text: Bytes, at: int, powers: Doubles, number: Doubles, hard: Ints, count: NDArray[np.int64]
) -> int:
    """Write the number at an offset to the next place of `number`; returns the offset behind it.

    One that is not certain to be the nearest float32 is noted as `hard`.
    """
    found, certain, after = read_number(text, at, powers)
    if after < 0:
        return BAIL
    place = count[_NUMBERS]
    count[_NUMBERS] += 1
    if not certain:
        h = count[_HARD]
        hard[0, h], hard[1, h], hard[2, h] = place, at, after
        count[_HARD] += 1
    number[place] = found
    return after


@inner
def _vertex(
    text: Bytes,
    at: int,
    keys: Bytes,
    powers: Doubles,
    kind: Ints,
    value: Ints,
    number: Doubles,
    hard: Ints,
    known: Ints,
    last: Ints,
    count: NDArray[np.int64],
) -> int:
    """Read the object of a vertex, behind its first bracket."""
    v, field = count[_VERTICES], 0
    count[_VERTICES] += 1
    kind[v] = -1
    while True:
        at = blank(text, at)
        if not is_at(text, at, QUOTE):
            return BAIL
        begin, end = at + 1, string_end(text, at + 1)
        at = blank(text, end + 1)
        if end < 0 or not is_at(text, at, COLON):
            return BAIL
        at = blank(text, at + 1)
        if at == text.size:
            return BAIL
        if equal(text, begin, end, keys, 0, 4):
            if kind[v] >= 0 or text[at] != QUOTE:
                return BAIL
            begin, end = at + 1, string_end(text, at + 1)
            if end <= begin:
                return BAIL
            k = _named(text, begin, end, known[0], kind[v - 1] if v else 0, count[_KINDS])
            if k < 0:
                return BAIL
            count[_KINDS] += k == count[_KINDS]
            kind[v] = k
            at = end + 1
        else:
            field = _named(text, begin, end, known[1], field, count[_FIELDS])
            if field < 0 or last[0, field] == v:
                return BAIL
            count[_FIELDS] += field == count[_FIELDS]
            last[0, field] = v
            m, first = count[_VALUES], count[_NUMBERS]
            count[_VALUES] += 1
            value[0, m], value[1, m] = v, field
            if text[at] == QUOTE:
                end = string_end(text, at + 1)
                if end < 0:
                    return BAIL
                value[2, m], value[3, m], value[4, m] = TEXT, at + 1, end
                at = end + 1
            elif text[at] == OPEN_LIST:
                while True:
                    at = _number(text, blank(text, at + 1), powers, number, hard, count)
                    if at < 0:
                        return BAIL
                    at = blank(text, at)
                    if not is_at(text, at, COMMA):
                        break
                if not is_at(text, at, CLOSE_LIST):
                    return BAIL
                value[2, m], value[3, m], value[4, m] = VECTOR, first, count[_NUMBERS]
                at += 1
            else:
                begin = at
                at = _number(text, at, powers, number, hard, count)
                if at < 0:
                    return BAIL
                whole = 0 <= number[first] <= LARGEST
                for j in range(begin, at):
                    whole = whole and (ZERO <= text[j] <= NINE or text[j] == MINUS)
                value[2, m], value[3, m], value[4, m] = WHOLE if whole else NUMBER, first, first + 1
            field += 1
        at = blank(text, at)
        if is_at(text, at, CLOSE):
            return at + 1 if kind[v] >= 0 else BAIL
        if not is_at(text, at, COMMA):
            return BAIL
        at += 1


@inner
def _targets(text: Bytes, at: int, link: int, edge: Ints, count: NDArray[np.int64]) -> int:
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


@njit
def parse(
    text: Bytes,
    at: int,
    skip: int,
    stop: int,
    keys: Bytes,
    powers: Doubles,
    line: Ints,
    names: Ints,
    kind: Ints,
    value: Ints,
    number: Doubles,
    hard: Ints,
    edge: Ints,
    known: Ints,
    last: Ints,
    count: NDArray[np.int64],
) -> tuple[int, int]:
    """Read lines from the offset `at` until `stop` of them are seen, blank ones apart, the first `skip` not.

    Fills what `Columns` says: `line` with each line's number and first vertex; `names` with the form of an id
    (0: none) and its offsets; `hard` with the places of numbers that are to be read again, and the offsets of
    these; `known` with the offsets of the names of kinds, fields and links. `last` are -1, `count` zeros at
    first. Returns the lines seen, and the offset behind them; -1 where something is not plainly right.
    """
    seen = number_of_line = 0
    while at < text.size and seen < stop:
        at = blank(text, at)
        if at == text.size:
            break
        if text[at] == 10:
            at += 1
            number_of_line += 1
            continue
        if text[at] != OPEN:
            return BAIL, at
        seen += 1
        if seen <= skip:
            while at < text.size and text[at] != 10:
                at += 1
            at += 1
            number_of_line += 1
            continue
        i = count[_LINES]
        count[_LINES] += 1
        first, edges, link = count[_VERTICES], count[_EDGES], 0
        line[0, i], line[1, i] = number_of_line, first
        names[0, i] = names[1, i] = names[2, i] = 0
        has_vertices, has_links = False, False
        at += 1
        while True:
            at = blank(text, at)
            if not is_at(text, at, QUOTE):
                return BAIL, at
            begin, end = at + 1, string_end(text, at + 1)
            at = blank(text, end + 1)
            if end < 0 or not is_at(text, at, COLON):
                return BAIL, at
            at = blank(text, at + 1)
            if at == text.size:
                return BAIL, at
            if equal(text, begin, end, keys, 4, 12):
                if has_vertices or text[at] != OPEN_LIST:
                    return BAIL, at
                has_vertices = True
                while True:
                    at = blank(text, at + 1)
                    if not is_at(text, at, OPEN):
                        return BAIL, at
                    at = _vertex(text, at + 1, keys, powers, kind, value, number, hard, known, last, count)
                    if at < 0:
                        return BAIL, at
                    at = blank(text, at)
                    if not is_at(text, at, COMMA):
                        break
                if not is_at(text, at, CLOSE_LIST):
                    return BAIL, at
                at += 1
            elif equal(text, begin, end, keys, 12, 17):
                if has_links or text[at] != OPEN:
                    return BAIL, at
                has_links = True
                at = blank(text, at + 1)
                more = not is_at(text, at, CLOSE)
                while more:
                    at = blank(text, at)
                    if not is_at(text, at, QUOTE):
                        return BAIL, at
                    begin, end = at + 1, string_end(text, at + 1)
                    at = blank(text, end + 1)
                    if end < 0 or not is_at(text, at, COLON):
                        return BAIL, at
                    at = blank(text, at + 1)
                    link = _named(text, begin, end, known[2], link, count[_LINKS])
                    if link < 0 or last[1, link] == i:
                        return BAIL, at
                    last[1, link] = i
                    count[_LINKS] += link == count[_LINKS]
                    at = _targets(text, at, link, edge, count)
                    if at < 0:
                        return BAIL, at
                    link += 1
                    at = blank(text, at)
                    more = is_at(text, at, COMMA)
                    at += more
                if not is_at(text, at, CLOSE):
                    return BAIL, at
                at += 1
            elif equal(text, begin, end, keys, 17, 19):
                if names[0, i]:
                    return BAIL, at
                begin = at
                if text[at] == QUOTE:
                    end = string_end(text, at + 1)
                    if end < 0:
                        return BAIL, at
                    names[0, i], names[1, i], names[2, i] = 1 + TEXT, at + 1, end
                    at = end + 1
                else:
                    at += is_at(text, at, MINUS)
                    digits = at
                    while is_digit(text, at):
                        at += 1
                    if not 0 < at - digits < 19 or (text[digits] == ZERO and at > digits + 1):
                        return BAIL, at
                    names[0, i], names[1, i], names[2, i] = 1 + WHOLE, begin, at
            else:
                return BAIL, at
            at = blank(text, at)
            if is_at(text, at, CLOSE):
                break
            if not is_at(text, at, COMMA):
                return BAIL, at
            at += 1
        vertices = count[_VERTICES] - first
        if not vertices:
            return BAIL, at
        for e in range(edges, count[_EDGES]):
            if edge[1, e] >= vertices or edge[2, e] >= vertices:
                return BAIL, at
            edge[1, e] = first + edge[1, e] if edge[1, e] >= 0 else -1 - i
            edge[2, e] += first
        at = blank(text, at + 1)
        if at < text.size and text[at] != 10:
            return BAIL, at
        at += 1
        number_of_line += 1
    return seen, min(at, text.size)
