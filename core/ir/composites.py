"""What the functions are made of that need no kernel of their own, written with those that have one.

`xp` has the table's functions, `x.shape` the numbers of a value's shape; the signs broadcast as NumPy's do.
Reductions to a scalar return a vector of size 1.
"""

from __future__ import annotations

import math
from typing import Any

# What `layernorm` adds to the variance, as PyTorch does.
EPSILON = 1e-5


def mean(xp: Any, x: Any, *axis: float) -> Any:  # noqa: ANN401
    """The sum over the number of elements."""
    total = xp.sum(x, *axis)
    return total / (x.shape[int(axis[0])] if axis else math.prod(x.shape))


def smallest(xp: Any, x: Any, *axis: float) -> Any:  # noqa: ANN401
    """By the largest of the negatives."""
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
