"""Tagged sentences: one on each line, `word|TAG` between blanks. A word may hold a '|', a tag may not."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from abw.core.base.jit import njit
from abw.core.data.feed import ALL, Bytes, Fault, Feed, Source
from abw.core.data.instances import Instances, Ints, Link
from abw.core.data.intern import intern
from abw.core.data.links import Lazy, following, inverse, single
from abw.core.ir.formats import SCHEMAS

_NO_BAR = (
    "a token without a '|'",
    "write each token as word|TAG: The|O dog|ANIMAL barks|O; text without tags is of format words",
)
_NO_WORD = "a token without a word", "write each token as word|TAG"
_NO_TAG = "a token without a tag", "write each token as word|TAG"


@dataclass(frozen=True, slots=True)
class _Tokens:
    """n lines that are not blank, with their tokens.

    Line i is line `line[i]` of the file (n,), with the tokens `ptr[i]:ptr[i + 1]` (n + 1,). Token t lies at
    the offsets `begin[t]:end[t]`; `bar[t]` is that of its last '|', -1 for none (all (tokens,)).
    """

    line: Ints
    ptr: Ints
    begin: Ints
    bar: Ints
    end: Ints


def read_tags(feed: Feed, skip: int, limit: int, frequency: int) -> Instances:
    """Sentences `skip` to `skip + limit` of what is left of a file.

    A word that occurs less than `frequency` times in all that is left is 'rare': it has vertices of kind
    'char', a zero, its UTF-8 bytes, a zero. With a frequency, all is read, and nothing left. An instance's
    tokens come first, then its chars, word by word. Errors: DataError. Cost: about 100 ns a token and 30 ns a
    char, with a frequency 50 ns for each further token of the file.
    """
    schema = SCHEMAS["tags"]
    source, tokens, numbers = _tokens(feed, ALL if frequency > 0 else skip + limit, skip)
    skip = min(skip, len(tokens.line))
    ptr = tokens.ptr[skip : skip + limit + 1]
    here = slice(int(ptr[0]), int(ptr[-1]))
    ptr = ptr - ptr[0]
    begin, bar, end = tokens.begin[here], tokens.bar[here], tokens.end[here]
    tags, tag_names = intern(source.data, source.text, bar + np.int32(1), end)
    words, word_names = intern(source.data, source.text, tokens.begin, tokens.bar)
    rare = (np.bincount(words, minlength=1) < frequency)[words[here]]
    words = words[here]

    chars = np.where(rare, bar - begin + 2, 0)
    before = np.concatenate(([0], np.cumsum(chars)))  # the chars before each token
    start = np.arange(len(ptr)) + ptr + before[ptr]
    sentence = np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))
    token = sentence + 1 + np.arange(len(sentence)) + before[ptr[sentence]]  # each token's vertex
    owner = np.repeat(np.arange(len(token)), chars)  # each char's token
    char = sentence[owner] + 1 + np.arange(len(owner)) + ptr[sentence[owner] + 1]

    count = int(start[-1])
    kind = np.full(count, schema.kinds.index("instance"), np.uint8)
    kind[token] = np.where(rare, schema.kinds.index("rare"), schema.kinds.index("common"))
    kind[char] = schema.kinds.index("char")
    word, tag, byte = np.full((3, count), -1, np.int32)
    word[token], tag[token] = words, tags
    place = np.arange(len(owner)) - before[owner]
    pad = (place == 0) | (place == chars[owner] - 1)
    byte[char] = np.where(pad, 0, source.text[begin[owner] + place - 1])

    @cache
    def neighbours() -> tuple[Ints, Ints]:
        group = np.full(count, -1, np.int32)
        group[token] = sentence
        group[char] = len(ptr) + owner
        return following(np.arange(count, dtype=np.int32), group, count)

    links = Lazy(
        {
            "prev": lambda: Link(neighbours()[0]),
            "next": lambda: Link(neighbours()[1]),
            "of": lambda: single(char, token[owner], count),
            "chars": lambda: inverse(single(char, token[owner], count).target),
            "first": lambda: single(start[:-1], start[:-1] + 1, count),
            "last": lambda: single(start[:-1], start[:-1] + np.diff(ptr), count),
        }
    )
    fields = {"word": word, "tag": tag, "byte": byte}
    names = {"word": word_names, "tag": tag_names}
    lines = tokens.line[skip : skip + limit] + np.int32(source.line - 1)
    return Instances(
        schema, kind, start, links, fields, names, source.path, lines, numbers[skip : skip + limit]
    )


def _tokens(feed: Feed, stop: int, skip: int) -> tuple[Source, _Tokens, NDArray[np.int64]]:
    """The tokens of the first `stop` lines that are not blank, which are taken, and the lines' numbers as
    instances. Errors: DataError.
    """
    for source in feed.windows(stop):
        most = len(source.data) // 2 + 2  # a token and what parts it from the next take two bytes
        pieces, rows = np.empty((3, most), np.int32), np.empty((2, most), np.int32)
        lines, count, end = split(source.text, source.begin, stop, pieces, rows)
        if source.enough(lines, stop, skip):
            break
    source.check(end)
    tokens = _Tokens(rows[0, :lines], np.append(rows[1, :lines], np.int32(count)), *pieces[:, :count])
    _refuse_malformed(source, tokens)
    numbers = feed.numbers(tokens.line + np.int32(source.line - 1), 0)
    feed.take(source, end, lines)
    return source, tokens, numbers


def _refuse_malformed(source: Source, tokens: _Tokens) -> None:
    bad = np.flatnonzero((tokens.bar <= tokens.begin) | (tokens.bar + 1 == tokens.end))
    _, first_of_line = np.unique(np.searchsorted(tokens.ptr, bad, "right"), return_index=True)

    def fault(token: int) -> Fault:
        begin, bar = int(tokens.begin[token]), int(tokens.bar[token])
        return Fault(begin, *(_NO_BAR if bar < 0 else _NO_WORD if bar == begin else _NO_TAG))

    if len(bad):
        source.refuse(fault(t) for t in bad[first_of_line])


@njit
def split(text: Bytes, at: int, stop: int, pieces: Ints, rows: Ints) -> tuple[int, int, int]:
    """Split up to `stop` lines into tokens; any byte up to 32 is a blank.

    Fills, for each token, its begin, its last '|' (-1: none) and its end (`pieces`), and for each line that
    is not blank its number and its first token (`rows`). Returns the lines, the tokens, and the offset
    behind them.
    """
    count = lines = 0
    line = 1
    while at < text.size and lines < stop:
        first = count
        while at < text.size and text[at] != 10:
            if text[at] <= 32:
                at += 1
                continue
            pieces[0, count] = at
            last = -1
            while at < text.size and text[at] > 32:
                if text[at] == 124:
                    last = at
                at += 1
            pieces[2, count] = at
            pieces[1, count] = last
            count += 1
        if count > first:
            rows[0, lines] = line
            rows[1, lines] = first
            lines += 1
        line += 1
        at += 1
    return lines, count, at
