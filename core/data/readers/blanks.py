"""Words between blanks, which are the bytes up to 32: what tags, pairs and plain text are made of.

A line of white space alone is blank; one of control characters alone is malformed, and counts as an instance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from abw.core.data.feed import Bytes, Fault, Feed, Source
from abw.core.data.instances import Ints, Longs
from abw.core.jit.decorators import fragment, njit

BEGIN, END, BEHIND = range(3)
_BLANK, _NEWLINE, _BAR = 32, 10, ord("|")
_TAB, _RETURN = 9, 13
# What is wrong with such a line, and its remedy.
CONTROL = "nothing but control characters on this line", "leave the line out, or blank"
# What `parse_sentences` finds wrong.
ONLY_CONTROL, NO_BAR, NO_WORD, NO_TAG = range(1, 5)


# Parses instances from an offset until so many are seen: see `parsed`.
Parse = Callable[[Bytes, int, int, int, Bytes, Ints, Ints], tuple[int, int, int, int]]


class Parsed(NamedTuple):
    """n instances with V vertices: the kind of each (V,) and its `columns` (rows, V), where instances begin
    (n + 1,), their lines and their numbers in the file (n,); the offset `end` behind them, and the instances
    `seen`, those that were skipped among them, as `Feed.take` wants them.
    """

    source: Source
    kind: Bytes
    columns: Ints
    start: Longs
    line: Ints
    numbers: Longs
    end: int
    seen: int


def parsed(
    feed: Feed,
    skip: int,
    limit: int,
    parse: Parse,
    room: Callable[[Source], int],
    rows: int,
    faults: Mapping[int, tuple[str, str]],
) -> Parsed:
    """Instances `skip` to `skip + limit` of what is left of a feed, by a compiled parser; none is taken.

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
    start = np.empty(found + 1, np.int64)
    start[:-1], start[-1] = firsts[0, :found], count
    return Parsed(source, kind[:count], columns[:, :count], start, line, numbers, end, seen)


def room_for_words(source: Source) -> int:
    """No fewer than the vertices of a source that has one for each word and each line."""
    return sum(source.most())


@njit
def parse_sentences(
    text: Bytes, at: int, skip: int, stop: int, kind: Bytes, columns: Ints, rows: Ints
) -> tuple[int, int, int, int]:
    """Parse lines of words (see `parsed`), each a vertex of kind 1. Its columns are what `split_line` gives;
    if there are four, it is `word|TAG`, and they are the offsets of its word and of its tag.
    """
    n = seen = 0
    line = 1
    while at < text.size and seen < stop:
        here, first = at, n
        for row in range(len(columns)):
            columns[row, first] = 0
        columns[BEHIND, first + 1] = columns[BEHIND, first + 2] = 0
        at, n = split_line(text, at, columns, first + 1)
        if n == first + 1:  # a blank line
            n = first
            odd = control(text, here)
            if odd >= 0:
                return seen, n, odd, ONLY_CONTROL
        else:
            kind[first] = 0
            for word in range(first + 1, n):
                kind[word] = 1
                if len(columns) > BEHIND + 1:
                    begin, end, tag = columns[BEGIN, word], columns[END, word], columns[BEHIND, word]
                    if tag <= begin + 1 or tag == end:
                        return (
                            seen,
                            first,
                            begin,
                            NO_BAR if tag <= begin else NO_WORD if tag == begin + 1 else NO_TAG,
                        )
                    columns[END, word], columns[BEHIND + 1, word] = tag - 1, end
            n = kept(rows, seen - skip, first, line, n)
            seen += 1
        line += 1
    return seen, n, at, 0


@fragment
def kept(rows: Ints, number: int, first: int, line: int, end: int) -> int:
    """Note the first vertex and the line of an instance (2, n); the vertices kept are those before `end`.

    Of skipped instances, whose numbers are below 0, nothing is kept.
    """
    if number < 0:
        return 0
    rows[0, number], rows[1, number] = first, line
    return end


@fragment
def control(text: Bytes, at: int) -> int:
    """The offset of the first byte that is no white space on a line without words; -1 for none."""
    found = -1
    while found < 0 and at < text.size and text[at] != _NEWLINE:
        if text[at] != _BLANK and not _TAB <= text[at] <= _RETURN:
            found = at
        at += 1
    return found


@fragment
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
