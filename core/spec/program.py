"""A cell's operations in the making: shapes inferred and checked, arithmetic on constants done at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import cast

from abw.core.spec.cell import ELEMENTWISE, Op, OpName
from abw.core.spec.sizes import MOST_NUMBERS, Size, Sizes, shape, show


@dataclass(frozen=True, slots=True)
class Number:
    """A constant that is not yet an operation."""

    value: float


@dataclass(frozen=True, slots=True)
class Value:
    """A vector or matrix by its value number."""

    number: int
    sizes: Sizes


Operand = Number | Value | None
"""None stands for what an earlier mistake left unknown: no further ones follow from it."""

SIGNS: dict[str, OpName] = {"+": "add", "-": "sub", "*": "mul", "/": "div", "@": "matmul"}
UNARY: tuple[OpName, ...] = ("sigmoid", "tanh", "relu", "exp", "softmax", "transpose")
FUNCTIONS: dict[str, OpName] = {**{name: name for name in UNARY}, "concat": "concat"}


class ShapeError(Exception):
    """Operands that do not fit."""

    def __init__(self, message: str, hint: str = "") -> None:
        """A message with the shapes in it."""
        super().__init__(message)
        self.message = message
        self.hint = hint


class Program:
    """Operations in the order in which they are written, numbered from `first`."""

    def __init__(self, first: int) -> None:
        """Nothing yet."""
        self.first = first
        self.ops: list[Op] = []
        self._constants: dict[float, int] = {}

    def label(self, value: Value, name: str, since: int) -> None:
        """Name a value after the variable it is written to, if it was made at `since` or later."""
        if value.number >= since:
            at = value.number - self.first
            self.ops[at] = replace(self.ops[at], label=name)

    @property
    def next(self) -> int:
        """The number of the next value."""
        return self.first + len(self.ops)

    def apply(self, name: OpName, args: Sequence[Operand]) -> Operand:
        """The result of an operation. Errors: ShapeError."""
        if any(arg is None for arg in args):
            return None
        known = cast(Sequence[Number | Value], args)
        if all(isinstance(arg, Number) for arg in known):
            return Number(_fold(name, [arg.value for arg in known if isinstance(arg, Number)]))
        if name == "div" and known[1] == Number(0.0):
            raise ShapeError("division by zero")
        sizes = _infer(name, known)
        return self._emit(name, [self._value(arg) for arg in known], sizes)

    def slice(self, value: Operand, start: int, stop: int | None) -> Operand:
        """Part of a vector, or rows of a matrix; to the end where `stop` is None. Errors: ShapeError."""
        if value is None:
            return None
        if isinstance(value, Number):
            raise ShapeError("a number has no parts")
        length = value.sizes[0].value
        stop = length if stop is None else stop
        if not 0 <= start < stop <= length:
            raise ShapeError(
                f"{start}:{stop} is not inside {show(value.sizes)}", f"0 <= start < stop <= {length}"
            )
        sizes = (Size(stop - start, str(stop - start)), *value.sizes[1:])
        return self._emit("slice", [value.number], sizes, (float(start), float(stop)))

    def identity(self, value: Value, name: str) -> Value:
        """A value of its own that equals another."""
        result = self._emit("identity", [value.number], value.sizes)
        self.label(result, name, result.number)
        return result

    def _value(self, arg: Number | Value) -> int:
        if isinstance(arg, Value):
            return arg.number
        if arg.value not in self._constants:
            self._constants[arg.value] = self._emit("constant", [], (), (arg.value,)).number
        return self._constants[arg.value]

    def _emit(self, name: OpName, args: Sequence[int], sizes: Sizes, attr: tuple[float, ...] = ()) -> Value:
        self.ops.append(Op(name, tuple(args), shape(sizes), attr))
        return Value(self.next - 1, sizes)


def _infer(name: OpName, args: Sequence[Number | Value]) -> Sizes:
    """The result's sizes, where not all arguments are numbers. Errors: ShapeError with the sizes in it."""
    if name in ELEMENTWISE:
        return _same(name, [arg for arg in args if isinstance(arg, Value)])
    numbers = [arg for arg in args if isinstance(arg, Number)]
    if numbers:
        hint = "multiply with * instead" if name == "matmul" else ""
        raise ShapeError(f"a number ({numbers[0].value:g}) is neither vector nor matrix", hint)
    values = [arg.sizes for arg in args if isinstance(arg, Value)]
    match name:
        case "matmul":
            return _product(*values)
        case "concat":
            return _joined(values)
        case "transpose":
            if len(values[0]) != 2:
                raise ShapeError(f"{show(values[0])} is no matrix")
            return values[0][::-1]
        case _:
            return values[0]


def _same(name: OpName, values: Sequence[Value]) -> Sizes:
    first = values[0].sizes
    for other in values[1:]:
        if shape(other.sizes) != shape(first):
            sign = next(sign for sign, op in SIGNS.items() if op == name)
            hint = (
                "for a matrix times a vector write @"
                if len(first) != len(other.sizes) and sign == "*"
                else ""
            )
            raise ShapeError(f"{show(first)} {sign} {show(other.sizes)}: the sizes differ", hint)
    return first


def _product(left: Sizes, right: Sizes) -> Sizes:
    shown = f"{show(left)} @ {show(right)}"
    if len(left) != 2:
        raise ShapeError(f"{shown}: the left side must be a matrix", "element by element: *")
    if left[1].value != right[0].value:
        turned = len(right) == 1 and left[0].value == right[0].value
        raise ShapeError(f"{shown}: the inner sizes differ", "transpose the matrix?" if turned else "")
    return (left[0], *right[1:])


def _joined(values: Sequence[Sizes]) -> Sizes:
    if len({shape(value)[1:] for value in values}) > 1:
        shown = ", ".join(map(show, values))
        raise ShapeError(f"{shown}: only the first sizes may differ")
    length = sum(value[0].value for value in values)
    result = (Size(length, str(length)), *values[0][1:])
    if math.prod(shape(result)) > MOST_NUMBERS:
        raise ShapeError(f"{show(result)} is too large")
    return result


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x >= 0 else 1 - 1 / (1 + math.exp(x))


_ARITHMETIC: dict[str, Callable[..., float]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "neg": lambda a: -a,
    "sigmoid": _sigmoid,
    "tanh": math.tanh,
    "relu": lambda a: max(a, 0.0),
    "exp": math.exp,
}


def _fold(name: OpName, values: Sequence[float]) -> float:
    if name not in _ARITHMETIC:
        raise ShapeError(f"{name} needs vectors or matrices, not numbers")
    try:
        result = _ARITHMETIC[name](*values)
    except ZeroDivisionError:
        raise ShapeError("division by zero") from None
    except OverflowError:
        result = math.inf
    if not math.isfinite(result):
        raise ShapeError("the number is too large")
    return float(result)
