"""Words between blanks, which are the bytes up to 32: what tags, pairs and plain text are made of."""

from __future__ import annotations

import numpy as np

from abw.core.base.jit import inner, njit
from abw.core.data.feed import Bytes
from abw.core.data.instances import Ints

BEGIN, END, BEHIND = range(3)
_ROWS = np.full(256, END, np.uint8)
_ROWS[:33] = BEGIN
_ROWS[ord("|")] = BEHIND


@njit
def split(text: Bytes, at: int, stop: int, pieces: Ints, rows: Ints) -> tuple[int, int, int]:
    """Split up to `stop` lines into words.

    Fills, for each word, `pieces` (see `split_line`), and for each line that is not blank its number and its
    first word (`rows`). Returns the lines, the words, and the offset behind them.
    """
    count = lines = 0
    line = 1
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

    Fills, for each, its begin, its end, and what lies behind its last '|' (left as it is where there is
    none). No branch asks where a word ends, which none could learn: each byte says where the word before it
    ends if it does, and where one begins if that is the next.
    """
    inside = 0
    pieces[BEGIN, np.uintp(n)] = at
    while at < text.size and text[np.uintp(at)] != 10:
        row = _ROWS[text[np.uintp(at)]]
        letter = int(row != BEGIN)
        pieces[END, np.uintp(n)] = at
        n += inside & ~letter
        at += 1
        pieces[row, np.uintp(n)] = at
        inside = letter
    pieces[END, np.uintp(n)] = at
    return at + 1, n + inside
