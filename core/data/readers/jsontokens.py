"""What JSON is made of, found in bytes by compiled code: strings, escapes, numbers.

Each function takes an offset and returns the one behind what it found, or BAIL where it is something else.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.data.feed import Bytes
from abw.core.jit.decorators import inner

Doubles = NDArray[np.float64]

BAIL = -1
# The largest whole number that is read as one.
LARGEST = 2**31 - 1
# The powers of ten that a double holds exactly.
POWERS = np.array([10.0**n for n in range(23)])
QUOTE, BACKSLASH, COMMA, COLON = 34, 92, 44, 58
OPEN_LIST, CLOSE_LIST, OPEN, CLOSE = 91, 93, 123, 125
MINUS, ZERO, NINE, NEWLINE = 45, 48, 57, 10
PLUS, POINT, _E, _SMALL_E = 43, 46, 69, 101
# More than the relative error of a number made of 19 digits and one of these powers.
_MARGIN = 2.0**-50


@inner
def blank(text: Bytes, at: int) -> int:
    """The offset of what follows blanks."""
    while at < text.size and (text[at] == 32 or text[at] == 9 or text[at] == 13):
        at += 1
    return at


@inner
def is_at(text: Bytes, at: int, byte: int) -> bool:
    """Whether that byte is at an offset."""
    return at < text.size and text[at] == byte


@inner
def equal(text: Bytes, begin: int, end: int, keys: Bytes, first: int, last: int) -> bool:
    """Whether `text[begin:end]` is `keys[first:last]`."""
    j = 0
    while begin + j < end and first + j < last and text[begin + j] == keys[first + j]:
        j += 1
    return begin + j == end and first + j == last


@inner
def is_digit(text: Bytes, at: int) -> bool:
    """Whether a digit is at an offset."""
    return at < text.size and ZERO <= text[at] <= NINE


@inner
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


@inner
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
    if unit < 0 or 0xDC00 <= unit <= 0xDFFF:
        return BAIL
    if unit < 0xD800 or unit > 0xDFFF:
        return at + 6
    return at + 12 if 0xDC00 <= _unit(text, at + 6) <= 0xDFFF else BAIL


@inner
def string_end(text: Bytes, at: int) -> int:
    """The offset of the quote that ends the string whose first quote is before `at`."""
    while at < text.size:
        if text[at] == QUOTE:
            return at
        if text[at] == BACKSLASH:
            at = _escape(text, at)
            if at < 0:
                return BAIL
            continue
        if text[at] < 32:
            return BAIL
        at += 1
    return BAIL


@inner
def read_number(text: Bytes, at: int, powers: Doubles) -> tuple[float, bool, int]:
    """The number at an offset, whether it is certain to be the nearest float32, and the offset behind it.

    `powers` are POWERS. Whether it is whole says its text.
    """
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


@inner
def read_whole(text: Bytes, at: int) -> tuple[int, int]:
    """A whole number from 0, and the offset behind it."""
    begin, found = at, 0
    while is_digit(text, at) and at - begin < 10:
        found = 10 * found + text[at] - ZERO
        at += 1
    if at == begin or is_digit(text, at) or (text[begin] == ZERO and at > begin + 1) or found > LARGEST:
        return 0, BAIL
    return found, at
