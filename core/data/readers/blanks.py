"""Words between blanks, which are the bytes up to 32: what tags, pairs and plain text are made of.

A line of white space alone is blank; one of control characters alone is malformed, and counts as an instance.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from abw.core.data.feed import Bytes, Fault, Feed, Source
from abw.core.data.instances import Ints
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
    """Up to `stop` lines of what is left of a feed, the first `skip` of which nobody wants.

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
    """Of a line without words, at an offset: where its first byte is that is no white space; -1 for none."""
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
