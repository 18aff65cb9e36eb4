"""The meanings of operations that take more than a line, for an array library `xp` (see `operations`).

Those of composites, which need no kernel of their own, are written with operations that have one: there `xp`
has the table's functions, and `x.shape` the numbers of a value's shape.
"""

from __future__ import annotations

import math
from typing import Any

# What `layernorm` adds to the variance, as PyTorch does.
EPSILON = 1e-5
NORMAL_SLOPE, NORMAL_END = 0.25, 39.0
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
    y = 1 / (1 + NORMAL_SLOPE * t)
    tail = NORMAL_TAIL[0]
    for coefficient in NORMAL_TAIL[1:]:
        tail = tail * y + coefficient
    return xp.maximum(x, 0) - t * (tail * y * xp.exp(-0.5 * t * t))


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
