"""Words between blanks, which are the bytes up to 32: what tags, pairs and plain text are made of.

A line of white space alone is blank; one of control characters alone is malformed, and counts as an instance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from abw.core.data.feed import Bytes, Fault, Feed, Source
from abw.core.data.instances import Ints, Longs
from abw.core.jit.decorators import inner, njit

BEGIN, END, BEHIND = range(3)
_BLANK, _NEWLINE, _BAR = 32, 10, ord("|")
_TAB, _RETURN = 9, 13
# What is wrong with such a line, and its remedy.
CONTROL = "nothing but control characters on this line", "leave the line out, or blank"


class Lines(NamedTuple):
    """Lines of a source that are not blank, and the offset `end` behind them.

    Line i is the file's line `number[i]` (n,), with the words `ptr[i]:ptr[i + 1]` (n + 1,), whose offsets are
    in `pieces` (3, words): see `split_line`.
    """

    source: Source
    number: Ints
    ptr: Ints
    pieces: Ints
    end: int


def read_lines(feed: Feed, skip: int, stop: int) -> Lines:
    """Read up to `stop` lines of the rest of a feed, and leave out the first `skip`.

    They are not taken from it. Errors: DataError where they are not UTF-8, or hold control characters alone.
    """
    for source in feed.windows(stop):
        most, words = source.most()
        pieces, rows = np.zeros((3, words), np.int32), np.empty((2, most), np.int32)
        lines, count, end = split(source.text, source.begin, stop, pieces, rows)
        if source.enough(lines, stop, skip):
            break
    source.check(end)
    first = pieces[BEGIN, rows[1, :lines]]
    if len(odd := first[source.text[first] <= _BLANK]):
        source.refuse(Fault(int(at), *CONTROL) for at in odd)
    number = rows[0, :lines] + np.int32(source.line - 1)
    return Lines(source, number, np.append(rows[1, :lines], np.int32(count)), pieces[:, :count], end)


# Parses instances from an offset until so many are seen: see `parsed`.
Parse = Callable[[Bytes, int, int, int, Bytes, Ints, Ints], tuple[int, int, int, int]]


class Parsed(NamedTuple):
    """n instances with V vertices: the kind of each (V,) and its `columns` (rows, V), where instances begin
    (n + 1,), their lines and their numbers in the file (n,).
    """

    source: Source
    kind: Bytes
    columns: Ints
    start: Longs
    line: Ints
    numbers: Longs


def parsed(
    feed: Feed,
    skip: int,
    limit: int,
    parse: Parse,
    room: Callable[[Source], int],
    rows: int,
    faults: Mapping[int, tuple[str, str]],
) -> Parsed:
    """Instances `skip` to `skip + limit` of what is left of a feed, by a compiled parser.

    `parse(text, at, skip, stop, kind, columns, firsts)` parses from the offset `at` until `stop` instances
    are seen. It fills, for each vertex, its kind and `columns` (`rows` of them, for `room(source)` vertices),
    and for each instance behind the first `skip` its first vertex and its line (`firsts`). It returns the
    instances seen, the vertices, the offset behind them, and 0 or the fault (of `faults`) found at that
    offset. Errors: DataError.
    """
    stop = skip + limit
    for source in feed.windows(stop):
        lines, most = 1 + source.ends, room(source)
        kind, columns = np.empty(most, np.uint8), np.empty((rows, most), np.int32)
        firsts = np.empty((2, lines), np.int32)
        seen, count, end, code = parse(source.text, source.begin, skip, stop, kind, columns, firsts)
        if code or source.enough(seen, stop, skip):
            break

    def found_faults(at: int, code: int) -> Iterator[Fault]:
        while code:
            yield Fault(at, *faults[code])
            _, _, at, code = parse(source.text, source.line_end(at), 0, lines, kind, columns, firsts)

    if code:
        source.refuse(found_faults(end, code))
    source.check(end)
    found = max(seen - skip, 0)
    line = firsts[1, :found] + np.int32(source.line - 1)
    numbers = feed.numbers(line, skip)
    feed.take(source, end, seen)
    start = np.empty(found + 1, np.int64)
    start[:-1], start[-1] = firsts[0, :found], count
    return Parsed(source, kind[:count], columns[:, :count], start, line, numbers)


@njit
def split(text: Bytes, at: int, stop: int, pieces: Ints, rows: Ints) -> tuple[int, int, int]:
    """Split up to `stop` lines into words.

    Fills, for each word, `pieces` (see `split_line`), and for each line that is not blank its number and its
    first word (`rows`). A line of control characters alone has one of them for a word. Returns the lines, the
    words, and the offset behind them.
    """
    count: int = np.int64(0)  # type: ignore[assignment]  # for a literal `split_line` is compiled once more
    lines, line = 0, 1
    while at < text.size and lines < stop:
        begin, first = at, count
        at, count = split_line(text, at, pieces, count)
        if count == first:
            odd = control(text, begin)
            pieces[BEGIN, count], pieces[END, count], pieces[BEHIND, count] = odd, odd + 1, begin
            count += int(odd >= 0)
        if count > first:
            rows[0, lines] = line
            rows[1, lines] = first
            lines += 1
        line += 1
    return lines, count, at


@inner
def control(text: Bytes, at: int) -> int:
    """The offset of the first byte that is no white space on a line without words; -1 for none."""
    found = -1
    while found < 0 and at < text.size and text[at] != _NEWLINE:
        if text[at] != _BLANK and not _TAB <= text[at] <= _RETURN:
            found = at
        at += 1
    return found


@inner
def split_line(text: Bytes, at: int, pieces: Ints, n: int) -> tuple[int, int]:
    """The words of the line at an offset, from the `n`-th on; returns the offset behind it, and how many.

    Fills, for each, its begin, its end, and what lies behind its last '|' (where there is none, some offset
    that is not behind its begin, if that was so before). No branch asks where a word ends, which none could
    learn: each byte says where the word before it ends if it does, and where the next one begins if one does.
    """
    begin, end, behind = pieces[BEGIN], pieces[END], pieces[BEHIND]
    begin[n], inside = at, 0
    while at < text.size and text[at] != _NEWLINE:
        byte = text[at]
        letter = int(byte > _BLANK)
        end[n] = at
        n += inside & ~letter
        at += 1
        begin[n + letter] = at  # of the next word, if a blank comes before that
        behind[n + int(byte != _BAR)] = at  # of the next one this is no use
        inside = letter
    end[n] = at
    return at + 1, n + inside
