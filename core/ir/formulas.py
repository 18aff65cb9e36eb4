"""The meanings of operations that take more than a line, for an array library `xp` (see `operations`).

Those of composites, which need no kernel of their own, are written with operations that have one: there `xp`
has the table's functions, and `x.shape` the numbers of a value's shape.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

# What `layernorm` adds to the variance, as PyTorch does.
EPSILON = 1e-5
NORMAL_SLOPE, NORMAL_END = 0.25, 39.0
# Pi/2 in four parts. The first three have 9 bits each: times a whole number below 2^15 they are exact, in
# single precision, too (Cody and Waite, 1980).
QUARTER = (1.5703125, 0.00048065185546875, 3.1739473342895508e-06, 9.920935796805404e-10)
# The largest power that is made of products.
MOST_PRODUCTS = 64
# The largest argument of sin and cos.
MOST_TURNED = 50_000.0
# The normal distribution up to -t is y P(y) exp(-t^2 / 2) with y = 1 / (1 + t / 4), for t >= 0: P, highest
# power first, fitted for this file; relative error 1e-14 up to t = 39, where nothing is left.
NORMAL_TAIL = (
    -0.0026015308987477285, 0.026863090576358172, -0.1252213578973018, 0.34599664220228116,
    -0.6265978985088931, 0.7819544759762295, -0.7015541577336765, 0.4804685279519354, -0.25889448864256104,
    0.09802885870746333, -0.0368826784084453, 0.015736875998007157, 0.021721134862919142, 0.04349670869387669,
    0.06347524814677132, 0.08103743253166897, 0.09350197218219279, 0.09973557422138858, 0.09973557003853518,
)  # fmt: skip


def softmax(xp: Any, x: Any) -> Any:  # noqa: ANN401
    """Over the last axis; shifted by the largest, which changes nothing but the range."""
    most = x.max(axis=-1, keepdims=True)
    shifted = x - most
    # of a large difference, rounding takes more than the last digits of its exponential
    back = shifted - x
    lost = (x - (shifted - back)) - (most + back)
    e = xp.exp(shifted) * (1 + xp.where(abs(lost) < 1, lost, 0.0))
    return e / e.sum(axis=-1, keepdims=True)


def gelu(xp: Any, x: Any) -> Any:  # noqa: ANN401
    """x times the normal distribution up to x, whose tails are exp(-x^2 / 2) times something smooth."""
    t = xp.minimum(xp.abs(x), NORMAL_END)
    return xp.maximum(x, 0) - t * _normal_tail(xp, t)


def _normal_tail(xp: Any, t: Any) -> Any:  # noqa: ANN401
    """The normal distribution up to -t, for t of 0 to NORMAL_END."""
    y = 1 / (1 + NORMAL_SLOPE * t)
    return _polynomial(y, NORMAL_TAIL) * y * xp.exp(-0.5 * t * t)


def _polynomial(x: Any, coefficients: Sequence[float]) -> Any:  # noqa: ANN401
    """Horner's scheme, highest power first."""
    value = coefficients[0]
    for coefficient in coefficients[1:]:
        value = value * x + coefficient
    return value


def erf(xp: Any, x: Any) -> Any:  # noqa: ANN401
    """The beginning of its series near 0; elsewhere 1 - 2 N(-sqrt(2) |x|), N the normal distribution."""
    t = xp.abs(x)
    series = [
        2 / math.sqrt(math.pi) * (-1) ** n / (math.factorial(n) * (2 * n + 1)) for n in range(10, -1, -1)
    ]
    near = x * _polynomial(xp.minimum(x * x, 0.25), series)
    far = 1 - 2 * _normal_tail(xp, xp.minimum(math.sqrt(2) * t, NORMAL_END))
    return xp.where(t < 0.5, near, xp.where(x < 0, -far, far))


def sine(xp: Any, x: Any, quarters: float = 0.0) -> Any:  # noqa: ANN401
    """sin(x + quarters pi/2), by series of what is left between -pi/4 and pi/4; NaN where x is large."""
    whole = xp.floor(x * (2 / math.pi) + 0.5)
    rest = x
    for part in QUARTER:
        rest = rest - whole * part
    square = rest * rest
    powers = range(15, -1, -2)
    sine = rest * _polynomial(square, [(-1) ** (n // 2) / math.factorial(n) for n in powers])
    cosine = _polynomial(square, [(-1) ** ((n + 1) // 2) / math.factorial(n + 1) for n in powers] + [1.0])
    turn = whole + quarters
    half = turn - 2 * xp.floor(0.5 * turn)
    back = xp.floor(0.5 * turn) - 2 * xp.floor(0.25 * turn)
    found = xp.where(half == 0, sine, cosine)
    found = xp.where(back == 0, found, -found)
    return xp.where(xp.abs(x) <= MOST_TURNED, found, math.nan)


def nearest(xp: Any, x: Any) -> Any:  # noqa: ANN401
    """The nearest whole number, the even one of two."""
    below = xp.floor(x)
    part, odd = x - below, below - 2 * xp.floor(0.5 * below)
    return xp.where(part < 0.5, below, xp.where(part == 0.5, below + odd, xp.where(x == x, below + 1, x)))


def power(xp: Any, x: Any, y: Any) -> Any:  # noqa: ANN401
    """Products for a whole number that is written out, roots for halves; otherwise exp(y log(x))."""
    if not isinstance(y, float) or abs(y) > MOST_PRODUCTS or not (2 * y).is_integer():
        return xp.exp(y * xp.log(x))
    if y < 0:
        return xp.rsqrt(x) if y == -0.5 else 1 / power(xp, x, -y)
    value, factor = (None if y.is_integer() else xp.sqrt(x)), x
    for bit in reversed(f"{int(y):b}"):
        if bit == "1":
            value = factor if value is None else value * factor
        factor = factor * factor
    return xp.where(x == x, 1.0, 1.0) if value is None else value


def silu(xp: Any, x: Any) -> Any:  # noqa: ANN401
    """x / (1 + exp(-x)) by exp(-|x|), which cannot overflow."""
    e = xp.exp(-xp.abs(x))
    return x * xp.where(x < 0, e, 1) / (1 + e)


def softplus(xp: Any, x: Any) -> Any:  # noqa: ANN401
    """log(1 + exp(x)) by exp(-|x|), which cannot overflow; what rounding 1 + e lost is given back."""
    e = xp.exp(-xp.abs(x))
    more = 1 + e
    return xp.maximum(x, 0) + (xp.log(more) - ((more - 1) - e) / more)


def elu(xp: Any, x: Any, y: Any) -> Any:  # noqa: ANN401
    """exp(x) - 1 by the hyperbolic tangent, which is exact near 0, too."""
    t = xp.tanh(0.5 * x)
    return xp.where(x > 0, x, y * (2 * t / (1 - t)))


def spread(xp: Any, x: Any, *sizes: float) -> Any:  # noqa: ANN401
    """A vector in the shape of the first half of `sizes`, broadcast to that of the second."""
    inner, outer = (tuple(map(int, half)) for half in (sizes[: len(sizes) // 2], sizes[len(sizes) // 2 :]))
    before = tuple(x.shape[:-1])
    return xp.broadcast_to(x.reshape(before + inner), before + outer)


def reshape(xp: Any, x: Any, rank: float, *sizes: float) -> Any:  # noqa: ANN401
    """The last `rank` axes in another shape."""
    return x.reshape(tuple(x.shape[: -int(rank)]) + tuple(map(int, sizes)))


def constant(xp: Any, *values: float) -> Any:  # noqa: ANN401
    """All its numbers in a row."""
    return xp.asarray(values)


def mean(xp: Any, x: Any, *axis: float) -> Any:  # noqa: ANN401
    """The sum over the number of elements."""
    total = xp.sum(x, *axis)
    return total / (x.shape[int(axis[0])] if axis else math.prod(x.shape))


def var(xp: Any, x: Any, *axis: float) -> Any:  # noqa: ANN401
    """The mean of the squared differences from the mean."""
    center = mean(xp, x, *axis)
    if axis and int(axis[0]) in (1, -1) and len(x.shape) == 2:
        center = xp.reshape(center, x.shape[0], 1)
    apart = x - center
    return mean(xp, apart * apart, *axis)


def std(xp: Any, x: Any, *axis: float) -> Any:  # noqa: ANN401
    """The root of the variance."""
    return xp.sqrt(var(xp, x, *axis))


def smallest(xp: Any, x: Any, *axis: float) -> Any:  # noqa: ANN401
    """The smallest is the largest of the negatives, negated."""
    return -xp.max(-x, *axis)


def norm(xp: Any, x: Any, *axis: float) -> Any:  # noqa: ANN401
    """Euclid's; of a whole matrix, Frobenius'."""
    return xp.sqrt(xp.sum(x * x, *axis))


def dot(xp: Any, x: Any, y: Any) -> Any:  # noqa: ANN401
    """The scalar product of two vectors."""
    return xp.sum(x * y)


def outer(xp: Any, x: Any, y: Any) -> Any:  # noqa: ANN401
    """Column times row."""
    return xp.reshape(x, *x.shape, 1) * y


def layernorm(xp: Any, x: Any, gain: Any, bias: Any, epsilon: float = EPSILON) -> Any:  # noqa: ANN401
    """Each row with mean 0 and variance 1 (Ba, Kiros and Hinton, 2016), then scaled and moved."""

    def each_row(values: Any) -> Any:  # noqa: ANN401
        return values if len(x.shape) == 1 else xp.reshape(values, x.shape[0], 1)

    apart = x - each_row(xp.mean(x, -1))
    return apart * each_row(xp.rsqrt(xp.mean(apart * apart, -1) + epsilon)) * gain + bias


def softmax_down(xp: Any, x: Any) -> Any:  # noqa: ANN401
    """Column by column."""
    e = xp.exp(x - xp.max(x, 0))
    return e / xp.sum(e, 0)
