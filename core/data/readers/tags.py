"""Tagged sentences: one on each line, `word|TAG` between blanks. A word may hold a '|', a tag may not."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from abw.core.data.feed import ALL, Bytes, Fault, Feed, Source
from abw.core.data.instances import Instances, Ints, Link
from abw.core.data.intern import intern
from abw.core.data.links import Lazy, adjacent, inverse, neighbours, single
from abw.core.data.readers.blanks import BEGIN, BEHIND, read_lines
from abw.core.ir.formats import SCHEMAS
from abw.core.jit.decorators import njit

_NO_BAR = (
    "a token without a '|'",
    "write each token as word|TAG: The|O dog|ANIMAL barks|O; text without tags is of format words",
)
_NO_WORD = "a token without a word", "write each token as word|TAG"
_NO_TAG = "a token without a tag", "write each token as word|TAG"
_INSTANCE, _COMMON, _RARE, _CHAR = map(SCHEMAS["tags"].kinds.index, ("instance", "common", "rare", "char"))
_WORD, _BYTE, _OF = range(3)


def read_tags(feed: Feed, skip: int, limit: int, frequency: int) -> Instances:
    """Sentences `skip` to `skip + limit` of what is left of a file.

    A word that occurs less than `frequency` times in all that is left is 'rare': it has vertices of kind
    'char', a zero, its UTF-8 bytes, a zero. With a frequency, all is read, and nothing left. An instance's
    tokens come first, then its chars, word by word. Errors: DataError. Cost: about 90 ns a token and 3 ns a
    char, with a frequency 30 ns for each further token of the file.
    """
    source, line, ptr, pieces, at = read_lines(feed, skip, ALL if frequency > 0 else skip + limit)
    _refuse_malformed(source, pieces, ptr)
    numbers = feed.numbers(line, 0)
    feed.take(source, at, len(line))
    words, word_names = intern(source.data, pieces[BEGIN], pieces[BEHIND] - np.int32(1))
    rare = np.bincount(words, minlength=1) < frequency

    wanted = slice(min(skip, len(line)), skip + limit)
    ptr = ptr[wanted.start : wanted.stop + 1]
    words, (begin, end, behind) = words[ptr[0] : ptr[-1]], pieces[:, ptr[0] : ptr[-1]]
    ptr = ptr - ptr[0]
    chars = (behind + 1 - begin)[rare[words]]
    count = len(ptr) - 1 + len(words) + int(chars.sum())
    start, token = np.empty(len(ptr), np.int64), np.empty(len(words), np.int32)
    kind, columns = np.full(count, _COMMON, np.uint8), np.full((3, count), -1, np.int32)
    lay_out(source.text, begin, behind, ptr, words, rare, start, token, kind, columns)

    def around() -> tuple[Ints, Ints]:
        group = columns[_OF].copy()
        group[start[:-1]] = -2
        return adjacent(group)

    @cache
    def tags() -> tuple[Ints, Sequence[str]]:
        return intern(source.data, behind, end)

    def tag() -> Ints:
        found = np.full(count, -1, np.int32)
        found[token] = tags()[0]
        return found

    links = Lazy(
        {
            **neighbours(around),
            "of": lambda: Link(columns[_OF]),
            "chars": lambda: inverse(columns[_OF]),
            "first": lambda: single(start[:-1], start[:-1] + 1, count),
            "last": lambda: single(start[:-1], start[:-1] + np.diff(ptr), count),
        }
    )
    fields = Lazy({"word": lambda: columns[_WORD], "tag": tag, "byte": lambda: columns[_BYTE]})
    names = Lazy({"word": lambda: word_names, "tag": lambda: tags()[1]})
    schema, path = SCHEMAS["tags"], source.path
    return Instances(schema, kind, start, links, fields, names, path, line[wanted], numbers[wanted])


def _refuse_malformed(source: Source, pieces: Ints, ptr: Ints) -> None:
    """Refuse lines on which a token is no `word|TAG`, each at the first. Errors: DataError."""
    begin, end, behind = pieces
    bad = np.flatnonzero((behind <= begin + 1) | (behind == end))

    def fault(token: int) -> Fault:
        word = int(behind[token]) - 1 - int(begin[token])  # its length, and less than none without a bar
        return Fault(int(begin[token]), *(_NO_BAR if word < 0 else _NO_WORD if word == 0 else _NO_TAG))

    if len(bad):
        _, first_of_line = np.unique(np.searchsorted(ptr, bad, "right"), return_index=True)
        source.refuse(fault(t) for t in bad[first_of_line])


@njit
def lay_out(
    text: Bytes,
    begin: Ints,
    behind: Ints,
    ptr: Ints,
    words: Ints,
    rare: NDArray[np.bool_],
    start: NDArray[np.int64],
    token: Ints,
    kind: Bytes,
    columns: Ints,
) -> None:
    """The vertices of sentences with the tokens `ptr[i]:ptr[i + 1]`, whose words are `words` (tokens,).

    Fills `start` (sentences + 1,), each token's vertex, and, for each vertex, its kind (at first that of a
    common token) and `columns` (-1 at first): its word, its byte, and the token whose char it is.
    """
    word, byte, of = columns[_WORD], columns[_BYTE], columns[_OF]
    v = 0
    for i in range(start.size - 1):
        start[i] = v
        kind[v] = _INSTANCE
        v += 1
        for t in range(ptr[i], ptr[i + 1]):
            token[t] = v
            word[v] = words[t]
            v += 1
        for t in range(ptr[i], ptr[i + 1]):
            if rare[words[t]]:
                kind[token[t]] = _RARE
                for at in range(begin[t] - 1, behind[t]):
                    kind[v] = _CHAR
                    byte[v] = text[at] if begin[t] <= at < behind[t] - 1 else 0
                    of[v] = token[t]
                    v += 1
    start[-1] = v
