"""Instances given as Python objects, written in their format's text by one compiled walk over them.

What `abw.core.data.given.objects` writes of plain ones: tuples, lists, texts, numbers, and for JSON
dictionaries. Anything else, and what that refuses, is left to it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.jit.addresses import address_of, bytes_at, ints_at, longs_at
from abw.core.jit.decorators import fragment, holding
from abw.core.jit.objects import (
    TYPE_AT,
    can_be_walked,
    decimals,
    forget_error,
    free,
    list_item,
    list_size,
    next_item,
    tuple_item,
    tuple_size,
    utf8,
    whole,
)

Bytes = NDArray[np.uint8]
Longs = NDArray[np.int64]

# The formats, as the walk knows them.
TREES, LATTICE, TAGS, PAIRS, WORDS, JSON, PLANS = range(7)
FORMATS = {"trees": TREES, "lattice": LATTICE, "tags": TAGS, "pairs": PAIRS, "words": WORDS, "json": JSON}
FORMATS["plans"] = PLANS

# What an object is.
_TUPLE, _LIST, _TEXT, _WHOLE, _FLOAT, _MAPPING, _FLAG, _NOTHING_AT_ALL, _OTHER = range(9)
_KINDS = (tuple, list, str, int, float, dict, bool, type(None))
# Where these types lie, and behind them True.
TYPES = np.array([*map(id, _KINDS), id(True)], np.int64)

# The walk's space: what functions of Python's answer, then what is open, an object a time. So many at most.
_SIZE, _KEY, _VALUE, _POSITION, _FREE = range(5)
_OBJECT, _NEXT, _COUNT, _OPEN = range(4)
DEEP = 1 << 12
SPACE = _FREE + _OPEN * DEEP

# Where there is no room, and for what is left to Python.
ROOM, LEFT = -1, -2
# Bytes of room that are asked for beside a text's own.
_SPARE = 32


@holding
def write_all(instances: int, count: int, format: int, out: Bytes, space: Longs, types: Longs) -> int:
    """Write the objects of the list at an address; how many bytes of `out` (n,), or ROOM or LEFT.

    Lines are parted by newlines, lattices by a line with a byte 1. `space` (SPACE,), `types`: TYPES.
    """
    words, kinds, begin, room = address_of(space), address_of(types), address_of(out), len(out)
    at = 0
    for i in range(count):
        if i > 0:
            if at + _SPARE > room:
                return ROOM
            out[at] = _NEWLINE
            at += 1
            if format == LATTICE:
                out[at], out[at + 1] = _PARTING, _NEWLINE
                at += 2
        obj = list_item(instances, i)
        kind = kind_of(obj, kinds)
        if kind == _TEXT:
            at = _line(obj, format == LATTICE, begin, room, at, words)
        elif format == TREES:
            at = _tree(obj, begin, room, at, words, kinds)
        elif (format == JSON and kind == _MAPPING) or (format == PLANS and kind in (_MAPPING, _LIST)):
            at = _json(obj, begin, room, at, words, kinds)
        elif format == PAIRS:
            at = _pair(obj, begin, room, at, words, kinds)
        elif format not in (JSON, PLANS):
            at = _rows(obj, format, begin, room, at, words, kinds)
        else:
            at = LEFT
        if at < 0:
            return at
    return at


@fragment
def kind_of(obj: int, types: int) -> int:
    """What an object is, by its type alone."""
    found, known = longs_at(obj + TYPE_AT, 1)[0], longs_at(types, _OTHER)
    for kind in range(_OTHER):
        if known[kind] == found:
            return kind
    return _OTHER


@fragment
def _size_of(obj: int, kind: int) -> int:
    """How many items a sequence has; -1 for what is none."""
    if kind == _TUPLE:
        return tuple_size(obj)  # type: ignore[no-any-return]
    return list_size(obj) if kind == _LIST else -1


@fragment
def _item(obj: int, kind: int, i: int) -> int:
    return tuple_item(obj, i) if kind == _TUPLE else list_item(obj, i)  # type: ignore[no-any-return]


@fragment
def _bytes_of(obj: int, words: int) -> int:
    """Where a text's bytes lie, and in the space how many; 0 for what is no UTF-8."""
    found = utf8(obj, words)
    if found == 0:
        forget_error()
    return found  # type: ignore[no-any-return]


@fragment
def _line(obj: int, several: bool, out: int, room: int, at: int, words: int) -> int:
    """Write a text as it is: a line, or several."""
    found = _bytes_of(obj, words)
    if found == 0:
        return LEFT
    size = longs_at(words, 1)[0]
    if at + size + _SPARE > room:
        return ROOM
    text, place, wrong = bytes_at(found, size), bytes_at(out + at, size), 0
    for i in range(size):
        place[i] = text[i]
        wrong += text[i] == (_PARTING if several else _NEWLINE)
    return LEFT if wrong > 0 or size == 0 or text[0] == _MARK else at + size


# Bytes: as `objects._word` and JSON forbid them.
_NEWLINE, _BLANK, _QUOTE, _BRACKET, _CLOSING, _MINUS, _DIGIT, _BACKSLASH, _BAR = (
    10,
    32,
    34,
    40,
    41,
    45,
    48,
    92,
    124,
)
_COMMA, _COLON, _MARK, _PARTING = 44, 58, 0xEF, 1
# What may not be in a word, beside blanks: nothing, brackets, bars; of a text of JSON quotes, and blanks may.
_NOTHING, _BRACKETS, _BARS, _QUOTES = range(4)


@fragment
def _text(obj: int, forbidden: int, out: int, room: int, at: int, words: int) -> int:
    """Write a word, or a text of JSON without its quotes."""
    found = _bytes_of(obj, words)
    if found == 0:
        return LEFT
    size = longs_at(words, 1)[0]
    if at + size + _SPARE > room:
        return ROOM
    text, place, wrong = bytes_at(found, size), bytes_at(out + at, size), size == 0
    for i in range(size):
        c = text[i]
        place[i] = c
        if forbidden == _QUOTES:
            wrong |= (c < _BLANK) | (c == _QUOTE) | (c == _BACKSLASH)
            continue
        wrong |= c <= _BLANK
        wrong |= (forbidden == _BRACKETS) & ((c == _BRACKET) | (c == _CLOSING))
        wrong |= (forbidden == _BARS) & (c == _BAR)
        if c >= 0xC2 and i + 1 < size:  # the blanks of Unicode
            d, e = text[i + 1], text[min(i + 2, size - 1)]
            wrong |= (c == 0xC2) & ((d == 0x85) | (d == 0xA0))
            wrong |= (c == 0xE1) & (d == 0x9A) & (e == 0x80)
            wrong |= (c == 0xE2) & (d == 0x80) & ((e <= 0x8A) | (e == 0xA8) | (e == 0xA9) | (e == 0xAF))
            wrong |= (c == 0xE2) & (d == 0x81) & (e == 0x9F)
            wrong |= (c == 0xE3) & (d == 0x80) & (e == 0x80)
    if size == 0 and forbidden == _QUOTES:
        return at
    return LEFT if wrong else at + size


@fragment
def _digits(number: int, out: int, at: int) -> int:
    """Write a number that is not negative, for which there is room."""
    digits, rest = 1, number
    while rest >= 10:
        rest //= 10
        digits += 1
    place = bytes_at(out + at, digits)
    for d in range(digits):
        place[digits - 1 - d] = _DIGIT + number % 10
        number //= 10
    return at + digits


@fragment
def _number(obj: int, kind: int, out: int, room: int, at: int, words: int) -> int:
    """Write a number as `str` does."""
    if at + 2 * _SPARE > room:
        return ROOM
    place, n = bytes_at(out + at, 2 * _SPARE), 0
    if kind == _FLOAT:
        found = decimals(obj)
        if found == 0:
            forget_error()
            return LEFT
        text = bytes_at(found, 2 * _SPARE)
        while text[n] != 0:
            place[n] = text[n]
            n += 1
        free(found)
        return at + n
    value = whole(obj, words)
    if ints_at(words, 1)[0] != 0 or value == -(1 << 63):
        return LEFT
    if value < 0:
        place[0], n, value = _MINUS, 1, -value
    return _digits(value, out, at + n)


@fragment
def _word(obj: int, forbidden: int, out: int, room: int, at: int, words: int, types: int) -> int:
    """Write a word or a number."""
    kind = kind_of(obj, types)
    if kind == _TEXT:
        return _text(obj, forbidden, out, room, at, words)
    if kind in (_WHOLE, _FLOAT):
        return _number(obj, kind, out, room, at, words)
    return LEFT


@fragment
def _tree(obj: int, out: int, room: int, at: int, words: int, types: int) -> int:
    """Write a tree, `(label child …)`; a leaf is `(label word)`."""
    text, space, deep = bytes_at(out, room), longs_at(words, SPACE), 0
    child, count, kind = 0, -1, _TUPLE
    while True:
        if count < 0:  # a node is met
            kind = kind_of(obj, types)
            count = _size_of(obj, kind)
            if count < 2:
                return LEFT
            if at + _SPARE > room:
                return ROOM
            text[at] = _BRACKET
            at = _word(_item(obj, kind, 0), _BRACKETS, out, room, at + 1, words, types)
            child = 1
            if at >= 0 and count == 2 and kind_of(_item(obj, kind, 1), types) == _TEXT:
                text[at] = _BLANK
                at = _word(_item(obj, kind, 1), _BRACKETS, out, room, at + 1, words, types)
                child = 2
            if at < 0:
                return at
        if child < count:
            if deep == DEEP:
                return LEFT
            base = _FREE + _OPEN * deep
            space[base + _OBJECT], space[base + _NEXT], space[base + _COUNT] = obj, child + 1, count
            deep += 1
            text[at] = _BLANK
            at += 1
            obj, count = _item(obj, kind, child), -1
            continue
        text[at] = _CLOSING
        at += 1
        if deep == 0:
            return at
        if at + _SPARE > room:
            return ROOM
        deep -= 1
        base = _FREE + _OPEN * deep
        obj, child, count = space[base + _OBJECT], space[base + _NEXT], space[base + _COUNT]
        kind = kind_of(obj, types)


@fragment
def _rows(obj: int, format: int, out: int, room: int, at: int, words: int, types: int) -> int:
    """Write a list of words, of words with their tags, or of positions with their arcs."""
    kind, text = kind_of(obj, types), bytes_at(out, room)
    count = _size_of(obj, kind)
    if count < 1:
        return LEFT
    if format == LATTICE:
        if at + _SPARE + 2 * count > room:
            return ROOM
        at = _digits(count, out, at)
        text[at] = _NEWLINE
        at += 1
        for _ in range(count):
            text[at], text[at + 1] = _DIGIT, _BLANK
            at += 2
        at -= 1
    for i in range(count):
        if at + 2 * _SPARE > room:
            return ROOM
        item = _item(obj, kind, i)
        own = kind_of(item, types)
        if format == LATTICE:
            arcs = _size_of(item, own)
            if arcs < 0:
                return LEFT
            text[at] = _NEWLINE
            at = _digits(arcs, out, at + 1)
            for a in range(arcs):
                arc = _item(item, own, a)
                pair = kind_of(arc, types)
                if _size_of(arc, pair) != 2:
                    return LEFT
                for side in range(2):
                    if at + _SPARE > room:
                        return ROOM
                    text[at] = _BLANK
                    at = _word(_item(arc, pair, side), _NOTHING, out, room, at + 1, words, types)
                    if at < 0:
                        return at
            continue
        if i > 0:
            text[at] = _BLANK
            at += 1
        if format == WORDS:
            at = _text(item, _NOTHING, out, room, at, words) if own == _TEXT else LEFT
        elif own == _TEXT:
            at = _text(item, _NOTHING, out, room, at, words)
            if at >= 0:
                text[at], text[at + 1] = _BAR, _UNTAGGED
                at += 2
        elif _size_of(item, own) == 2:
            at = _word(_item(item, own, 0), _NOTHING, out, room, at, words, types)
            if at >= 0:
                text[at] = _BAR
                at = _word(_item(item, own, 1), _BARS, out, room, at + 1, words, types)
        else:
            at = LEFT
        if at < 0:
            return at
    return at


# The tag of a word that stands alone: O.
_UNTAGGED = 79


@fragment
def _pair(obj: int, out: int, room: int, at: int, words: int, types: int) -> int:
    """Write two sentences, texts or lists of words, with ` ||| ` between them."""
    kind, text = kind_of(obj, types), bytes_at(out, room)
    if _size_of(obj, kind) != 2:
        return LEFT
    for side in range(2):
        item = _item(obj, kind, side)
        if kind_of(item, types) == _TEXT:
            at = _line(item, False, out, room, at, words)
        else:
            at = _rows(item, WORDS, out, room, at, words, types)
        if at < 0:
            return at
        if side == 0:
            if at + _SPARE > room:
                return ROOM
            text[at], text[at + 4] = _BLANK, _BLANK
            text[at + 1] = text[at + 2] = text[at + 3] = _BAR
            at += 5
    return at


@fragment
def _json(obj: int, out: int, room: int, at: int, words: int, types: int) -> int:
    """Write a value of JSON."""
    text, space, deep = bytes_at(out, room), longs_at(words, SPACE), 0
    while True:
        kind = kind_of(obj, types)
        if at + _SPARE > room:
            return ROOM
        if kind == _TEXT:
            text[at] = _QUOTE
            at = _text(obj, _QUOTES, out, room, at + 1, words)
            if at >= 0:
                text[at] = _QUOTE
                at += 1
        elif kind in (_WHOLE, _FLOAT):
            at = _number(obj, kind, out, room, at, words)
        elif kind in (_FLAG, _NOTHING_AT_ALL):
            at = _constant(obj, kind, out, at, types)
        elif kind == _OTHER or deep == DEEP:
            return LEFT
        else:
            base = _FREE + _OPEN * deep
            space[base + _OBJECT], space[base + _NEXT] = obj, 0
            space[base + _COUNT] = 0 if kind == _MAPPING else _size_of(obj, kind)
            deep += 1
            text[at] = _BRACE if kind == _MAPPING else _LIST_BRACKET
            at += 1
        if at < 0:
            return at
        while True:  # the next value of what is open
            if deep == 0:
                return at
            if at + _SPARE > room:
                return ROOM
            base = _FREE + _OPEN * (deep - 1)
            top, passed = space[base + _OBJECT], space[base + _NEXT]
            kind = kind_of(top, types)
            if kind == _MAPPING:
                if (
                    next_item(top, words + 8 * (base + _NEXT), words + 8 * _KEY, words + 8 * _VALUE)
                    & _WHOLE_INT
                ):
                    if space[base + _COUNT] > 0:
                        text[at] = _COMMA
                        at += 1
                    space[base + _COUNT] += 1
                    key, obj = space[_KEY], space[_VALUE]
                    if kind_of(key, types) != _TEXT:
                        return LEFT
                    text[at] = _QUOTE
                    at = _text(key, _QUOTES, out, room, at + 1, words)
                    if at < 0:
                        return at
                    text[at], text[at + 1] = _QUOTE, _COLON
                    at += 2
                    break
                text[at] = _BRACE_END
            elif passed < space[base + _COUNT]:
                if passed > 0:
                    text[at] = _COMMA
                    at += 1
                space[base + _NEXT] = passed + 1
                obj = _item(top, kind, passed)
                break
            else:
                text[at] = _LIST_END
            at += 1
            deep -= 1


@fragment
def _constant(obj: int, kind: int, out: int, at: int, types: int) -> int:
    """Write true, false or null, for which there is room."""
    word = _NULL if kind == _NOTHING_AT_ALL else _FALSE
    if kind == _FLAG and obj == longs_at(types, _OTHER + 1)[_OTHER]:
        word = _TRUE
    place, size = bytes_at(out + at, _EIGHT), 0
    while word > 0:
        place[size] = word & 0xFF
        word >>= _EIGHT
        size += 1
    return at + size


# Words as numbers, whose lowest byte is the first letter; the bits of a byte.
_TRUE, _FALSE, _NULL = (int.from_bytes(word, "little") for word in (b"true", b"false", b"null"))
_EIGHT = 8
_LIST_BRACKET, _LIST_END, _BRACE, _BRACE_END = 91, 93, 123, 125
# PyDict_Next returns an int: what is above 32 bits says nothing.
_WHOLE_INT = 0xFFFFFFFF


class Writer:
    """Writes lists of instances of a format; the buffer is kept, and grows."""

    def __init__(self, format: str) -> None:
        self._format = FORMATS.get(format, -1) if can_be_walked() else -1
        self._space, self._buffer = np.zeros(SPACE, np.int64), np.zeros(1 << 12, np.uint8)

    def write(self, instances: list[Any]) -> Bytes | None:
        """The text of all (n,), until the next one is written; None where Python is to write them."""
        while self._format >= 0:
            given = id(instances), len(instances), self._format
            size = write_all(*given, self._buffer, self._space, TYPES)
            if size >= 0:
                return self._buffer[:size]
            if size == LEFT:
                break
            self._buffer = np.zeros(2 * len(self._buffer), np.uint8)
        return None
