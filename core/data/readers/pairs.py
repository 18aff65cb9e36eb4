"""Translation pairs: `source ||| target` on each line, words between blanks."""

from __future__ import annotations

from abw.core.data.feed import Bytes, Feed
from abw.core.data.instances import Instances, Ints
from abw.core.data.intern import intern
from abw.core.data.links import Lazy, adjacent, neighbours
from abw.core.data.readers.blanks import (
    BEGIN,
    CONTROL,
    END,
    control,
    kept,
    parsed,
    room_for_words,
    split_line,
)
from abw.core.ir.formats import SCHEMAS
from abw.core.jit.decorators import njit

# Pairs with fewer words on a side are left out, as by the programs this project compares itself with.
LEAST_WORDS = 3

_NO_BARS, _MORE_BARS, _CONTROL = 1, 2, 3
_INSTANCE, _SOURCE, _TARGET = map(SCHEMAS["pairs"].kinds.index, ("instance", "source", "target"))
_BAR = ord("|")
_FORMAT = "write each pair as: <s> a house </s> ||| <s> ein Haus </s>"
_FAULTS = {
    _NO_BARS: ("a line without '|||'", _FORMAT),
    _MORE_BARS: ("a second '|||' on the line", _FORMAT),
    _CONTROL: CONTROL,
}
SHORT = f"pairs with fewer than {LEAST_WORDS} words on a side (<s> and </s> count) are left out"


def read_pairs(feed: Feed, skip: int, limit: int) -> Instances:
    """Pairs `skip` to `skip + limit` of those left in a file with at least three words on both sides.

    An instance's source words come first, then its target words. Errors: DataError. Cost: about 50 ns a
    word.
    """
    found = parsed(feed, skip, limit, parse_pairs, room_for_words, 3, _FAULTS)
    source, kind, pieces, start, line, numbers = found[:6]
    feed.take(source, found.end, found.seen)
    word, names = intern(source.data, *pieces[:2])
    links = Lazy(neighbours(lambda: adjacent(kind)))  # adjacent words of a sentence are of one kind
    return Instances(
        SCHEMAS["pairs"], kind, start, links, {"word": word}, {"word": names}, source.path, line, numbers
    )


@njit
def parse_pairs(
    text: Bytes, at: int, skip: int, stop: int, kind: Bytes, pieces: Ints, rows: Ints
) -> tuple[int, int, int, int]:
    """Parse pairs (see `parsed`); a vertex's columns are its word's offsets (`pieces`, see `split_line`).

    Any byte up to 32 is a blank, but a line of control characters alone is a fault.
    """
    n = seen = 0
    line = 1
    while at < text.size and seen < stop:
        here, first = at, n
        pieces[BEGIN, first] = pieces[END, first] = 0
        at, n = split_line(text, at, pieces, first + 1)
        middle = -1  # the bars, and then the first vertex of the target
        for word in range(first + 1, n):
            begin, end = pieces[BEGIN, word], pieces[END, word]
            # few words end in a bar: that is asked for first
            if text[end - 1] == _BAR and end - begin == 3 and text[begin] == text[begin + 1] == _BAR:
                if middle >= 0:
                    return seen, n, begin, _MORE_BARS
                middle = word
        if middle < 0 and n > first + 1:
            return seen, n, at - 1, _NO_BARS
        if n == first + 1:
            odd = control(text, here)
            if odd >= 0:
                return seen, first, odd, _CONTROL
        n -= 1
        if middle - first - 1 < LEAST_WORDS or n - middle < LEAST_WORDS:  # also a blank line
            n = first
        else:
            kind[first] = _INSTANCE
            for word in range(first + 1, middle):
                kind[word] = _SOURCE
            for word in range(middle, n):
                kind[word] = _TARGET
                pieces[BEGIN, word] = pieces[BEGIN, word + 1]
                pieces[END, word] = pieces[END, word + 1]
            n = kept(rows, seen - skip, first, line, n)
            seen += 1
        line += 1
    return seen, n, at, 0
