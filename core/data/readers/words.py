"""Plain text: one sentence on each line, its tokens what stands between blanks, or what a pattern finds."""

from __future__ import annotations

import re
from functools import cache
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from abw.core.data.feed import Bytes, Fault, Feed, Source
from abw.core.data.instances import Instances, Ints
from abw.core.data.intern import intern
from abw.core.data.links import Lazy, adjacent, neighbours, single
from abw.core.data.readers import blanks
from abw.core.ir.formats import SCHEMAS
from abw.core.jit.decorators import njit

_NOTHING = "no token on this line", "the pattern of `tokens` finds none here: leave the line out, or blank"
_NEWLINE = 10


def read_words(feed: Feed, skip: int, limit: int, tokens: str) -> Instances:
    """Sentences `skip` to `skip + limit` of what is left of a file.

    `tokens` is a regular expression (Python's) all of whose matches on a line are its tokens; where it is
    empty, these are what stands between blanks. Errors: DataError. Cost: about 50 ns a token; with a pattern
    that `pieces_of` does not take, 200 and what Python takes for it.
    """
    faults = {blanks.ONLY_CONTROL: blanks.CONTROL}
    found = blanks.parsed(feed, skip, limit, blanks.parse_sentences, blanks.room_for_words, 3, faults)
    source, kind, pieces, start = found[:4]
    data, begin, end = source.data, pieces[blanks.BEGIN], pieces[blanks.END]
    if tokens:
        data, begin, end, ptr = _tokens(source, tokens, begin[start[:-1] + 1], end[start[1:] - 1])
        start = ptr + np.arange(len(ptr))
        kind = np.ones(start[-1], np.uint8)
        kind[start[:-1]] = 0
    feed.take(source, found.end, found.seen)
    word, names = intern(data, begin, end)
    count = len(kind)
    if tokens:
        number, word = word, np.full(count, -1, np.int32)
        word[kind == 1] = number

    links = Lazy(
        {
            **neighbours(lambda: adjacent(kind)),  # two vertices of a kind side by side: words of a sentence
            "first": lambda: single(start[:-1], start[:-1] + 1, count),
            "last": lambda: single(start[:-1], start[1:] - 1, count),
        }
    )
    schema, fields, vocabulary = SCHEMAS["words"], {"word": word}, {"word": names}
    return Instances(schema, kind, start, links, fields, vocabulary, source.path, found.line, found.numbers)


def _tokens(source: Source, pattern: str, begin: Ints, end: Ints) -> tuple[bytes, Ints, Ints, Ints]:
    """The tokens of lines from `begin` to `end` (n,): a text, where in it each begins and ends, and each
    line's first (n + 1,). Errors: DataError for a line that has none.
    """
    if (found := pieces_of(source.text, begin, end, pattern)) is not None:
        made = source.data, *found[0], found[1]
    else:
        made = _found(source.data, pattern, begin, end)
    ptr = made[3]
    if len(empty := begin[ptr[1:] == ptr[:-1]]):
        source.refuse(Fault(int(at), *_NOTHING) for at in empty)
    return made


def _found(data: bytes, tokens: str, begin: Ints, end: Ints) -> tuple[bytes, Ints, Ints, Ints]:
    """What a pattern finds, as `_tokens` has it: its matches, parted by newlines."""
    find = re.compile(tokens).findall
    matches = [find(data[a:b].decode()) for a, b in zip(begin.tolist(), end.tolist(), strict=True)]
    joined = "\n".join(chain.from_iterable(matches)) + "\n"
    if "\n\n" in joined or joined.startswith("\n"):  # some pattern matches what is empty, between words
        matches = [[word for word in found if word] for found in matches]
        joined = "\n".join(chain.from_iterable(matches)) + "\n"
    ptr = np.cumsum([0, *map(len, matches)], dtype=np.int32)
    text = joined.encode() if matches else b""
    ends: NDArray[np.int32] = np.flatnonzero(np.frombuffer(text, np.uint8) == _NEWLINE).astype(np.int32)
    return text, np.append(np.int32(0), ends[:-1] + np.int32(1))[: len(ends)], ends, ptr


_ALTERNATIVE = re.compile(r"(\\[wWdDsS]|\[(?:\\.|[^\]\\\[])+\]|\.|[^\\\[\]().*+?{}^$|\s])(\+?)")
_MOST = 8
_ASCII, _BASIC = 1 << 7, 1 << 16


def pieces_of(text: Bytes, begin: Ints, end: Ints, pattern: str) -> tuple[Ints, Ints] | None:
    """Where a pattern's matches in n pieces of a text lie (2, tokens), and each piece's first (n + 1,).

    The pattern is alternatives of one sign or class of signs each, which may be followed by `+`; None for any
    other, and for text beyond the Basic Multilingual Plane. The text is UTF-8. Cost: 1 to 2 ns a byte.
    """
    parts = _parts(pattern)
    if parts is None:
        return None
    many = _several(parts)
    found = np.empty((2, len(text) + 1), np.int32)
    ptr = np.empty(len(begin) + 1, np.int32)
    for limit in (_ASCII, _BASIC):
        count = find(text, begin, end, _masks(parts, limit), many, found, ptr)
        if count >= 0:
            return found[:, :count], ptr
    return None


def masks_of(pattern: str) -> tuple[NDArray[np.uint8], int] | None:
    """The `masks` and `many` of `find` for the Basic Multilingual Plane; None as in `pieces_of`."""
    parts = _parts(pattern)
    return None if parts is None else (_masks(parts, _BASIC), _several(parts))


def _several(parts: tuple[tuple[str, bool], ...]) -> int:
    """A bit for each alternative that takes several signs."""
    return sum(1 << i for i, (_, several) in enumerate(parts) if several)


def _parts(pattern: str) -> tuple[tuple[str, bool], ...] | None:
    """The alternatives, and whether several signs in a row are one token."""
    parts, at = [], 0
    while True:
        match = _ALTERNATIVE.match(pattern, at)
        if match is None:
            return None
        parts.append((match[1], match[2] == "+"))
        at = match.end()
        if at == len(pattern):
            return tuple(parts) if len(parts) <= _MOST else None
        if pattern[at] != "|":
            return None
        at += 1


@cache
def _masks(parts: tuple[tuple[str, bool], ...], limit: int) -> NDArray[np.uint8]:
    """For each sign (limit,) the alternatives it belongs to, a bit each."""
    signs = "".join(map(chr, range(limit)))
    masks = np.zeros(limit, np.uint8)
    for i, (sign, _) in enumerate(parts):
        for match in re.finditer(sign, signs):
            masks[match.start()] |= 1 << i
    return masks


@njit
def find(
    text: Bytes, begin: Ints, end: Ints, masks: NDArray[np.uint8], many: int, found: Ints, ptr: Ints
) -> int:
    """Fill `found` (2, bytes + 1) with where tokens begin and end, `ptr` (n + 1,) with each piece's first.

    `many`: a bit for each alternative that takes several signs. Returns the tokens, -1 where a sign is beyond
    `masks`.
    """
    count = 0
    for i in range(len(begin)):
        ptr[i] = count
        at, open_bit = np.int64(begin[i]), np.int64(0)  # the alternative whose token is under way
        while at < end[i]:
            sign, size = np.int64(text[at]), 1
            if sign >= 0xF0:
                return -1
            if sign >= 0xE0:
                sign, size = (sign & 15) << 12 | (text[at + 1] & 63) << 6 | (text[at + 2] & 63), 3
            elif sign >= 0xC0:
                sign, size = (sign & 31) << 6 | (text[at + 1] & 63), 2
            if sign >= len(masks):
                return -1
            mask = np.int64(masks[sign])
            if mask & open_bit:
                found[1, count - 1] = at + size
            elif mask:
                first = mask & -mask
                open_bit = first & many
                found[0, count], found[1, count] = at, at + size
                count += 1
            else:
                open_bit = np.int64(0)
            at += size
    ptr[len(begin)] = count
    return count
