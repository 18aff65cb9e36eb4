"""Numbers as JSON text: arrays of float32 as nested lists, each number in as few digits as tell it apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.jit import njit

Bytes = NDArray[np.uint8]

LONGEST = 16
"""No number takes more bytes: -0.0000123456789 and -1.23456789e-45 take 15."""
_MOST_DIGITS, _LEAST_DIGITS = 9, 6  # nine tell any two float32 apart
_POWERS = 10.0 ** np.arange(60, dtype=np.float64)
_NULL = np.frombuffer(b"null", np.uint8)
_ZERO, _POINT, _MINUS, _COMMA, _OPEN, _CLOSE, _E = (ord(c) for c in "0.-,[]e")


def rendered(values: NDArray[np.float32]) -> list[bytes]:
    """The m values of an array (m, *shape), each as a nested list of that shape.

    A number that is not finite is null. Read as float32 again, a number is the same bit for bit. Cost: about
    100 ns a number.
    """
    shape = values.shape[1:]
    steps = np.array([int(np.prod(shape[d:])) for d in range(len(shape))], np.int64)
    size = int(np.prod(shape))
    if size == 0:
        return [b"[]"] * len(values)
    flat = np.ascontiguousarray(values, np.float32).reshape(-1)
    out = np.empty(len(flat) * (LONGEST + 1 + 2 * len(shape)), np.uint8)
    ends = np.empty(len(values) + 1, np.int64)
    render(flat, size, steps, _POWERS, _NULL, out, ends)
    text = out[: ends[-1]].tobytes()
    return [text[a:b] for a, b in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True)]


@njit
def render(
    flat: NDArray[np.float32],
    size: int,
    steps: NDArray[np.int64],
    powers: NDArray[np.float64],
    null: Bytes,
    out: Bytes,
    ends: NDArray[np.int64],
) -> None:
    """Write values of `size` numbers each: value i to `out[ends[i]:ends[i + 1]]`.

    A bracket opens and closes around every `steps[d]` numbers.
    """
    at = 0
    ends[0] = 0
    for i in range(flat.size // size):
        for j in range(size):
            for step in steps:
                if j % step == 0:
                    out[at] = _OPEN
                    at += 1
            at = number(flat[i * size + j], powers, null, out, at)
            for step in steps:
                if (j + 1) % step == 0:
                    out[at] = _CLOSE
                    at += 1
            if j + 1 < size:
                out[at] = _COMMA
                at += 1
        ends[i + 1] = at


@njit
def number(x: np.float32, powers: NDArray[np.float64], null: Bytes, out: Bytes, at: int) -> int:
    """Write one number to `out[at:]`; returns where it ends."""
    if not np.isfinite(x):
        out[at : at + 4] = null
        return at + 4
    if np.signbit(x):
        out[at] = _MINUS
        at += 1
    if x == 0:
        out[at], out[at + 1], out[at + 2] = _ZERO, _POINT, _ZERO
        return at + 3
    size = abs(np.float64(x))
    exponent = int(np.floor(np.log10(size)))
    digits = 0
    for wanted in range(_LEAST_DIGITS, _MOST_DIGITS + 1):
        power = wanted - 1 - exponent
        scaled = size * powers[power] if power >= 0 else size / powers[-power]
        digits = int(np.rint(scaled))
        back = digits / powers[power] if power >= 0 else digits * powers[-power]
        if np.float32(back) == abs(x):
            break
    # digits * 10^-power; rounding up may have made it one digit longer
    while digits % 10 == 0:
        digits //= 10
        power -= 1
    count = 1
    while digits >= powers[count]:
        count += 1
    exponent = count - 1 - power
    if -6 < exponent < 10:
        return _plain(digits, count, exponent, out, at)
    at = _plain(digits, count, 0, out, at)
    out[at] = _E
    at += 1
    if exponent < 0:
        out[at] = _MINUS
        at += 1
    exponent = abs(exponent)
    if exponent >= 10:
        out[at] = _ZERO + exponent // 10
        at += 1
    out[at] = _ZERO + exponent % 10
    return at + 1


@njit
def _plain(digits: int, count: int, exponent: int, out: Bytes, at: int) -> int:
    """Write `count` digits, the first of which stands for 10^exponent, with a point among or beside them."""
    begin = max(exponent, 0)
    last = exponent - count + 1  # the place of the last digit
    end = min(last, -1)
    out[at + begin + 1] = _POINT
    for place in range(end, begin + 1):
        digit = 0
        if last <= place <= exponent:
            digit = digits % 10
            digits //= 10
        out[at + begin - place + (place < 0)] = _ZERO + digit
    return at + begin - end + 2
