"""Word lattices: arcs over the positions of a sentence.

First line: the number of sentences. Then, for each: a line with its length L; a line of L tags; L lines,
one a position i: `n from_1 id_1 … from_n id_n`, the arcs that end there. An arc with from = i - 1 is a
character's own, any other is a word's. Position 0 has no arcs. Blank lines mean nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from abw.core.base.errors import DataError, Problem
from abw.core.base.jit import njit
from abw.core.data.feed import Bytes, Fault, Feed, Source, open_feed
from abw.core.data.instances import Instances, Ints, Link
from abw.core.data.links import Lazy, following, inverse
from abw.core.ir.formats import SCHEMAS

_NOT_A_NUMBER, _TOO_FEW, _TOO_MANY, _NO_LENGTH, _NOT_BEFORE, _ENDS, _MORE, _FEWER = range(1, 9)
_LENGTH, _TAGS, _POSITION = range(3)
_BLANK = 32
_FORMAT = "each sentence: its length L, a line of L tags, L lines 'n from id from id …'"
_FAULTS = {
    _NOT_A_NUMBER: ("not a whole number below 2147483648", _FORMAT),
    _TOO_FEW: ("the line ends too early: numbers are missing", _FORMAT),
    _TOO_MANY: ("more numbers than the line should have", _FORMAT),
    _NO_LENGTH: ("a sentence of length 0", _FORMAT),
    _NOT_BEFORE: ("an arc must begin at a position before the one where it ends", "positions count from 0"),
    _ENDS: ("the file ends inside a sentence", _FORMAT),
    _MORE: ("more lines than the first line's number of sentences", "mend the number on the first line"),
    _FEWER: ("the file holds fewer sentences than this line says", "mend the number on the first line"),
}


def read_lattices(feed: Feed, skip: int, limit: int) -> Instances:
    """Lattices `skip` to `skip + limit` of what is left of a file; a position's arcs come before it.

    Errors: DataError, at the first fault (what follows it cannot be told apart). Cost: about 20 ns a vertex.
    """
    schema = SCHEMAS["lattice"]
    kinds = np.array(
        [schema.kinds.index(k) for k in ("instance", "position", "char-arc", "word-arc")], np.uint8
    )
    if feed.left is None:
        _read_head(feed)
        if section := feed.section:
            follow = max(0, (feed.left or 0) - section.seen)
            feed.left = follow if section.last else min(follow, section.count)
    declared = feed.left or 0
    stop = skip + limit
    for source in feed.windows(64 * stop):
        most = len(source.data) // 2 + 2  # an arc or a position takes four bytes, a lattice's own line two
        kind = np.empty(most, np.uint8)
        columns, rows, scratch = (np.empty((n, most), np.int32) for n in (4, 2, 4))
        seen, count, end, code, at = parse_lattices(
            source.text, source.begin, declared, skip, stop, kinds, kind, columns, rows, scratch
        )
        # a sentence with a fault can be left out once all its lines are there
        wrong = _sentence(source, end, at, code) if code not in (0, _ENDS, _FEWER) else None
        if wrong and wrong.whole:
            break
        if source.enough(seen, stop, skip):
            code = 0
            break
    if code == _FEWER and feed.head:
        raise DataError([Problem(_FAULTS[code][0], feed.head, _FAULTS[code][1])], ())
    if code:
        source.refuse([Fault(at, *_FAULTS[code])], (wrong or _sentence(source, end, at, code)).spans)
    found = max(seen - skip, 0)
    lines = rows[1, :found] + np.int32(source.line - 1)
    numbers = feed.numbers(lines, skip)
    feed.take(source, end, seen)
    feed.left = declared - seen
    kind = kind[:count]
    origin, to, identity, tag = columns[:, :count]
    start = np.append(rows[0, :found], count).astype(np.int64)

    @cache
    def neighbours() -> tuple[Ints, Ints]:
        positions = np.flatnonzero(kind == kinds[1]).astype(np.int32)
        return following(positions, np.searchsorted(start, positions, "right").astype(np.int32), count)

    links = Lazy(
        {
            "from": lambda: Link(origin),
            "to": lambda: Link(to),
            "arcs": lambda: inverse(to),
            "prev": lambda: Link(neighbours()[0]),
            "next": lambda: Link(neighbours()[1]),
        }
    )
    fields = {"id": identity, "tag": tag}
    return Instances(schema, kind, start, links, fields, {}, source.path, lines, numbers)


def _read_head(feed: Feed) -> None:
    """The number of sentences, on the file's first line that is not blank. Errors: DataError."""
    if feed.section and feed.section.begin:
        with open_feed(feed.path) as whole:
            _read_head(whole)
        feed.left, feed.head = whole.left, whole.head
        return
    for source in feed.windows(1):
        value, place = np.empty((2, len(source.data) + 1), np.int32)
        count, end, _ = _numbers(source.text, source.begin, 1, value, place)
        if count:
            break
    if count < 0 or count > 1:
        code = _NOT_A_NUMBER if count < 0 else _TOO_MANY
        source.refuse([Fault(end if count < 0 else int(place[1]), *_FAULTS[code])], ())
    feed.left = int(value[0]) if count else 0
    if count:
        feed.head = source.problem(Fault(int(place[0]), "")).where
    feed.take(source, min(source.line_end(end) + 1, len(source.data)), 0)


@dataclass(frozen=True, slots=True)
class _Sentence:
    """The lines of a sentence: none where its length is not known, and with that where the next one begins.

    Unless it is `whole`, more of them may follow.
    """

    spans: tuple[range, ...]
    whole: bool


def _sentence(source: Source, begin: int, at: int, code: int) -> _Sentence:
    """The sentence behind the offset `begin`, which has a fault at `at`."""
    while source.data[begin] <= _BLANK:
        begin += 1
    first = source.line + source.data.count(b"\n", 0, begin)
    if (source.line_end(begin) >= at and code != _NO_LENGTH) or code == _MORE:
        return _Sentence((), True)
    lines = source.data[begin:].split(b"\n")
    length = int(bytes(byte for byte in lines[0] if byte > _BLANK))
    wanted = 1 if code == _NO_LENGTH else length + 2
    for number, line in enumerate(lines):
        wanted -= any(byte > _BLANK for byte in line)
        if wanted == 0:
            return _Sentence((range(first, first + number + 1),), True)
    return _Sentence((range(first, first + len(lines)),), False)


@njit
def parse_lattices(
    text: Bytes,
    at: int,
    declared: int,
    skip: int,
    stop: int,
    kinds: Bytes,
    kind: Bytes,
    columns: Ints,
    rows: Ints,
    scratch: Ints,
) -> tuple[int, int, int, int, int]:
    """Parse lattices from the offset `at` until `stop` of them are seen; there shall be `declared`.

    Fills, for each vertex, its kind and `columns` (from, to, id, tag; -1: none), and for each lattice behind
    the first `skip` its first vertex and its line (`rows`). `kinds` are the numbers of instance, position,
    character's and word's arc. Returns the lattices seen, the vertices, the offset behind them, and 0 or
    the fault found, with its offset.
    """
    value, place, tags, vertex = scratch[0], scratch[1], scratch[2], scratch[3]
    n = seen = length = i = whole = 0
    line: int = np.int64(1)  # type: ignore[assignment]  # for a literal `_numbers` is compiled once more
    done = at
    expected = _LENGTH
    while seen < stop:
        count, at, line = _numbers(text, at, line, value, place)
        if count < 0:
            return seen, whole, done, _NOT_A_NUMBER, at
        if count == 0:  # the end
            if expected != _LENGTH:
                return seen, whole, done, _ENDS, at
            return seen, whole, at, _FEWER if seen < declared else 0, at
        if expected == _LENGTH and seen == declared:
            return seen, whole, done, _MORE, place[0]
        wanted = 1
        if expected == _TAGS:
            wanted = length
        elif expected == _POSITION:
            wanted += 2 * value[0]
        if count != wanted:
            return seen, whole, done, _TOO_FEW if count < wanted else _TOO_MANY, place[min(count, wanted)]

        if expected == _LENGTH:
            if value[0] == 0:
                return seen, whole, done, _NO_LENGTH, place[0]
            if seen <= skip:
                n = 0
            if seen >= skip:
                rows[0, seen - skip] = n
                rows[1, seen - skip] = line
            length = value[0]
            i = 0
            expected = _TAGS
            kind[n] = kinds[0]
            columns[0, n] = columns[1, n] = columns[2, n] = columns[3, n] = -1
            n += 1
        elif expected == _TAGS:
            for j in range(length):
                tags[j] = value[j]
            expected = _POSITION
        else:
            vertex[i] = position = n + count // 2
            for j in range(1, count, 2):
                if value[j] >= i:
                    return seen, whole, done, _NOT_BEFORE, place[j]
                kind[n] = kinds[2] if value[j] == i - 1 else kinds[3]
                columns[0, n] = vertex[value[j]]
                columns[1, n] = position
                columns[2, n] = value[j + 1]
                columns[3, n] = -1
                n += 1
            kind[n] = kinds[1]
            columns[0, n] = columns[1, n] = columns[2, n] = -1
            columns[3, n] = tags[i]
            n += 1
            i += 1
            if i == length:
                seen += 1
                whole, done = n, at
                expected = _LENGTH
    return seen, whole, done, 0, at


@njit
def _numbers(text: Bytes, at: int, line: int, value: Ints, place: Ints) -> tuple[int, int, int]:
    """The numbers of the next line that is not blank, with their offsets and that of the line's end.

    Returns how many (0: the text ends; -1: at the offset there is no number), the offset behind them, and
    their line. Any byte up to 32 is a blank.
    """
    count = 0
    while at < text.size:
        if text[at] <= 32:
            if text[at] == 10:
                if count > 0:
                    break
                line += 1
            at += 1
            continue
        place[count] = at
        number = 0
        while at < text.size and text[at] > 32:
            number = number * 10 + (text[at] - 48)
            if text[at] < 48 or text[at] > 57 or number > 2147483647:
                return -1, place[count], line
            at += 1
        value[count] = number
        count += 1
    place[count] = at
    return count, at, line
