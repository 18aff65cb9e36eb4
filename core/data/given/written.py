"""Instances given as Python objects, written in their format's text by one compiled walk over them.

What `abw.core.data.given.objects` writes of plain ones: tuples, lists, texts, numbers, and for JSON
dictionaries. Anything else, and what that refuses, is left to it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abw.core.jit.addresses import address_of, bytes_at, longs_at
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

# What an object is.
_TEXT, _TUPLE, _LIST, _MAPPING, _WHOLE, _FLOAT, _FLAG, _NOTHING, _OTHER = range(9)
_KINDS = (str, tuple, list, dict, int, float, bool, type(None))

# How a text or a number is written: as a word without blanks, and without brackets, or bars; one that is the
# last of two members; with the tag of a word that has none; as lines; as JSON.
WORD, BRACKETED, BARRED, LEAF, UNTAGGED, LINE, LINES, JSON = range(8)
_BLANK, _QUOTE, _BAR, _BACKSLASH, _MINUS, _COLON, _DIGIT = b' "|\\-:0'
_NEWLINE, _PARTING, _MARK = 10, 1, 0xEF
# The bytes that it may not have, by that.
_FORBIDDEN = np.zeros((8, 256), np.bool_)
_FORBIDDEN[:LINE, : _BLANK + 1] = True
_FORBIDDEN[[BRACKETED, LEAF]] |= np.isin(np.arange(256), [*b"()"])
_FORBIDDEN[BARRED, _BAR] = True
_FORBIDDEN[JSON, [*range(_BLANK), _QUOTE, _BACKSLASH]] = True


class _Member(NamedTuple):
    """What a member may be: how a text and a number are written, the rule of a list, of a dictionary."""

    text: int = -1
    number: int = -1
    list: int = -1
    mapping: int = -1


class _List(NamedTuple):
    """How a list is written: what comes before, between and behind its members, how many there may be, and
    what each may be, the last of these all that follow; `counted`: their number comes before them, too, and
    with 2 a line of as many zeros.
    """

    before: str
    between: str
    behind: str
    least: int
    most: int
    members: tuple[_Member, ...]
    counted: int = 0


_ANY = 2**31
_LINES = _List("", "\n", "", 1, _ANY, (_Member(LINE, list=1),))
_VALUE = _Member(JSON, JSON, 1, 2)
_VALUES = _List("[", ",", "]", 0, _ANY, (_VALUE,)), _List("{", ",", "}", 0, _ANY, (_VALUE,))
_LABEL, _NODE, _NUMBER = _Member(BRACKETED, BRACKETED), _Member(list=1), _Member(WORD, WORD)
# What each format has for the list of all instances, and then for the lists in it.
_RULES: Mapping[str, tuple[_List, ...]] = {
    "trees": (_LINES, _List("(", " ", ")", 2, _ANY, (_LABEL, _Member(LEAF, list=1), _NODE))),
    "words": (_LINES, _List("", " ", "", 1, _ANY, (_Member(WORD),))),
    "tags": (
        _LINES,
        _List("", " ", "", 1, _ANY, (_Member(UNTAGGED, list=2),)),
        _List("", "|", "", 2, 2, (_NUMBER, _Member(BARRED, BARRED))),
    ),
    "pairs": (
        _LINES,
        _List("", " ||| ", "", 2, 2, (_Member(LINE, list=2),)),
        _List("", " ", "", 1, _ANY, (_Member(WORD),)),
    ),
    "lattice": (
        _List("", "\n\x01\n", "", 1, _ANY, (_Member(LINES, list=1),)),
        _List("", "", "", 1, _ANY, (_Member(list=2),), counted=2),
        _List("\n", "", "", 0, _ANY, (_Member(list=3),), counted=1),
        _List(" ", " ", "", 2, 2, (_NUMBER,)),
    ),
    "json": (_List("", "\n", "", 1, _ANY, (_Member(LINE, mapping=2),)), *_VALUES),
    "plans": (_List("", "\n", "", 1, _ANY, (_Member(LINE, list=1, mapping=2),)), *_VALUES),
}
FORMATS = (*_RULES,)
# A rule as numbers: texts are their bytes, the lowest first; then come three members.
_BEFORE, _BETWEEN, _BEHIND, _LEAST, _MOST, _COUNTED, _MEMBERS = range(7)
_AS_TEXT, _AS_NUMBER, _AS_LIST, _AS_MAPPING, _OF_MEMBER = range(5)
_TAG, _TRUE, _FALSE, _NULL = (int.from_bytes(text, "little") for text in (b"|O", b"true", b"false", b"null"))


def _table(format: str) -> Longs:
    """The rules of a format as numbers, and behind them that of something whose member is the first."""
    rows = []
    for rule in (*_RULES[format], _List("", "", "", 1, 1, (_Member(list=0),))):
        members = [rule.members[min(i, len(rule.members) - 1)] for i in range(3)]
        texts = [int.from_bytes(text.encode(), "little") for text in rule[:3]]
        rows.append([*texts, rule.least, rule.most, rule.counted, *(n for m in members for n in m)])
    return np.array(rows, np.int64)


# A function of C's may return an int: what is above 32 bits says nothing.
_INT = 0xFFFFFFFF

# The walk's space: what functions of Python's answer, where types lie and True does, then what is open, an
# object a time. So many at most.
_SIZE, _KEY, _ITEM, _TYPES = range(4)
_IS_TRUE = _TYPES + len(_KINDS)
_FREE = _IS_TRUE + 1
_OBJECT, _KIND, _RULE, _NEXT, _COUNT, _OPEN = range(6)
DEEP = 1 << 12
SPACE = _FREE + _OPEN * DEEP

# Where there is no room, and for what is left to Python.
ROOM, LEFT = -1, -2
# Bytes of room that are asked for beside a text's own.
_SPARE = 64


@holding
def write_all(instances: int, rules: Longs, out: Bytes, space: Longs) -> int:
    """Write the objects of the list at an address; how many bytes of `out` (n,), or ROOM or LEFT.

    `rules`: a format's, of which the first is that of the list; `space` (SPACE,).
    """
    words, room = address_of(space), len(out)
    at, deep, obj, which, member, base = 0, 0, instances, len(rules) - 1, _MEMBERS, _FREE
    while True:
        kind = _kind_of(obj, space)
        if at + _SPARE > room:
            return ROOM
        if kind == _TEXT:
            how = rules[which, member + _AS_TEXT]
            if how < 0 or (how == LEAF and space[base + _COUNT] != 2):
                return LEFT
            at = _text(obj, how, out, at, space)
        elif kind <= _MAPPING:
            which = rules[which, member + (_AS_MAPPING if kind == _MAPPING else _AS_LIST)]
            if which < 0 or deep == DEEP:
                return LEFT
            count = 0
            if kind != _MAPPING:
                count = tuple_size(obj) if kind == _TUPLE else list_size(obj)
                if count < rules[which, _LEAST] or count > rules[which, _MOST]:
                    return LEFT
            base, deep = _FREE + _OPEN * deep, deep + 1
            space[base + _OBJECT], space[base + _KIND], space[base + _RULE] = obj, kind, which
            space[base + _NEXT], space[base + _COUNT] = 0, count
            at = _put(rules[which, _BEFORE], out, at)
            if rules[which, _COUNTED] > 0:
                at = _digits(count, out, at)
            if rules[which, _COUNTED] > 1:
                if at + 2 * count + _SPARE > room:
                    return ROOM
                for i in range(count):
                    out[at], out[at + 1] = _BLANK if i > 0 else _NEWLINE, _DIGIT
                    at += 2
        else:
            how = rules[which, member + _AS_NUMBER]
            if how < 0 or kind == _OTHER or (kind > _FLOAT and how != JSON):
                return LEFT
            at = _number(obj, kind, out, at, space)
        if at < 0:
            return at
        while True:  # the next member of what is open
            base = _FREE + _OPEN * (deep - 1)
            kind, which = space[base + _KIND], space[base + _RULE]
            if at + _SPARE > room:
                return ROOM
            if kind == _MAPPING:
                passed, place = space[base + _COUNT], words + 8 * (base + _NEXT)
                more = next_item(space[base + _OBJECT], place, words + 8 * _KEY, words + 8 * _ITEM) & _INT
                space[base + _COUNT] += more
            else:
                passed = space[base + _NEXT]
                more = passed < space[base + _COUNT]
                space[base + _NEXT] += more
            if more:
                break
            at, deep = _put(rules[which, _BEHIND], out, at), deep - 1
            if deep == 0:
                return at
        at = _put(rules[which, _BETWEEN] if passed > 0 else 0, out, at)
        member = _MEMBERS + _OF_MEMBER * min(passed, 2)
        if kind != _MAPPING:
            top = space[base + _OBJECT]
            obj = tuple_item(top, passed) if kind == _TUPLE else list_item(top, passed)
            continue
        key, obj = space[_KEY], space[_ITEM]
        at = _text(key, JSON, out, at, space) if _kind_of(key, space) == _TEXT else LEFT
        if at < 0:
            return at
        out[at] = _COLON
        at += 1


@fragment
def _kind_of(obj: int, space: Longs) -> int:
    """What an object is, by its type alone."""
    found, kind = longs_at(obj + TYPE_AT, 1)[0], 0
    while kind < _OTHER and space[_TYPES + kind] != found:
        kind += 1
    return kind


@fragment
def _put(text: int, out: Bytes, at: int) -> int:
    """Write the bytes of a number, for which there is room."""
    while text > 0:
        out[at] = text & 0xFF
        text >>= 8
        at += 1
    return at


@fragment
def _digits(number: int, out: Bytes, at: int) -> int:
    """Write a number that is not negative, for which there is room."""
    digits, rest = 1, number
    while rest >= 10:
        rest //= 10
        digits += 1
    for d in range(digits):
        out[at + digits - 1 - d] = _DIGIT + number % 10
        number //= 10
    return at + digits


@fragment
def _text(obj: int, how: int, out: Bytes, at: int, space: Longs) -> int:
    """Write a text; ROOM, or LEFT for one with what it may not have."""
    found = utf8(obj, address_of(space))
    if found == 0:  # half of a surrogate pair
        forget_error()
        return LEFT
    size = space[_SIZE]
    if at + size + _SPARE > len(out):
        return ROOM
    text, wrong, high, parted = bytes_at(found, size), size == 0 and how != JSON, np.uint8(0), 0
    at = _put(_QUOTE if how == JSON else 0, out, at)
    if LINE <= how < JSON:  # long ones, as a rule
        parts = _NEWLINE if how == LINE else _PARTING
        for i in range(size):
            out[at + i] = text[i]
            parted += text[i] == parts
    else:
        for i in range(size):
            out[at + i] = text[i]
            high |= text[i]
            wrong |= _FORBIDDEN[how, text[i]]
    for i in range(size - 1 if high >= 0xC2 and how < LINE else 0):  # the blanks of Unicode
        c, d, e = text[i], text[i + 1], text[min(i + 2, size - 1)]
        wrong |= (c == 0xC2) & ((d == 0x85) | (d == 0xA0))
        wrong |= (c == 0xE1) & (d == 0x9A) & (e == 0x80)
        wrong |= (c == 0xE2) & (d == 0x80) & ((e <= 0x8A) | (e == 0xA8) | (e == 0xA9) | (e == 0xAF))
        wrong |= (c == 0xE2) & (d == 0x81) & (e == 0x9F)
        wrong |= (c == 0xE3) & (d == 0x80) & (e == 0x80)
    if wrong or parted or (LINE <= how < JSON and text[0] == _MARK):
        return LEFT
    return _put(_QUOTE if how == JSON else _TAG if how == UNTAGGED else 0, out, at + size)


@fragment
def _number(obj: int, kind: int, out: Bytes, at: int, space: Longs) -> int:
    """Write a number as `str` does, or a constant of JSON, for which there is room."""
    if kind == _FLOAT:
        found = decimals(obj)
        if found == 0:
            forget_error()
            return LEFT
        text, n = bytes_at(found, _SPARE), 0
        while text[n] != 0:
            out[at + n] = text[n]
            n += 1
        free(found)
        return at + n
    if kind != _WHOLE:
        return _put(_NULL if kind == _NOTHING else _TRUE if obj == space[_IS_TRUE] else _FALSE, out, at)
    value = whole(obj, address_of(space))
    if space[_SIZE] & _INT != 0 or value == -(1 << 63):
        return LEFT
    at = _put(_MINUS if value < 0 else 0, out, at)
    return _digits(abs(value), out, at)


class Writer:
    """Writes lists of instances of a format; the buffer is kept, and grows."""

    def __init__(self, format: str) -> None:
        self._rules = _table(format) if can_be_walked() else None
        self._space, self._buffer = np.zeros(SPACE, np.int64), np.zeros(1 << 12, np.uint8)
        self._space[_TYPES:_FREE] = [*map(id, _KINDS), id(True)]

    def write(self, instances: list[Any]) -> Bytes | None:
        """The text of all (n,), until the next one is written; None where Python is to write them."""
        while self._rules is not None:
            size = write_all(id(instances), self._rules, self._buffer, self._space)
            if size >= 0:
                return self._buffer[:size]
            if size == LEFT:
                break
            self._buffer = np.zeros(2 * len(self._buffer), np.uint8)
        return None


def parting(format: str) -> str:
    """What parts instances of a format in the text of several."""
    return _RULES[format][0].between
