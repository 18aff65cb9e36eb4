"""The table of operations, which parser, executors and docs read: form, shape and meaning of each.

A meaning is given once, as a function of an array library `xp` and the arguments. With NumPy it is what the
reference executor does. That of an element-wise operation can also be spelled step by step (`meanings.py`):
every back end that has code for the steps has the operation, unless it has better code of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any, Literal

from abw.core.ir.shapes import Sizes, joined, part, product, same, turned

Kind = Literal["element", "row", "product", "copy"]
"""Element by element (a number fits any shape), along rows, products of matrices, or no arithmetic at all."""


@dataclass(frozen=True, slots=True)
class Form:
    """How an operation is written in an equation; `args` and `result` are sizes, as in a cell's `inputs`.

    `any` stands for every shape, the same throughout.
    """

    text: str
    args: tuple[str, ...]
    result: str
    meaning: str


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of cells. One without forms is not written by users: it is made from what they write.

    `rule(written, sizes, *attr)` gives the shape (see `shapes`), `meaning(xp, *args, *attr)` the value.
    `several`: it may have more arguments than its forms show.
    """

    name: str
    kind: Kind
    forms: tuple[Form, ...]
    rule: Callable[..., Sizes]
    meaning: Callable[..., Any]
    sign: str = ""
    several: bool = False


def _element(name: str, form: str, words: str, meaning: Callable[..., Any], sign: str = "") -> Operation:
    """An element-wise operation, of the arguments that its meaning has behind `xp`."""
    args = ("any",) * (len(signature(meaning).parameters) - 1)
    words += "; either side may be a number" if sign else ""
    return Operation(name, "element", (Form(form, args, "any", words),), same, meaning, sign)


def _softmax(xp: Any, x: Any) -> Any:  # noqa: ANN401
    """Over the last axis; shifted by the largest, which changes nothing but the range."""
    most = x.max(axis=-1, keepdims=True)
    shifted = x - most
    # of a large difference, rounding takes more than the last digits of its exponential
    back = shifted - x
    lost = (x - (shifted - back)) - (most + back)
    e = xp.exp(shifted) * (1 + xp.where(abs(lost) < 1, lost, 0.0))
    return e / e.sum(axis=-1, keepdims=True)


OPERATIONS: Mapping[str, Operation] = {operation.name: operation for operation in (
    _element("add", "x + y", "sum", lambda xp, x, y: x + y, "+"),
    _element("sub", "x - y", "difference", lambda xp, x, y: x - y, "-"),
    _element("mul", "x * y", "product of elements", lambda xp, x, y: x * y, "*"),
    _element("div", "x / y", "quotient of elements", lambda xp, x, y: x / y, "/"),
    Operation("matmul", "product", (
        Form("A @ x", ("[m, n]", "n"), "m", "matrix times vector"),
        Form("A @ B", ("[m, n]", "[n, k]"), "[m, k]", "matrix times matrix"),
    ), product, lambda xp, a, b: a @ b, "@"),
    _element("neg", "-x", "the negative", lambda xp, x: -x),
    _element("sigmoid", "sigmoid(x)", "1 / (1 + exp(-x))", lambda xp, x: 1 / (1 + xp.exp(-x))),
    _element("tanh", "tanh(x)", "hyperbolic tangent", lambda xp, x: xp.tanh(x)),
    _element("relu", "relu(x)", "the larger of x and 0", lambda xp, x: xp.where(x < 0, 0, x)),
    _element("exp", "exp(x)", "exponential", lambda xp, x: xp.exp(x)),
    Operation("softmax", "row", (
        Form("softmax(x)", ("any",), "any", "exp(x) over its sum; of a matrix, row by row"),
    ), same, _softmax),
    Operation("concat", "copy", (
        Form("concat(x, y)", ("m", "n"), "m + n", "one behind the other, two or more"),
        Form("concat(A, B)", ("[m, n]", "[k, n]"), "[m + k, n]", "one below the other, two or more"),
    ), joined, lambda xp, *parts: xp.concatenate(parts), several=True),
    Operation("slice", "copy", (
        Form("x[m:n]", ("n",), "n - m", "from m up to n, without n; either may be left out"),
        Form("A[m:n]", ("[n, k]",), "[n - m, k]", "rows m up to n"),
    ), part, lambda xp, x, start, stop: x[int(start) : int(stop)]),
    Operation("transpose", "copy", (
        Form("transpose(A)", ("[m, n]",), "[n, m]", "rows as columns"),
    ), turned, lambda xp, a: xp.swapaxes(a, -1, -2)),
    Operation("constant", "copy", (), lambda *_: (), lambda xp, value: value),
    Operation("identity", "copy", (), same, lambda xp, x: x),
)}  # fmt: skip
"""Every operation by its name."""

SIGNS: Mapping[str, Operation] = {o.sign: o for o in OPERATIONS.values() if o.sign}
"""The operations that are written as a sign between two arguments."""
FUNCTIONS: Mapping[str, Operation] = {
    o.name: o for o in OPERATIONS.values() if o.forms and o.forms[0].text.startswith(f"{o.name}(")
}
"""The operations that are written as a name with arguments in parentheses."""
