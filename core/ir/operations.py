"""The table of operations, which parser, executors and docs read: form, shape and meaning of each.

A meaning is given once, as a function of an array library `xp` and the arguments. With NumPy it is what the
reference executor does. That of an element-wise operation can also be spelled step by step (`spell`):
every back end that has code for the steps has the operation, unless it has better code of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from inspect import signature
from types import ModuleType
from typing import Any, Literal, TypeVar

from abw.core.ir import formulas
from abw.core.ir.shapes import (
    Sizes,
    broadcast,
    joined,
    one_axis,
    part,
    product,
    reduced,
    regrouped,
    same,
    shaped,
    sized,
    turned,
    two_vectors,
)

# Element by element (a number fits any shape), along rows or columns, products of matrices, no arithmetic at
# all, or made of others before anything is computed.
Kind = Literal["element", "row", "product", "copy", "composite"]


@dataclass(frozen=True, slots=True)
class Form:
    """How an operation is written in an equation; `args` and `result` are sizes, as in a cell's `inputs`.

    `any` stands for every shape, the same throughout. Arguments beyond `args` are numbers.
    """

    text: str
    args: tuple[str, ...]
    result: str
    meaning: str

    @property
    def arity(self) -> int:
        """How many arguments are written."""
        return self.text.count(",") + 1


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of cells. One without forms is not written by users: it is made from what they write.

    `rule(written, sizes, *attr)` gives the shape (see `shapes`), `meaning(xp, *args, *attr)` the value.
    `several`: it may have more arguments than its forms show. `attr(sizes, numbers)`: what the numbers
    behind a value of these sizes mean. `default`: the arguments that may be left out.

    That of a composite calls other operations, with numbers as Python's: it is in no cell, and its rule says
    no more than whether its arguments fit.
    """

    name: str
    kind: Kind
    forms: tuple[Form, ...]
    rule: Callable[..., Sizes]
    meaning: Callable[..., Any]
    sign: str = ""
    several: bool = False
    attr: Callable[..., tuple[float, ...]] | None = None
    default: tuple[float, ...] = ()


def _element(
    name: str,
    form: str,
    words: str,
    meaning: Callable[..., Any],
    sign: str = "",
    default: float | None = None,
) -> Operation:
    """An element-wise operation, of the arguments that its meaning has behind `xp`."""
    args = ("any",) * (len(signature(meaning).parameters) - 1)
    forms = [Form(form, args, "any", words)]
    if default is not None:
        forms.insert(0, Form(form.replace(", y", ""), args[:-1], "any", f"{words}, where y is {default:g}"))
    left_out = () if default is None else (default,)
    return Operation(name, "element", tuple(forms), broadcast, meaning, sign, default=left_out)


def _row(name: str, meaning: Callable[..., Any]) -> Operation:
    """Reduce all elements to one number, or each column or row of a matrix."""
    return Operation(name, "row", _along(name), reduced, meaning, attr=one_axis)


def _along(name: str) -> tuple[Form, ...]:
    """The forms of a reduction."""
    return (
        Form(f"{name}(x)", ("any",), "1", "over all elements"),
        Form(f"{name}(A, 0)", ("[m, n]",), "n", "over each column"),
        Form(f"{name}(A, 1)", ("[m, n]",), "m", "over each row"),
    )


def _composite(
    name: str,
    forms: tuple[Form, ...],
    meaning: Callable[..., Any],
    rule: Callable[..., Sizes] | None = None,
    sign: str = "",
) -> Operation:
    """What is made of other operations."""
    return Operation(name, "composite", forms, rule or (lambda *_: ()), meaning, sign)


AS_NUMPY = "as in NumPy"
# Every operation by its name.
OPERATIONS: Mapping[str, Operation] = {operation.name: operation for operation in (
    _element("add", "x + y", AS_NUMPY, lambda xp, x, y: x + y, "+"),
    _element("sub", "x - y", AS_NUMPY, lambda xp, x, y: x - y, "-"),
    _element("mul", "x * y", AS_NUMPY, lambda xp, x, y: x * y, "*"),
    _element("div", "x / y", AS_NUMPY, lambda xp, x, y: x / y, "/"),
    Operation("matmul", "product", (
        Form("A @ x", ("[m, n]", "n"), "m", "matrix times vector"),
        Form("A @ B", ("[m, n]", "[n, k]"), "[m, k]", "matrix times matrix"),
    ), product, lambda xp, a, b: a @ b, "@"),
    _element("neg", "-x", AS_NUMPY, lambda xp, x: -x),
    _element("sigmoid", "sigmoid(x)", "1 / (1 + exp(-x))", lambda xp, x: 1 / (1 + xp.exp(-x))),
    _element("tanh", "tanh(x)", AS_NUMPY, lambda xp, x: xp.tanh(x)),
    _element("relu", "relu(x)", "max(x, 0)", lambda xp, x: xp.where(x < 0, 0, x)),
    _element("exp", "exp(x)", AS_NUMPY, lambda xp, x: xp.exp(x)),
    _element("log", "log(x)", AS_NUMPY, lambda xp, x: xp.log(x)),
    _element("sqrt", "sqrt(x)", AS_NUMPY, lambda xp, x: xp.sqrt(x)),
    _element("rsqrt", "rsqrt(x)", "1 / sqrt(x)", lambda xp, x: 1 / xp.sqrt(x)),
    _element("square", "square(x)", AS_NUMPY, lambda xp, x: x * x),
    _element("abs", "abs(x)", AS_NUMPY, lambda xp, x: xp.where(x > 0, x, 0 - x)),
    _element("silu", "silu(x)", "x * sigmoid(x)", formulas.silu),
    _element("gelu", "gelu(x)", "x * Φ(x), the exact GELU", formulas.gelu),
    _element("erf", "erf(x)", "the error function", formulas.erf),
    _element("sin", "sin(x)", f"of radians; not a number beyond {formulas.MOST_TURNED:,.0f}",
             lambda xp, x: formulas.sine(xp, x)),
    _element("cos", "cos(x)", f"of radians; not a number beyond {formulas.MOST_TURNED:,.0f}",
             lambda xp, x: formulas.sine(xp, x, 1.0)),
    _element("floor", "floor(x)", AS_NUMPY, lambda xp, x: xp.floor(x)),
    _element("ceil", "ceil(x)", AS_NUMPY, lambda xp, x: -xp.floor(-x)),
    _element("round", "round(x)", AS_NUMPY, formulas.nearest),
    _element("sign", "sign(x)", AS_NUMPY, lambda xp, x: xp.where(x > 0, 1.0, xp.where(x < 0, -1.0, x))),
    _element("softplus", "softplus(x)", "log(1 + exp(x))", formulas.softplus),
    _element("elu", "elu(x, y)", "x; y * (exp(x) - 1) below 0", formulas.elu, default=1.0),
    _element("leaky_relu", "leaky_relu(x, y)", "x; y * x below 0",
             lambda xp, x, y: xp.where(x < 0, y * x, x), default=0.01),
    _element("maximum", "maximum(x, y)", AS_NUMPY,
             lambda xp, x, y: xp.where(x > y, x, xp.where(x == x, y, x))),
    _element("minimum", "minimum(x, y)", AS_NUMPY,
             lambda xp, x, y: xp.where(x < y, x, xp.where(x == x, y, x))),
    _element("lt", "x < y", "1 if true, otherwise 0", lambda xp, x, y: xp.where(x < y, 1.0, 0.0), "<"),
    _element("le", "x <= y", "1 if true, otherwise 0", lambda xp, x, y: xp.where(x <= y, 1.0, 0.0), "<="),
    _element("gt", "x > y", "1 if true, otherwise 0", lambda xp, x, y: xp.where(x > y, 1.0, 0.0), ">"),
    _element("ge", "x >= y", "1 if true, otherwise 0", lambda xp, x, y: xp.where(x >= y, 1.0, 0.0), ">="),
    _element("eq", "x == y", "1 if true, otherwise 0", lambda xp, x, y: xp.where(x == y, 1.0, 0.0), "=="),
    _element("ne", "x != y", "1 if true, otherwise 0", lambda xp, x, y: xp.where(x == y, 0.0, 1.0), "!="),
    _element("where", "where(z, x, y)", "x if z is not 0, otherwise y",
             lambda xp, z, x, y: xp.where(z == 0, y, x)),
    Operation("softmax", "row", (
        Form("softmax(x)", ("any",), "any", "exp(x) / sum(exp(x)); a matrix row by row"),
        Form("softmax(A, 0)", ("[m, n]",), "[m, n]", "column by column"),
    ), same, formulas.softmax, attr=one_axis),
    _row("sum", lambda xp, x, axis, keep: xp.sum(x, axis=int(axis), keepdims=bool(keep))),
    _row("max", lambda xp, x, axis, keep: xp.amax(x, axis=int(axis), keepdims=bool(keep))),
    _composite("pow", (
        Form("x ** y", ("any", "any"), "any",
             "x to the power of y; NaN for negative x, unless y is a whole number written out"),
    ), formulas.power, broadcast, "**"),
    _composite("min", _along("min"), formulas.smallest),
    _composite("mean", _along("mean"), formulas.mean),
    _composite("var", _along("var"), formulas.var),
    _composite("std", _along("std"), formulas.std),
    _composite("norm", _along("norm"), formulas.norm),
    _composite("dot", (
        Form("dot(x, y)", ("n", "n"), "1", "the sum of x * y"),
    ), formulas.dot, two_vectors),
    _composite("outer", (
        Form("outer(x, y)", ("m", "n"), "[m, n]", "each element of x times each of y"),
    ), formulas.outer, two_vectors),
    _composite("layernorm", (
        Form("layernorm(x, y, z)", ("any", "any", "any"), "any",
             "(x - mean(x)) / sqrt(variance + 1e-5) * y + z; a matrix row by row"),
        Form("layernorm(x, y, z, 1e-6)", ("any", "any", "any"), "any", "with 1e-6 instead of 1e-5"),
    ), formulas.layernorm),
    _composite("softmax_down", (), formulas.softmax_down),
    Operation("concat", "copy", (
        Form("concat(x, y)", ("m", "n"), "m + n", "concatenation of two or more"),
        Form("concat(A, B)", ("[m, n]", "[k, n]"), "[m + k, n]", "one below the other, two or more"),
    ), joined, lambda xp, *parts: xp.concatenate(parts), several=True),
    Operation("slice", "copy", (
        Form("x[m:n]", ("n",), "n - m", "elements m to n - 1; either bound may be omitted"),
        Form("A[m:n]", ("[n, k]",), "[n - m, k]", "rows m to n - 1"),
    ), part, lambda xp, x, start, stop: x[int(start) : int(stop)]),
    Operation("transpose", "copy", (
        Form("transpose(A)", ("[m, n]",), "[n, m]", "transposed"),
    ), turned, lambda xp, a: xp.swapaxes(a, -1, -2)),
    Operation("reshape", "copy", (
        Form("reshape(x, m, n)", ("m * n",), "[m, n]", "the elements in another shape; sizes as in slices"),
        Form("reshape(A, m * n)", ("[m, n]",), "m * n", "rows one after the other"),
    ), regrouped, formulas.reshape, attr=shaped),
    Operation("spread", "copy", (), sized, formulas.spread),
    Operation("constant", "copy", (), lambda *_: (), formulas.constant),
    Operation("identity", "copy", (), same, lambda xp, x: x),
)}  # fmt: skip

# The operations that are written as a sign between two arguments.
SIGNS: Mapping[str, Operation] = {o.sign: o for o in OPERATIONS.values() if o.sign}
# The operations that are written as a name with arguments in parentheses.
FUNCTIONS: Mapping[str, Operation] = {
    o.name: o for o in OPERATIONS.values() if o.forms and o.forms[0].text.startswith(f"{o.name}(")
}

# Functions of NumPy and PyTorch that cells have by another name, or not at all, and what to write.
ELSEWHERE: Mapping[str, str] = {
    **dict.fromkeys(("clip", "clamp"), "minimum(maximum(x, low), high)"),
    **dict.fromkeys(("cat", "concatenate", "stack", "hstack", "vstack"), "concat(x, y), or reshape"),
    **dict.fromkeys(("view", "unsqueeze", "squeeze", "expand_dims", "flatten", "ravel"), "reshape(x, m, n)"),
    **dict.fromkeys(("matmul", "mm", "mv", "bmm", "inner", "linear"), "W @ x, or dot(x, y)"),
    **dict.fromkeys(("pow", "power"), "x ** y"),
    "cumsum": "L @ x, where the constant L has ones up to its diagonal",
    "trunc": "sign(x) * floor(abs(x))",
    **dict.fromkeys(
        ("zeros", "ones", "full", "eye"), "a constant of the cell: constants: {ones: {shape: n, value: 1}}"
    ),
    **dict.fromkeys(("argmax", "argmin"), "choose: {best: argmax TYPE.OUTPUT} in a model"),
    **dict.fromkeys(("swish", "hardswish"), "silu(x)"),
    **dict.fromkeys(("layer_norm", "LayerNorm"), "layernorm(x, gain, bias)"),
    "amax": "max(x)",
    "amin": "min(x)",
    "reciprocal": "1 / x",
    "log_softmax": "x - max(x) - log(sum(exp(x - max(x))))",
}


T = TypeVar("T")


class Arrays:
    """An array library, NumPy or PyTorch, extended by the table's operations."""

    def __init__(self, library: ModuleType) -> None:
        """Its functions take and give arrays."""
        self._library = library

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._library, name, None) or partial(OPERATIONS[name].meaning, self)


def spell(
    name: str,
    args: Sequence[T | float],
    own: Container[str],
    do: Callable[[str, Sequence[T]], T],
    number: Callable[[float], T],
) -> T:
    """The result of an element-wise operation by a back end that has code for the names in `own`.

    `do(name, args)` is called for the operation itself where it is one of these, else for each step of its
    meaning; `number` gives constants. Besides operations of the table there are the steps `less(a, b)`,
    `less_equal(a, b)` and `equal(a, b)`, conditions, and `select(condition, yes, no)`. Arguments that are
    Python's numbers stay so. Errors: ValueError for what is neither in `own` nor made of others.
    """
    speller = _Speller(own, do, number)
    terms = (value if type(value) is float else _Term(speller, value) for value in args)
    result: T = speller.apply(name, *terms).value
    return result


@dataclass(frozen=True, slots=True)
class _Speller:
    """The `xp` that does each step by a back end's means."""

    own: Container[str]
    do: Callable[[str, Sequence[Any]], Any]
    number: Callable[[float], Any]
    spelled: tuple[str, ...] = ()

    def __getattr__(self, name: str) -> Callable[..., _Term]:
        return partial(self.apply, name)

    def where(self, condition: _Term, yes: _Term | float, no: _Term | float) -> _Term:
        return self.apply("select", condition, yes, no)

    def apply(self, name: str, *args: _Term | float) -> _Term:
        if name in self.own:
            values = [a.value if isinstance(a, _Term) else self.number(a) for a in args]
            return _Term(self, self.do(name, values))
        if name not in OPERATIONS or name in self.spelled:
            raise ValueError(f"no code for '{name}', which is made of nothing else")
        result: _Term = OPERATIONS[name].meaning(replace(self, spelled=(*self.spelled, name)), *args)
        return result


def _both(name: str) -> tuple[Callable[..., _Term], Callable[..., _Term]]:
    """A sign with a term on its left, and the same sign with a term on its right."""
    return (
        lambda term, other: term.speller.apply(name, term, other),
        lambda term, other: term.speller.apply(name, other, term),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Term:
    """A back end's value, on which the signs of Python work."""

    speller: _Speller
    value: Any

    __add__, __radd__ = _both("add")
    __sub__, __rsub__ = _both("sub")
    __mul__, __rmul__ = _both("mul")
    __truediv__, __rtruediv__ = _both("div")
    __lt__, __gt__ = _both("less")
    __le__, __ge__ = _both("less_equal")
    __eq__, _ = _both("equal")  # type: ignore[assignment]

    @property
    def shape(self) -> Any:  # noqa: ANN401
        """The shape of a value that has one."""
        return self.value.shape

    def __neg__(self) -> _Term:
        return self.speller.apply("neg", self)
