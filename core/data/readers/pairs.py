"""Translation pairs: `source ||| target` on each line, words between blanks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from abw.core.base.jit import njit
from abw.core.data.feed import Bytes, Fault, Feed
from abw.core.data.instances import Instances, Ints, Link
from abw.core.data.intern import intern
from abw.core.data.links import Lazy, following
from abw.core.ir.formats import SCHEMAS

LEAST_WORDS = 3
"""Pairs with fewer words on a side are left out, as by the programs this project compares itself with."""

_NO_BARS, _MORE_BARS = 1, 2
_FORMAT = "write each pair as: <s> a house </s> ||| <s> ein Haus </s>"
_FAULTS = {_NO_BARS: ("a line without '|||'", _FORMAT), _MORE_BARS: ("a second '|||' on the line", _FORMAT)}
SHORT = f"pairs with fewer than {LEAST_WORDS} words on a side (<s> and </s> count) are left out"


def read_pairs(feed: Feed, skip: int, limit: int) -> Instances:
    """Pairs `skip` to `skip + limit` of those left in a file with at least three words on both sides.

    An instance's source words come first, then its target words. Errors: DataError. Cost: about 50 ns a
    word.
    """
    schema = SCHEMAS["pairs"]
    kinds = np.array([schema.kinds.index(kind) for kind in ("instance", "source", "target")], np.uint8)
    stop = skip + limit
    for source in feed.windows(stop):
        most = len(source.data) // 2 + 2  # a word and what parts it from the next take two bytes
        kind = np.empty(most, np.uint8)
        piece, rows = np.empty((2, most), np.int32), np.empty((2, most), np.int32)
        seen, count, end, code = parse_pairs(source.text, source.begin, skip, stop, kinds, kind, piece, rows)
        if code or source.enough(seen, stop, skip):
            break

    def faults(at: int, code: int) -> Iterator[Fault]:
        while code:
            yield Fault(at, *_FAULTS[code])
            _, _, at, code = parse_pairs(source.text, source.line_end(at), 0, most, kinds, kind, piece, rows)

    if code:
        source.refuse(faults(end, code))
    source.check(end)
    found = max(seen - skip, 0)
    lines = rows[1, :found] + np.int32(source.line - 1)
    numbers = feed.numbers(lines, skip)
    feed.take(source, end, seen)
    kind = kind[:count]
    start = np.append(rows[0, :found], count).astype(np.int64)
    words, names = intern(source.data, source.text, *piece[:, :count])

    @cache
    def neighbours() -> tuple[Ints, Ints]:
        # side by side, two vertices of one kind are words of one sentence
        return following(np.arange(count, dtype=np.int32), kind, count)

    links = Lazy({"prev": lambda: Link(neighbours()[0]), "next": lambda: Link(neighbours()[1])})
    return Instances(
        schema, kind, start, links, {"word": words}, {"word": names}, source.path, lines, numbers
    )


@njit
def parse_pairs(
    text: Bytes, at: int, skip: int, stop: int, kinds: Bytes, kind: Bytes, piece: Ints, rows: Ints
) -> tuple[int, int, int, int]:
    """Parse pairs from the offset `at` until `stop` of them are seen; any byte up to 32 is a blank.

    Fills, for each vertex, its kind and its word's offsets, and for each pair behind the first `skip` its
    first vertex and its line (`rows`). `kinds` are the numbers of instance, source and target. Returns the
    pairs seen, the vertices, the offset behind them, and 0 or the fault found at that offset.
    """
    n = seen = 0
    line = 1
    while at < text.size and seen < stop:
        first = n
        kind[n] = kinds[0]
        piece[0, n] = piece[1, n] = -1
        n += 1
        middle = -1  # the first vertex of the target
        while at < text.size and text[at] != 10:
            if text[at] <= 32:
                at += 1
                continue
            begin = at
            while at < text.size and text[at] > 32:
                at += 1
            if at - begin == 3 and text[begin] == 124 and text[begin + 1] == 124 and text[begin + 2] == 124:
                if middle >= 0:
                    return seen, n, begin, _MORE_BARS
                middle = n
                continue
            kind[n] = kinds[1] if middle < 0 else kinds[2]
            piece[0, n] = begin
            piece[1, n] = at
            n += 1
        if middle < 0 and n > first + 1:
            return seen, n, at, _NO_BARS
        if middle - first - 1 < LEAST_WORDS or n - middle < LEAST_WORDS:  # also a blank line
            n = first
        else:
            if seen < skip:
                n = 0
            else:
                rows[0, seen - skip] = first
                rows[1, seen - skip] = line
            seen += 1
        at += 1
        line += 1
    return seen, n, at, 0
