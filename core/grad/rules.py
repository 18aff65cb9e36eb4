"""The derivative of every operation in the table of operations (`abw.core.ir.operations`).

A rule gives what an argument's gradient gets from that of the result, written in operations again; so a
backward pass is made of cells. Where two arguments of a maximum are equal they share, as in PyTorch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from abw.core.grad.draft import (
    Value,
    along,
    equal,
    function,
    joined,
    outer,
    part,
    product,
    reshaped,
    total,
    transposed,
    where,
)
from abw.core.ir.cell import Op, Shape


@dataclass(frozen=True, slots=True)
class Site:
    """Value number `at` of a cell, the result of `op`, and its gradient g.

    `value` gives result and arguments when they are asked for: what no rule reads need not be there.
    """

    op: Op
    at: int
    g: Value
    value: Callable[[int], Value]
    shape: Callable[[int], Shape]

    @property
    def y(self) -> Value:
        """The result."""
        return self.value(self.at)

    @property
    def x(self) -> Value:
        """The first argument."""
        return self.arg(0)

    def arg(self, i: int) -> Value:
        """Argument i."""
        return self.value(self.op.args[i])

    def shape_of(self, i: int) -> Shape:
        """The shape of argument i."""
        return self.shape(self.op.args[i])


Slope = Callable[[Site], Value]
# What argument i's gradient gets; None where the result does not change with it, or by steps.
Rule = Callable[[Site, int], Value | None]


def _each(*slopes: Slope | None) -> Rule:
    """A rule for each argument."""

    def rule(site: Site, i: int) -> Value | None:
        slope = slopes[i]
        return None if slope is None else slope(site)

    return rule


def _gelu(s: Site) -> Value:
    """The normal distribution up to x, and x times its density; gelu(x) is x times the first.

    Near 0, where that cannot be divided by x, it is the beginning of its series.
    """
    x, density = s.x, 1 / math.sqrt(2 * math.pi)
    square = x * x
    series = x * (1 - square * (1 / 6 - square * (1 / 40 - square * (1 / 336))))
    up_to = where(function("abs", x) < 0.05, 0.5 + density * series, s.y / x)
    return s.g * (up_to + density * (x * function("exp", -0.5 * square)))


def _silu(s: Site) -> Value:
    share = function("sigmoid", s.x)
    return s.g * (share + s.y * (1 - share))


def _softmax(s: Site) -> Value:
    gy = s.g * s.y
    return gy - s.y * along(total(gy), -1, s.op.shape)


def _sum(s: Site) -> Value:
    return along(s.g, int(s.op.attr[0]), s.shape_of(0))


def _max(s: Site) -> Value:
    """The largest elements share."""
    axis, shape = int(s.op.attr[0]), s.shape_of(0)
    largest = equal(s.x, along(s.y, axis, shape))
    return largest * along(s.g / total(largest, axis), axis, shape)


def _spread(s: Site) -> Value:
    """The sums along what was repeated."""
    inner = tuple(map(int, s.op.attr[: len(s.op.shape)]))
    found = s.g
    if len(inner) == 2 and inner[0] == 1 < s.op.shape[0]:
        found = total(found, -2)
    if inner[-1] == 1 < s.op.shape[-1]:
        found = total(found)
    return reshaped(found, s.shape_of(0))


def _matmul(s: Site, i: int) -> Value:
    if i:
        return product(transposed(s.arg(0)), s.g)
    return outer(s.g, s.arg(1)) if len(s.op.shape) == 1 else product(s.g, transposed(s.arg(1)))


def _concat(s: Site, i: int) -> Value:
    start = sum(s.shape_of(j)[0] for j in range(i))
    return part(s.g, start, start + s.shape_of(i)[0])


def _slice(s: Site) -> Value:
    """Zeros around it."""
    (start, stop), (length, *rest) = map(int, s.op.attr), s.shape_of(0)
    sizes = [(n, *rest) for n in (start, length - stop)]
    before, after = (s.g.draft.zeros(shape) if shape[0] else None for shape in sizes)
    return joined([value for value in (before, s.g, after) if value])


def _chosen(sign: str) -> Rule:
    """The gradient goes to the argument of which `sign` holds; half to each where they are equal."""

    def rule(s: Site, i: int) -> Value:
        own, other = s.arg(i), s.arg(1 - i)
        return s.g * (s.g.draft.apply(sign, own, other) + 0.5 * equal(own, other))

    return rule


_NONE: Rule = _each(None, None)

# The rule of every operation that cells are made of; a composite has those of its parts.
RULES: Mapping[str, Rule] = {
    "add": _each(lambda s: s.g, lambda s: s.g),
    "sub": _each(lambda s: s.g, lambda s: -s.g),
    "mul": _each(lambda s: s.g * s.arg(1), lambda s: s.g * s.arg(0)),
    "div": _each(lambda s: s.g / s.arg(1), lambda s: -(s.g * s.y) / s.arg(1)),
    "matmul": _matmul,
    "neg": _each(lambda s: -s.g),
    "sigmoid": _each(lambda s: s.g * s.y * (1 - s.y)),
    "tanh": _each(lambda s: s.g * (1 - s.y * s.y)),
    "relu": _each(lambda s: where(s.y > 0, s.g, 0.0)),
    "exp": _each(lambda s: s.g * s.y),
    "log": _each(lambda s: s.g / s.x),
    "sqrt": _each(lambda s: 0.5 * s.g / s.y),
    "rsqrt": _each(lambda s: -0.5 * s.g * (s.y * s.y * s.y)),
    "square": _each(lambda s: 2 * s.g * s.x),
    "abs": _each(lambda s: s.g * ((s.x > 0) - (s.x < 0))),
    "silu": _each(_silu),
    "gelu": _each(_gelu),
    "erf": _each(lambda s: s.g * (2 / math.sqrt(math.pi) * function("exp", -(s.x * s.x)))),
    "sin": _each(lambda s: s.g * function("cos", s.x)),
    "cos": _each(lambda s: -(s.g * function("sin", s.x))),
    "floor": _each(None),
    "ceil": _each(None),
    "round": _each(None),
    "sign": _each(None),
    "softplus": _each(lambda s: s.g * function("sigmoid", s.x)),
    "elu": _each(
        lambda s: where(s.x > 0, s.g, s.g * (s.y + s.arg(1))),
        lambda s: s.g * s.g.draft.apply("elu", where(s.x > 0, 0.0, s.x), 1.0),
    ),
    "leaky_relu": _each(
        lambda s: where(s.x > 0, s.g, s.g * s.arg(1)), lambda s: where(s.x > 0, 0.0, s.g * s.x)
    ),
    "maximum": _chosen("gt"),
    "minimum": _chosen("lt"),
    "lt": _NONE,
    "le": _NONE,
    "gt": _NONE,
    "ge": _NONE,
    "eq": _NONE,
    "ne": _NONE,
    "where": _each(None, lambda s: where(s.arg(0), s.g, 0.0), lambda s: where(s.arg(0), 0.0, s.g)),
    "softmax": _each(_softmax),
    "sum": _each(_sum),
    "max": _each(_max),
    "concat": _concat,
    "slice": _each(_slice),
    "transpose": _each(lambda s: transposed(s.g)),
    "reshape": _each(lambda s: reshaped(s.g, s.shape_of(0))),
    "spread": _each(_spread),
    "constant": _each(),
    "identity": _each(lambda s: s.g),
}
