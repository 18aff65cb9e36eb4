"""A cell's operations in the making: shapes inferred and checked, arithmetic on constants done at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from abw.core.ir.cell import Op
from abw.core.ir.meanings import Arrays
from abw.core.ir.operations import OPERATIONS, Operation
from abw.core.ir.shapes import ShapeError, Sizes, shape


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


class Builder:
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

    def apply(self, name: str, args: Sequence[Operand]) -> Operand:
        """The result of an operation. Errors: ShapeError."""
        if any(arg is None for arg in args):
            return None
        operation, known = OPERATIONS[name], cast(Sequence[Number | Value], args)
        if name == "div" and known[1] == Number(0.0):
            raise ShapeError("division by zero")
        numbers = [arg.value for arg in known if isinstance(arg, Number)]
        if len(numbers) == len(known):
            return Number(_fold(operation, numbers))
        if numbers and operation.kind != "element":
            hint = "multiply with * instead" if name == "matmul" else ""
            raise ShapeError(f"a number ({numbers[0]:g}) is neither vector nor matrix", hint)
        values = [arg.sizes for arg in known if isinstance(arg, Value)]
        sizes = operation.rule(operation.sign or name, values)
        return self._emit(name, [self._value(arg) for arg in known], sizes)

    def slice(self, value: Operand, start: int, stop: int | None) -> Operand:
        """Part of a vector, or rows of a matrix; to the end where `stop` is None. Errors: ShapeError."""
        if value is None:
            return None
        if isinstance(value, Number):
            raise ShapeError("a number has no parts")
        attr = float(start), float(value.sizes[0].value if stop is None else stop)
        sizes = OPERATIONS["slice"].rule("slice", [value.sizes], *attr)
        return self._emit("slice", [value.number], sizes, attr)

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

    def _emit(self, name: str, args: Sequence[int], sizes: Sizes, attr: tuple[float, ...] = ()) -> Value:
        self.ops.append(Op(name, tuple(args), shape(sizes), attr))
        return Value(self.next - 1, sizes)


def _fold(operation: Operation, values: Sequence[float]) -> float:
    if operation.kind != "element":
        raise ShapeError(f"{operation.name} needs vectors or matrices, not numbers")
    import numpy as np  # reading a spec needs it for nothing else

    with np.errstate(all="ignore"):
        result = float(operation.meaning(Arrays(np), *map(np.float64, values)))
    if not math.isfinite(result):
        raise ShapeError("the number is too large")
    return result
