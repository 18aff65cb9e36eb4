"""Gradients of a cell at one node, operation by operation with NumPy: what `core/grad` is checked against.

It shares nothing with that: derivatives are written once more, as numbers, and nothing is saved or summed
over rows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from abw.core.cell.evaluate import cell_values
from abw.core.ir.cell import Cell, Op

Array = NDArray[np.float64]
# From an operation, its arguments, its result and the gradient of that to the gradients of its arguments.
Vjp = Callable[[Op, Sequence[Array], Array, Array], Sequence[Array | float]]


def cell_vjp(
    cell: Cell, inputs: Sequence[Array], params: Sequence[Array], gradients: Sequence[Array | None]
) -> list[Array | None]:
    """The gradients of a cell's inputs, then of its parameters, by those of its outputs; None: of nothing."""
    values = cell_values(cell, inputs, params)
    found: list[Array | None] = [None] * len(values)

    def add(value: int, gradient: Array | float) -> None:
        before = found[value]
        fitting = _summed_to(np.asarray(gradient), np.shape(values[value]))
        found[value] = fitting if before is None else before + fitting

    for (_, value), gradient in zip(cell.outputs, gradients, strict=True):
        if gradient is not None:
            add(value, gradient)
    for value in range(len(values) - 1, cell.first_op - 1, -1):
        op, gradient = cell.ops[value - cell.first_op], found[value]
        if gradient is not None:
            arguments = [values[a] for a in op.args]
            parts = VJP[op.name](op, arguments, values[value], gradient)
            for a, part in zip(op.args, parts, strict=True):
                add(a, part)
    return found[: cell.first_op]


def _summed_to(gradient: Array, shape: tuple[int, ...]) -> Array:
    """The sum over what was broadcast; a number stands for an array of it."""
    if gradient.ndim < len(shape):
        return np.broadcast_to(gradient, shape)
    while gradient.ndim > len(shape):
        gradient = gradient.sum(axis=0)
    for axis, size in enumerate(shape):
        if size == 1 < gradient.shape[axis]:
            gradient = gradient.sum(axis=axis, keepdims=True)
    return gradient


def _of_one(slope: Callable[[Array, Array], Array | float]) -> Vjp:
    """Of an operation of one value, by its derivative at x where it is y."""
    return lambda op, args, y, g: [g * slope(args[0], y)]


def _logistic(x: Array) -> Array:
    return np.asarray(0.5 * (1 + np.tanh(0.5 * x)))


def _gelu(x: Array, y: Array) -> Array:
    below = np.vectorize(lambda t: 0.5 * math.erfc(-t / math.sqrt(2)), otypes=[float])(x)
    return np.asarray(below + x * np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi))


def _elu(op: Op, args: Sequence[Array], y: Array, g: Array) -> Sequence[Array]:
    x, a = args
    below = np.minimum(x, 0)
    return [np.where(x > 0, g, g * a * np.exp(below)), g * np.expm1(below)]


def _extreme(sign: float) -> Vjp:
    def vjp(op: Op, args: Sequence[Array], y: Array, g: Array) -> Sequence[Array]:
        share = 0.5 + 0.5 * np.sign(sign * (args[0] - args[1]))
        return [g * share, g * (1 - share)]

    return vjp


def _matmul(op: Op, args: Sequence[Array], y: Array, g: Array) -> Sequence[Array]:
    a, x = args
    if x.ndim == 1:
        return [np.outer(g, x), g @ a]
    return [np.einsum("ik,jk->ij", g, x), np.einsum("ij,ik->jk", a, g)]


def _softmax(op: Op, args: Sequence[Array], y: Array, g: Array) -> Sequence[Array]:
    jacobian = np.eye(y.shape[-1]) * y[..., None] - y[..., None] * y[..., None, :]
    return [np.einsum("...ij,...i->...j", jacobian, g)]


def _reduced(op: Op, value: Array) -> Array:
    """A sum's result or gradient with the axis that was summed."""
    axis, keep = map(int, op.attr)
    return value if keep else np.expand_dims(value, axis)


def _max(op: Op, args: Sequence[Array], y: Array, g: Array) -> Sequence[Array]:
    x, axis = args[0], int(op.attr[0])
    largest = (x == _reduced(op, y)).astype(x.dtype)
    return [largest / largest.sum(axis=axis, keepdims=True) * _reduced(op, g)]


def _concat(op: Op, args: Sequence[Array], y: Array, g: Array) -> Sequence[Array]:
    ends = np.cumsum([0, *(len(arg) for arg in args)]).tolist()
    return [g[start:stop] for start, stop in pairwise(ends)]


def _slice(op: Op, args: Sequence[Array], y: Array, g: Array) -> Sequence[Array]:
    whole = np.zeros_like(args[0])
    whole[int(op.attr[0]) : int(op.attr[1])] = g
    return [whole]


def _spread(op: Op, args: Sequence[Array], y: Array, g: Array) -> Sequence[Array]:
    inner = tuple(map(int, op.attr[: len(op.shape)]))
    return [_summed_to(g, inner).reshape(args[0].shape)]


def _nothing(op: Op, args: Sequence[Array], y: Array, g: Array) -> Sequence[float]:
    return [0.0] * len(args)


# The derivative of every operation that cells are made of.
VJP: Mapping[str, Vjp] = {
    "add": lambda op, args, y, g: [g, g],
    "sub": lambda op, args, y, g: [g, -g],
    "mul": lambda op, args, y, g: [g * args[1], g * args[0]],
    "div": lambda op, args, y, g: [g / args[1], -g * args[0] / args[1] ** 2],
    "matmul": _matmul,
    "neg": _of_one(lambda x, y: -1.0),
    "sigmoid": _of_one(lambda x, y: _logistic(x) * _logistic(-x)),
    "tanh": _of_one(lambda x, y: 1 / np.cosh(x) ** 2),
    "relu": _of_one(lambda x, y: np.asarray(x > 0, np.float64)),
    "exp": _of_one(lambda x, y: np.exp(x)),
    "log": _of_one(lambda x, y: 1 / x),
    "sqrt": _of_one(lambda x, y: 0.5 * x**-0.5),
    "rsqrt": _of_one(lambda x, y: -0.5 * x**-1.5),
    "square": _of_one(lambda x, y: 2 * x),
    "abs": _of_one(lambda x, y: np.sign(x)),
    "silu": _of_one(lambda x, y: _logistic(x) * (1 + x * _logistic(-x))),
    "gelu": _of_one(_gelu),
    "erf": _of_one(lambda x, y: 2 / math.sqrt(math.pi) * np.exp(-(x**2))),
    "sin": _of_one(lambda x, y: np.cos(x)),
    "cos": _of_one(lambda x, y: -np.sin(x)),
    "floor": _nothing,
    "ceil": _nothing,
    "round": _nothing,
    "sign": _nothing,
    "softplus": _of_one(lambda x, y: _logistic(x)),
    "elu": _elu,
    "leaky_relu": lambda op, args, y, g: [
        g * np.where(args[0] > 0, 1, args[1]),
        g * np.minimum(args[0], 0),
    ],
    "maximum": _extreme(1),
    "minimum": _extreme(-1),
    "lt": _nothing,
    "le": _nothing,
    "gt": _nothing,
    "ge": _nothing,
    "eq": _nothing,
    "ne": _nothing,
    "where": lambda op, args, y, g: [0.0, g * (args[0] != 0), g * (args[0] == 0)],
    "softmax": _softmax,
    "sum": lambda op, args, y, g: [np.broadcast_to(_reduced(op, g), args[0].shape)],
    "max": _max,
    "concat": _concat,
    "slice": _slice,
    "transpose": lambda op, args, y, g: [g.T],
    "reshape": lambda op, args, y, g: [g.reshape(args[0].shape)],
    "spread": _spread,
    "constant": _nothing,
    "identity": lambda op, args, y, g: [g],
}
