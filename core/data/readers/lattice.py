"""Word lattices: arcs over the positions of a sentence.

First line: the number of sentences. Then, for each: a line with its length L; a line of L tags; L lines,
one a position i: `n from_1 id_1 … from_n id_n`, the arcs that end there. An arc with from = i - 1 is a
character's own, any other is a word's. Position 0 has no arcs. Blank lines mean nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

import numpy as np

from abw.core.base.errors import DataError, Problem
from abw.core.data.feed import Bytes, Fault, Feed, Source, open_feed
from abw.core.data.instances import Instances, Ints, Link
from abw.core.data.links import Lazy, following, inverse, neighbours
from abw.core.ir.formats import SCHEMAS
from abw.core.jit.decorators import fragment, njit

_NOT_A_NUMBER, _TOO_FEW, _TOO_MANY, _NO_LENGTH, _NOT_BEFORE, _ENDS, _MORE, _FEWER = range(1, 9)
_INSTANCE, _POSITION, _CHAR, _WORD = map(
    SCHEMAS["lattice"].kinds.index, ("instance", "position", "char-arc", "word-arc")
)
_BLANK, _NEWLINE = 32, 10
_LARGEST, _LOW = 2**31 - 1, 2**32 - 1
_DIGITS = np.full(256, 2**32)  # more than any number may be: what is no digit
_DIGITS[: _BLANK + 1] = 0
_DIGITS[ord("0") : ord("9") + 1] = range(10)
_LINES = re.compile(rb"[^\x00-\x20][^\n]*")
_WORDS = re.compile(rb"[^\x00-\x20]+")
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

    Errors: DataError, at the first fault (what follows it cannot be told apart). Cost: about 40 ns a vertex.
    """
    if feed.left is None:
        _read_head(feed)
        if section := feed.section:
            follow = max(0, (feed.left or 0) - section.seen)
            feed.left = follow if section.last else min(follow, section.count)
    declared = feed.left or 0
    stop = skip + limit
    for source in feed.windows(64 * stop):
        lines, words = source.most()
        most = words // 2 + lines  # an arc or a position with its tag are two numbers, a lattice is a line
        kind = np.empty(most, np.uint8)
        columns, rows = np.empty((4, most), np.int32), np.empty((2, lines), np.int32)
        scratch = np.empty((3, words), np.int32)
        seen, count, end, code, number, index = parse_lattices(
            source.text, source.begin, declared, skip, stop, kind, columns, rows, scratch
        )
        at = _offset(source, end, code, number, index)
        # a sentence with a fault can be left out once all its lines are there
        if code not in (0, _ENDS, _FEWER) and _sentence(source, end, at, code)[1]:
            break
        if source.enough(seen, stop, skip):
            code = 0
            break
    if code == _FEWER and feed.head:
        raise DataError([Problem(_FAULTS[code][0], feed.head, _FAULTS[code][1])], ())
    if code:
        source.refuse([Fault(at, *_FAULTS[code])], _sentence(source, end, at, code)[0])
    found = max(seen - skip, 0)
    line = rows[1, :found] + np.int32(source.line - 1)
    numbers = feed.numbers(line, skip)
    feed.take(source, end, seen)
    feed.left = declared - seen
    kind = kind[:count]
    origin, to, identity, tag = columns[:, :count]
    start = np.empty(found + 1, np.int64)
    start[:-1], start[-1] = rows[0, :found], count

    def around() -> tuple[Ints, Ints]:
        positions = np.flatnonzero(kind == _POSITION).astype(np.int32)
        return following(positions, np.searchsorted(start, positions, "right").astype(np.int32), count)

    links = Lazy(
        {
            "from": lambda: Link(origin),
            "to": lambda: Link(to),
            "arcs": lambda: inverse(to),
            **neighbours(around),
        }
    )
    fields = {"id": identity, "tag": tag}
    return Instances(SCHEMAS["lattice"], kind, start, links, fields, {}, source.path, line, numbers)


def _read_head(feed: Feed) -> None:
    """The number of sentences, on the file's first line that is not blank. Errors: DataError."""
    if feed.section and feed.section.begin:
        with open_feed(feed.path) as whole:
            _read_head(whole)
        feed.left, feed.head = whole.left, whole.head
        return
    for source in feed.windows(1):
        line = _LINES.search(source.data, source.begin)
        if line:
            break
    if not line:
        feed.left = 0
        feed.take(source, len(source.data), 0)
        return
    words = list(_WORDS.finditer(source.data, *line.span()))
    wrong = _no_number(words)
    if wrong is not None or len(words) > 1:
        index, code = (words[1].start(), _TOO_MANY) if wrong is None else (wrong, _NOT_A_NUMBER)
        source.refuse([Fault(index, *_FAULTS[code])], ())
    feed.left = _number(words[0][0])
    feed.head = source.problem(Fault(line.start(), "")).where
    feed.take(source, min(line.end() + 1, len(source.data)), 0)


def _no_number(words: Iterable[re.Match[bytes]]) -> int | None:
    """The offset of the first word that is no number, if there is one."""
    wrong = (word.start() for word in words if not word[0].isdigit() or _number(word[0]) > _LARGEST)
    return next(wrong, None)


def _number(word: bytes) -> int:
    """The number that digits are, or as large a one where they are more than Python reads."""
    return int(word.lstrip(b"0")[:11] or b"0")


def _offset(source: Source, begin: int, code: int, number: int, index: int) -> int:
    """The offset of a number on a line behind an offset, of those not blank, or of its end."""
    if code in (0, _ENDS, _FEWER):
        return len(source.data)
    line = next(islice(_LINES.finditer(source.data, begin), number, None))
    words = list(_WORDS.finditer(source.data, *line.span()))
    wrong = _no_number(words) if code == _NOT_A_NUMBER else None
    return wrong if wrong is not None else words[index].start() if index < len(words) else line.end()


def _sentence(source: Source, begin: int, at: int, code: int) -> tuple[tuple[range, ...], bool]:
    """The lines of the sentence behind `begin`, which has a fault at `at`, and whether these are all of them.

    None where its length is not known, and with that where the next one begins.
    """
    while source.data[begin] <= _BLANK:
        begin += 1
    first = source.line + source.data.count(b"\n", 0, begin)
    if (source.line_end(begin) >= at and code != _NO_LENGTH) or code == _MORE:
        return (), True
    lines = source.data[begin:].split(b"\n")
    length = int(bytes(byte for byte in lines[0] if byte > _BLANK))
    wanted = 1 if code == _NO_LENGTH else length + 2
    for number, line in enumerate(lines):
        wanted -= any(byte > _BLANK for byte in line)
        if wanted == 0:
            return (range(first, first + number + 1),), True
    return (range(first, first + len(lines)),), False


@njit
def parse_lattices(
    text: Bytes,
    at: int,
    declared: int,
    skip: int,
    stop: int,
    kind: Bytes,
    columns: Ints,
    rows: Ints,
    scratch: Ints,
) -> tuple[int, int, int, int, int, int]:
    """Parse lattices from the offset `at` until `stop` of them are seen; there shall be `declared`.

    Fills, for each vertex, its kind and `columns` (from, to, id, tag; -1: none), and for each lattice behind
    the first `skip` its first vertex and its line (`rows`). Returns the lattices seen, the vertices, the
    offset behind them, and 0 or the fault found in the next lattice, with the line of those that are not
    blank and the number on it, both from 0.
    """
    origin, to, identity, tag = columns[0], columns[1], columns[2], columns[3]
    value, ends, vertex = scratch[0], scratch[1], scratch[2]
    n = seen = whole = 0
    line: int = np.int64(1)  # type: ignore[assignment]  # for a literal `_numbers` is compiled once more
    one = line
    done = at
    code = number = index = 0
    while seen < stop:
        at, line, lines, good = _numbers(text, at, line, one, value, ends)
        if lines == 0:
            code = _FEWER if seen < declared else 0
            done = at
            break
        length, number = int(value[0]), 0
        if good == 0:
            code = _NOT_A_NUMBER
        elif seen == declared:
            code = _MORE
        elif ends[0] != 1:
            code, index = _TOO_MANY, 1
        elif length == 0:
            code = _NO_LENGTH
        if code:
            break
        if seen <= skip:
            n = 0
        if seen >= skip:
            rows[0, seen - skip] = n
            rows[1, seen - skip] = line
        kind[n] = _INSTANCE
        origin[n] = to[n] = identity[n] = tag[n] = -1
        n += 1
        at, line, lines, good = _numbers(text, at, line, length + 1, value, ends)
        end = 0
        for i in range(-1, length):  # the line of tags, and the positions'
            number = i + 2
            if i + 1 == good:
                code = _ENDS if lines == good else _NOT_A_NUMBER
                break
            begin, end = end, int(ends[i + 1])
            count = end - begin
            wanted = length if i < 0 else 1 + 2 * int(value[begin])
            if count != wanted:
                code, index = _TOO_FEW if count < wanted else _TOO_MANY, min(count, wanted)
                break
            if i < 0:
                continue
            position = n + count // 2
            for j in range(begin + 1, end, 2):
                if value[j] >= i:
                    code, index = _NOT_BEFORE, j - begin
                    break
                kind[n] = _CHAR if value[j] == i - 1 else _WORD
                origin[n] = vertex[value[j]]
                to[n] = position
                identity[n] = value[j + 1]
                tag[n] = -1
                n += 1
            if code:
                break
            kind[n] = _POSITION
            origin[n] = to[n] = identity[n] = -1
            tag[n] = value[i]
            vertex[i] = n
            n += 1
        if code:
            break
        seen += 1
        whole, done = n, at
    return seen, whole, done, code, number, index


@fragment
def _numbers(
    text: Bytes, at: int, line: int, wanted: int, value: Ints, ends: Ints
) -> tuple[int, int, int, int]:
    """The numbers of the next lines that are not blank, and how many there are up to the end of each.

    Returns the offset behind them, the line there, how many lines they are, and how many of them come before
    one with what is no number. Any byte up to 32 is a blank. No branch asks where a number ends, which none
    could learn: each byte notes the number before it, which counts if it ends there.
    """
    n = before = inside = number = any = found = good = 0
    while at < text.size:
        byte = text[at]
        letter = int(byte > _BLANK)
        value[n] = number
        n += inside & ~letter
        number = ((number & _LOW) * 10 + int(_DIGITS[byte])) & -letter
        any |= number
        inside = letter
        if byte == _NEWLINE:
            if n > before:
                ends[found] = before = n
                found += 1
                good += any <= _LARGEST
                if found == wanted:
                    return at, line, found, good
            line += 1
        at += 1
    value[n] = number
    if n + inside > before:
        ends[found] = n + inside
        found += 1
        good += any <= _LARGEST
    return at, line, found, good
