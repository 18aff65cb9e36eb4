"""Tagged sentences: one on each line, `word|TAG` between blanks. A word may hold a '|', a tag may not."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from abw.core.data.feed import ALL, Bytes, Feed
from abw.core.data.instances import Instances, Ints, Link
from abw.core.data.intern import intern
from abw.core.data.links import Lazy, adjacent, inverse, neighbours, single
from abw.core.data.readers import blanks
from abw.core.ir.formats import SCHEMAS
from abw.core.jit.decorators import njit

_FAULTS = {
    blanks.ONLY_CONTROL: blanks.CONTROL,
    blanks.NO_BAR: (
        "a token without a '|'",
        "write each token as word|TAG: The|O dog|ANIMAL barks|O; text without tags is of format words",
    ),
    blanks.NO_WORD: ("a token without a word", "write each token as word|TAG"),
    blanks.NO_TAG: ("a token without a tag", "write each token as word|TAG"),
}
_INSTANCE, _COMMON, _RARE, _CHAR = map(SCHEMAS["tags"].kinds.index, ("instance", "common", "rare", "char"))
_WORD, _BYTE, _OF = range(3)


def read_tags(feed: Feed, skip: int, limit: int, frequency: int) -> Instances:
    """Sentences `skip` to `skip + limit` of what is left of a file.

    A word that occurs less than `frequency` times in all that is left is 'rare': it has vertices of kind
    'char', a zero, its UTF-8 bytes, a zero. With a frequency, all is read, and nothing left. An instance's
    tokens come first, then its chars, word by word. Errors: DataError. Cost: about 90 ns a token and 3 ns a
    char, with a frequency 30 ns for each further token of the file.
    """
    first, most = (0, ALL) if frequency > 0 else (skip, limit)
    found = blanks.parsed(feed, first, most, blanks.parse_sentences, blanks.room_for_words, 4, _FAULTS)
    feed.take(found.source, found.end, found.seen)
    source, wanted = found.source, slice(skip - first, skip - first + limit)
    words, word_names = intern(source.data, *found.columns[:2])
    rare = np.zeros(len(word_names) + 1, np.bool_)
    if frequency > 0:
        rare[:-1] = np.bincount(words + 1, minlength=1)[1:] < frequency

    firsts = found.start[min(wanted.start, len(found.line)) :][: limit + 1]
    here = slice(int(firsts[0]), int(firsts[-1]))
    words, pieces, firsts = words[here], found.columns[:, here], firsts - firsts[0]
    begin, end = pieces[blanks.BEGIN], pieces[blanks.END]
    count = len(words) + int((end - begin + 2)[rare[words]].sum())
    start, token = np.empty(len(firsts), np.int64), np.empty(len(words), np.int32)
    kind, columns = np.full(count, _COMMON, np.uint8), np.full((3, count), -1, np.int32)
    lay_out(source.text, begin, end, firsts, words, rare, start, token, kind, columns)

    def around() -> tuple[Ints, Ints]:
        group = columns[_OF].copy()
        group[start[:-1]] = -2
        return adjacent(group)

    @cache
    def tags() -> tuple[Ints, Sequence[str]]:
        return intern(source.data, pieces[2], pieces[3])

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
            "last": lambda: single(start[:-1], start[:-1] + np.diff(firsts) - 1, count),
        }
    )
    fields = Lazy({"word": lambda: columns[_WORD], "tag": tag, "byte": lambda: columns[_BYTE]})
    names = Lazy({"word": lambda: word_names, "tag": lambda: tags()[1]})
    schema, line, numbers = SCHEMAS["tags"], found.line[wanted], found.numbers[wanted]
    return Instances(schema, kind, start, links, fields, names, source.path, line, numbers)


@njit
def lay_out(
    text: Bytes,
    begin: Ints,
    end: Ints,
    firsts: NDArray[np.int64],
    words: Ints,
    rare: NDArray[np.bool_],
    start: NDArray[np.int64],
    token: Ints,
    kind: Bytes,
    columns: Ints,
) -> None:
    """The vertices of sentences of which each is `firsts[i]:firsts[i + 1]`, behind its own the tokens, whose
    words are `words`.

    Fills `start` (sentences + 1,), each token's vertex, and, for each vertex, its kind (at first that of a
    common token) and `columns` (-1 at first): its word, its byte, and the token whose char it is.
    """
    word, byte, of = columns[_WORD], columns[_BYTE], columns[_OF]
    v = 0
    for i in range(start.size - 1):
        start[i] = v
        kind[v] = _INSTANCE
        for t in range(firsts[i], firsts[i + 1]):
            token[t] = v
            word[v] = words[t]
            v += 1
        for t in range(firsts[i] + 1, firsts[i + 1]):
            if rare[words[t]]:
                kind[token[t]] = _RARE
                for at in range(begin[t] - 1, end[t] + 1):
                    kind[v] = _CHAR
                    byte[v] = text[at] if begin[t] <= at < end[t] else 0
                    of[v] = token[t]
                    v += 1
    start[-1] = v
