"""The operations of cells as they are written: form, shapes and meaning, for docs and editors."""

from __future__ import annotations

from dataclasses import dataclass

from abw.core.spec.cell import OpName


@dataclass(frozen=True, slots=True)
class Written:
    """How an operation is written in an equation; `args` and `result` are sizes, as in a cell's `inputs`.

    `any` stands for every shape, the same throughout.
    """

    op: OpName
    form: str
    args: tuple[str, ...]
    result: str
    meaning: str


OPERATIONS: tuple[Written, ...] = (
    Written("matmul", "A @ x", ("[m, n]", "n"), "m", "matrix times vector"),
    Written("matmul", "A @ B", ("[m, n]", "[n, k]"), "[m, k]", "matrix times matrix"),
    Written("add", "x + y", ("any", "any"), "any", "sum; either side may be a number"),
    Written("sub", "x - y", ("any", "any"), "any", "difference; either side may be a number"),
    Written("mul", "x * y", ("any", "any"), "any", "product of elements; either side may be a number"),
    Written("div", "x / y", ("any", "any"), "any", "quotient of elements; either side may be a number"),
    Written("neg", "-x", ("any",), "any", "the negative"),
    Written("sigmoid", "sigmoid(x)", ("any",), "any", "1 / (1 + exp(-x))"),
    Written("tanh", "tanh(x)", ("any",), "any", "hyperbolic tangent"),
    Written("relu", "relu(x)", ("any",), "any", "the larger of x and 0"),
    Written("exp", "exp(x)", ("any",), "any", "exponential"),
    Written("softmax", "softmax(x)", ("any",), "any", "exp(x) over its sum; of a matrix, row by row"),
    Written("concat", "concat(x, y)", ("m", "n"), "m + n", "one behind the other, two or more"),
    Written("concat", "concat(A, B)", ("[m, n]", "[k, n]"), "[m + k, n]", "one below the other, two or more"),
    Written("slice", "x[m:n]", ("n",), "n - m", "from m up to n, without n; either may be left out"),
    Written("slice", "A[m:n]", ("[n, k]",), "[n - m, k]", "rows m up to n"),
    Written("transpose", "transpose(A)", ("[m, n]",), "[n, m]", "rows as columns"),
)
"""Every operation that a user writes, in every form that its shapes allow."""
