"""Words between blanks, which are the bytes up to 32: what tags, pairs and plain text are made of."""

from __future__ import annotations

import numpy as np

from abw.core.base.jit import inner, njit
from abw.core.data.feed import Bytes
from abw.core.data.instances import Ints

BEGIN, END, BEHIND = range(3)
_BLANK, _NEWLINE, _BAR = 32, 10, ord("|")
_ROWS = np.full(256, END, np.uint8)
_ROWS[:33] = BEGIN
_ROWS[ord("|")] = BEHIND


@njit
def split(text: Bytes, at: int, stop: int, pieces: Ints, rows: Ints) -> tuple[int, int, int]:
    """Split up to `stop` lines into words.

    Fills, for each word, `pieces` (see `split_line`), and for each line that is not blank its number and its
    first word (`rows`). Returns the lines, the words, and the offset behind them.
    """
    count: int = np.int64(0)  # type: ignore[assignment]  # for a literal `split_line` is compiled once more
    lines, line = 0, 1
    while at < text.size and lines < stop:
        first = count
        at, count = split_line(text, at, pieces, count)
        if count > first:
            rows[0, lines] = line
            rows[1, lines] = first
            lines += 1
        line += 1
    return lines, count, at


@inner
def split_line(text: Bytes, at: int, pieces: Ints, n: int) -> tuple[int, int]:
    """The words of the line at an offset, from the `n`-th on; returns the offset behind it, and how many.

    Fills, for each, its begin, its end, and what lies behind its last '|' (where there is none, some offset
    that is not behind its begin, if that was so before). No branch asks where a word ends, which none could
    learn: each byte says where the word before it ends if it does, and where the next one begins if one does.
    """
    begin, end, behind = pieces[BEGIN], pieces[END], pieces[BEHIND]
    begin[n], inside = at, 0
    while at < text.size and text[np.uintp(at)] != _NEWLINE:
        byte = text[np.uintp(at)]
        letter = int(byte > _BLANK)
        end[np.uintp(n)] = at
        n += inside & ~letter
        at += 1
        begin[np.uintp(n + letter)] = at  # of the next word, if a blank comes before that
        behind[np.uintp(n + int(byte != _BAR))] = at  # of the next one this is no use
        inside = letter
    end[n] = at
    return at + 1, n + inside
