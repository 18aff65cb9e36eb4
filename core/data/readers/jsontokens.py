"""What JSON is made of, found in bytes by compiled code: strings, escapes, numbers.

Each function takes an offset and returns the one behind what it found, or BAIL where it is something else.
Long ones look at eight bytes at once. Strings that were found are decoded by `texts`.
"""

from __future__ import annotations

import json
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abw.core.data.feed import Bytes
from abw.core.data.instances import Ints
from abw.core.data.intern import EIGHT, Eights, eights_of, intern
from abw.core.jit.decorators import fragment, within

Doubles = NDArray[np.float64]

# Behind every text: whatever is looked for from there on is not there, either.
BAIL = 1 << 62
# The largest whole number that is read as one.
LARGEST = 2**31 - 1
# The least number that float32 rounds to infinity.
TOO_LARGE = 2.0**128 - 2.0**103
# The powers of ten that a double holds exactly.
POWERS = np.array([10.0**n for n in range(23)])
QUOTE, BACKSLASH, COMMA, COLON = 34, 92, 44, 58
OPEN_LIST, CLOSE_LIST, OPEN, CLOSE = 91, 93, 123, 125
MINUS, ZERO, NINE, NEWLINE = 45, 48, 57, 10
PLUS, POINT, _E, _SMALL_E = 43, 46, 69, 101
BLANK = 32
# More than the relative error of a number made of 19 digits and one of these powers.
_MARGIN = 2.0**-50
# Of whole numbers below it single precision makes the nearest of a quotient in double precision.
_EXACT = 2.0**24
# In each of eight bytes the lowest bit, and the highest; how to number the first byte whose highest is set.
_LOW, _HIGH, _INDEX = (np.uint64(n) for n in (0x0101010101010101, 0x8080808080808080, 0x0001020304050607))
_ONE, _SEVEN, _BYTE, _TOP = (np.uint64(n) for n in (1, 7, 8, 56))
_QUOTES, _SLASHES, _BLANKS, _ZEROS = (_LOW * np.uint64(byte) for byte in (QUOTE, BACKSLASH, BLANK, ZERO))
# Added to a byte it sets the highest bit where there is more than a digit; where there is more than 0.
_NO_DIGIT, _NO_ZERO = _LOW * np.uint64(0x76), _LOW * np.uint64(0x7F)
# How eight digits become a number: pairs, then both fours of them at once (Lemire, 2018).
_TEN, _PAIRS, _PAIR = np.uint64(10), np.uint64(0x000000FF000000FF), np.uint64(16)
_FIRST_PAIRS, _LAST_PAIRS = np.uint64(100 + (1000000 << 32)), np.uint64(1 + (10000 << 32))
_HALF = np.uint64(32)
_MASKS = np.array([256**size - 1 for size in range(8)] + [2**64 - 1], np.uint64)


class Json(NamedTuple):
    """A text as it is read: its bytes, the eight from each place on, POWERS."""

    text: Bytes
    eights: Eights
    powers: Doubles


def json_of(data: bytes) -> Json:
    """A text to read; behind a short one there are zeros."""
    return Json(np.frombuffer(data, np.uint8), eights_of(data), POWERS)


def texts(data: bytes, begin: Ints, end: Ints) -> tuple[Ints, list[str]]:
    """The number of each string among the distinct ones, and these. Errors: ValueError for no UTF-16."""
    # an empty string is no piece of a text to `intern`: its quotes are read with it
    number, pieces = intern(data, begin - np.int32(1), end + np.int32(1))
    quoted = list(pieces)
    found = [string(word) for word in quoted]
    numbers = dict(zip(dict.fromkeys(found), range(len(found)), strict=False))
    if len(numbers) < len(found):  # one string, written in several ways
        number = np.array([numbers[word] for word in found], np.int32)[number]
    return number, list(numbers)


def string(quoted: str) -> str:
    """A string as it is written, with its quotes. Errors: ValueError for no UTF-16."""
    if "\\" not in quoted:
        return quoted[1:-1]
    word: str = json.loads(quoted)
    word.encode()
    return word


@within
def _first(marked: np.uint64) -> int:
    """Which of eight bytes is the first whose highest bit is set."""
    bits = np.uint64(marked)
    lowest = bits & (~bits + _ONE)
    return np.int64((lowest >> _SEVEN) * _INDEX >> _TOP)  # type: ignore[return-value]


@within
def masked(eights: Eights, at: int, size: int) -> np.uint64:
    """The up to eight bytes from a place in the text on, then zeros."""
    there = min(at, eights.size - 1)
    return eights[there] >> np.uint64(8 * (at - there)) & _MASKS[min(size, 8)]  # type: ignore[no-any-return]


@within
def same(eights: Eights, begin: int, others: Eights, first: int, size: int) -> bool:
    """Whether so many bytes from a place in the text on are those from a place in another."""
    if size < EIGHT:
        return bool(masked(eights, begin, size) == masked(others, first, size))
    if begin + size - EIGHT >= eights.size:
        return False
    equal = eights[begin + size - EIGHT] == others[first + size - EIGHT]
    for k in range(0, size - EIGHT, EIGHT):
        equal &= eights[begin + k] == others[first + k]
    return bool(equal)


@within
def blank(text: Bytes, at: int) -> int:
    """The offset of what follows blanks."""
    while at < text.size and (text[at] == 32 or text[at] == 9 or text[at] == 13):
        at += 1
    return at


@within
def spaces(eights: Eights, at: int) -> int:
    """The offset of what follows many spaces, or of the last ones that are no eight."""
    while at < eights.size:
        other = eights[at] ^ _BLANKS
        if other:
            marked = (((other & ~_HIGH) + _NO_ZERO) | other) & _HIGH
            return at + _first(marked)
        at += EIGHT
    return at


@within
def is_at(text: Bytes, at: int, byte: int) -> bool:
    """Whether that byte is at an offset."""
    return at < text.size and text[at] == byte


@within
def is_digit(text: Bytes, at: int) -> bool:
    """Whether a digit is at an offset."""
    return at < text.size and ZERO <= text[at] <= NINE


@fragment
def _unit(text: Bytes, at: int) -> int:
    """The unit of UTF-16 that the four digits after the `\\u` at an offset are."""
    if at + 6 > text.size or text[at] != BACKSLASH or text[at + 1] != 117:
        return BAIL
    unit = 0
    for j in range(at + 2, at + 6):
        if ZERO <= text[j] <= NINE:
            unit = 16 * unit + text[j] - ZERO
        elif 97 <= (text[j] | 32) <= 102:
            unit = 16 * unit + (text[j] | 32) - 87
        else:
            return BAIL
    return unit


@fragment
def _escape(text: Bytes, at: int) -> int:
    """The offset behind what begins with the backslash at an offset: a sign, or two halves of a pair."""
    if at + 1 >= text.size:
        return BAIL
    if text[at + 1] != 117:
        sign = text[at + 1]
        # " \\ / b f n r t
        known = sign == 34 or sign == 92 or sign == 47 or sign == 98 or sign == 102
        known = known or sign == 110 or sign == 114 or sign == 116
        return at + 2 if known else BAIL
    unit = _unit(text, at)
    if unit < 0xD800 or 0xDFFF < unit < BAIL:
        return at + 6
    return at + 12 if unit < 0xDC00 and 0xDC00 <= _unit(text, at + 6) <= 0xDFFF else BAIL


@fragment
def _string_end(text: Bytes, at: int) -> int:
    """See `string_end`: byte after byte."""
    while at < text.size:
        if text[at] == QUOTE:
            return at
        if text[at] == BACKSLASH:
            at = _escape(text, at)
        elif text[at] < 32:
            return BAIL
        else:
            at += 1
    return BAIL


@within
def string_end(json: Json, at: int) -> int:
    """The offset of the quote that ends the string whose first quote is before `at`."""
    text, eights = json.text, json.eights
    while at < eights.size:
        word = eights[at]
        quote, slash = word ^ _QUOTES, word ^ _SLASHES
        marked = (quote - _LOW) & ~quote | (slash - _LOW) & ~slash | (word - _BLANKS) & ~word
        marked &= _HIGH
        if marked:
            at += _first(marked)
            # behind a short text are zeros, which are no quote
            return at if is_at(text, at, QUOTE) else _string_end(text, at)
        at += EIGHT
    return _string_end(text, at)


@within
def read_number(json: Json, at: int) -> tuple[float, bool, int]:
    """The number at an offset, whether it is certain to be the nearest float32, and the offset behind it.

    Whether it is whole says its text.
    """
    text, powers = json.text, json.powers
    begin = at
    negative = is_at(text, at, MINUS)
    at += negative
    if at + 2 * EIGHT > text.size:
        return _read_number(text, begin, powers)
    size, whole = _digits(json, at)
    behind, fraction = at + size, 0
    found = float(whole)
    plain = size > 0 and (text[at] != ZERO or size == 1)
    if text[behind] == POINT:
        fraction, whole = _digits(json, behind + 1)
        plain &= fraction > 0
        behind += 1 + fraction
        found = found * powers[fraction] + float(whole)
    if not plain or text[behind] | 32 == _SMALL_E:
        return _read_number(text, begin, powers)
    exact = found < _EXACT
    if fraction > 0:
        found /= powers[fraction]
    certain = exact or np.float32(found * (1 - _MARGIN)) == np.float32(found * (1 + _MARGIN))
    return -found if negative else found, certain, behind


@within
def _digits(json: Json, at: int) -> tuple[int, int]:
    """How many digits there are at an offset, and what number they are; 0 of none and of eight."""
    text = json.text
    if ZERO <= text[at] <= NINE and not ZERO <= text[at + 1] <= NINE:
        return 1, text[at] - ZERO
    digits = json.eights[at] ^ _ZEROS
    size = _first(((digits + _NO_DIGIT) | digits) & _HIGH)
    digits <<= np.uint64(64 - 8 * size & 63)
    digits = digits * _TEN + (digits >> _BYTE)
    number = ((digits & _PAIRS) * _FIRST_PAIRS + (digits >> _PAIR & _PAIRS) * _LAST_PAIRS) >> _HALF
    return size, np.int64(number)  # type: ignore[return-value]


@fragment
def _read_number(text: Bytes, at: int, powers: Doubles) -> tuple[float, bool, int]:
    """See `read_number`: digit after digit, however many there are, and with an exponent."""
    negative = is_at(text, at, MINUS)
    at += negative
    if not is_digit(text, at):
        return 0.0, False, BAIL
    digits, exponent, mantissa = 0, 0, np.uint64(0)
    if text[at] == ZERO:
        at += 1
        if is_digit(text, at):
            return 0.0, False, BAIL
    while is_digit(text, at):
        if digits < 19:
            mantissa = mantissa * np.uint64(10) + np.uint64(text[at] - ZERO)
            digits += 1
        else:
            exponent += 1
        at += 1
    if is_at(text, at, POINT):
        at += 1
        if not is_digit(text, at):
            return 0.0, False, BAIL
        while is_digit(text, at):
            if digits < 19:
                mantissa = mantissa * np.uint64(10) + np.uint64(text[at] - ZERO)
                digits += int(mantissa > 0)
                exponent -= 1
            at += 1
    if at < text.size and (text[at] == _E or text[at] == _SMALL_E):
        at += 1
        less = is_at(text, at, MINUS)
        at += less or is_at(text, at, PLUS)
        if not is_digit(text, at):
            return 0.0, False, BAIL
        more = 0
        while is_digit(text, at):
            more = min(10 * more + text[at] - ZERO, 9999)
            at += 1
        exponent += -more if less else more
    found = float(mantissa)
    certain = mantissa == 0 or -23 < exponent < 23
    if certain and mantissa > 0:
        found = found * powers[exponent] if exponent >= 0 else found / powers[-exponent]
        certain = np.float32(found * (1 - _MARGIN)) == np.float32(found * (1 + _MARGIN))
    return -found if negative else found, certain, at


@within
def read_whole(text: Bytes, at: int) -> tuple[int, int]:
    """A whole number from 0, and the offset behind it."""
    begin, found = at, 0
    while is_digit(text, at) and at - begin < 10:
        found = 10 * found + text[at] - ZERO
        at += 1
    if at == begin or is_digit(text, at) or (text[begin] == ZERO and at > begin + 1) or found > LARGEST:
        return 0, BAIL
    return found, at
