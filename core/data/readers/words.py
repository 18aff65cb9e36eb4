"""Plain text: one sentence on each line, its tokens what stands between blanks, or what a pattern finds."""

from __future__ import annotations

import re
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from abw.core.data.feed import Fault, Feed, Source
from abw.core.data.instances import Instances, Ints
from abw.core.data.intern import intern
from abw.core.data.links import Lazy, adjacent, neighbours, single
from abw.core.data.readers.blanks import BEGIN, END, read_lines
from abw.core.data.readers.tokenise import pieces_of
from abw.core.ir.formats import SCHEMAS

_NOTHING = "no token on this line", "the pattern of `tokens` finds none here: leave the line out, or blank"
_NEWLINE = 10


def read_words(feed: Feed, skip: int, limit: int, tokens: str) -> Instances:
    """Sentences `skip` to `skip + limit` of what is left of a file.

    `tokens` is a regular expression (Python's) all of whose matches on a line are its tokens; where it is
    empty, these are what stands between blanks. Errors: DataError. Cost: about 50 ns a token; with a pattern
    that `pieces_of` does not take, 200 and what Python takes for it.
    """
    schema = SCHEMAS["words"]
    source, line, ptr, pieces, end = read_lines(feed, skip, skip + limit)
    lines = len(line)
    line, ptr = line[skip:], ptr[min(skip, lines) :]
    data, begin, after = source.data, pieces[BEGIN], pieces[END]
    if tokens:
        first, last = begin[ptr[:-1]], after[ptr[1:] - 1]
        if (found := pieces_of(source.text, first, last, tokens)) is not None:
            (begin, after), ptr = found
            _refuse_empty(source, first, ptr)
        else:
            data, begin, after, ptr = _found(source, tokens, first, last)
    numbers = feed.numbers(line, min(skip, lines))
    feed.take(source, end, lines)
    here = slice(int(ptr[0]), int(ptr[-1]))
    ptr = ptr - ptr[0]
    number, names = intern(data, begin[here], after[here])

    start = (ptr + np.arange(len(ptr))).astype(np.int64)
    count = int(start[-1])
    kind = np.full(count, schema.kinds.index("token"), np.uint8)
    kind[start[:-1]] = schema.kinds.index("instance")
    word = np.full(count, -1, np.int32)
    word[kind == schema.kinds.index("token")] = number

    links = Lazy(
        {
            **neighbours(lambda: adjacent(kind)),  # two vertices of a kind side by side: words of a sentence
            "first": lambda: single(start[:-1], start[:-1] + 1, count),
            "last": lambda: single(start[:-1], start[1:] - 1, count),
        }
    )
    return Instances(schema, kind, start, links, {"word": word}, {"word": names}, source.path, line, numbers)


def _refuse_empty(source: Source, begin: Ints, ptr: Ints) -> None:
    """Refuse lines, from `begin` on (n,), that have no token. Errors: DataError."""
    if len(empty := begin[ptr[1:] == ptr[:-1]]):
        source.refuse(Fault(int(at), *_NOTHING) for at in empty)


def _found(source: Source, tokens: str, begin: Ints, end: Ints) -> tuple[bytes, Ints, Ints, Ints]:
    """What a pattern finds on lines from `begin` to `end` (n,): its matches, parted by newlines, with the
    offsets where each begins and ends, and the number of each line's first (n + 1,). Errors: DataError.
    """
    find, data = re.compile(tokens).findall, source.data
    matches = [find(data[a:b].decode()) for a, b in zip(begin.tolist(), end.tolist(), strict=True)]
    joined = "\n".join(chain.from_iterable(matches)) + "\n"
    if "\n\n" in joined or joined.startswith("\n"):  # some pattern matches what is empty, between words
        matches = [[word for word in found if word] for found in matches]
        joined = "\n".join(chain.from_iterable(matches)) + "\n"
    ptr = np.cumsum([0, *map(len, matches)], dtype=np.int32)
    _refuse_empty(source, begin, ptr)
    text = joined.encode() if matches else b""
    ends: NDArray[np.int32] = np.flatnonzero(np.frombuffer(text, np.uint8) == _NEWLINE).astype(np.int32)
    return text, np.append(np.int32(0), ends[:-1] + np.int32(1))[: len(ends)], ends, ptr
