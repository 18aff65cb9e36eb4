"""A cell's operations in the making: shapes inferred and checked, arithmetic on constants done at once."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

from abw.core.ir.cell import Op, Shape
from abw.core.ir.operations import OPERATIONS, Arrays, Operation, spell
from abw.core.ir.shapes import ShapeError, Sizes, broadcast, shape

# The operations that the steps of a composite's meaning are (see `abw.core.ir.operations.spell`).
STEPS = {"select": "where", "less": "lt", "less_equal": "le", "equal": "eq"}
PRIMITIVE = {*STEPS, *(operation.name for operation in OPERATIONS.values() if operation.kind != "composite")}


@dataclass(frozen=True, slots=True)
class Number:
    """A constant that is not yet an operation."""

    value: float

    @property
    def shape(self) -> Shape:
        """The shape of a number."""
        return ()


@dataclass(frozen=True, slots=True)
class Value:
    """A vector or matrix by its value number."""

    number: int
    sizes: Sizes

    @property
    def shape(self) -> Shape:
        """The sizes as numbers."""
        return shape(self.sizes)


@dataclass(frozen=True, slots=True)
class Listed:
    """A vector or matrix of numbers, given row after row."""

    sizes: Sizes
    values: tuple[float, ...]


# None stands for what an earlier mistake left unknown: no further ones follow from it.
Operand = Number | Value | None


class Builder:
    """Operations in the order in which they are written, numbered from `first`."""

    def __init__(self, first: int) -> None:
        """Begin without operations."""
        self.first = first
        self.ops: list[Op] = []
        self._constants: dict[float, int] = {}
        self._spread: dict[tuple[int, Shape], int] = {}
        self._reshaped: dict[int, Value] = {}

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
        operation, known = OPERATIONS[name], list(cast(Sequence[Number | Value], args))
        if name == "div" and known[1] == Number(0.0):
            raise ShapeError("division by zero")
        if operation.default and len(known) < operation.forms[-1].arity:
            known += map(Number, operation.default)
        numbers = [arg.value for arg in known if isinstance(arg, Number)]
        values = [arg.sizes for arg in known if isinstance(arg, Value)]
        if not values:
            return Number(_fold(operation, numbers))
        if operation.attr or operation.kind == "composite":
            return self._made(operation, known)
        if numbers and operation.kind != "element":
            hint = "multiply with * instead" if name == "matmul" else ""
            raise ShapeError(f"a number ({numbers[0]:g}) is neither vector nor matrix", hint)
        try:
            sizes = operation.rule(operation.sign or name, values)
        except ShapeError as mismatch:
            if not any(self._scaled(arg) for arg in known):
                raise
            hint = (
                "did you mean @? * multiplies a matrix by a vector element by element, which gives a matrix"
            )
            raise ShapeError(mismatch.message, hint) from None
        fit = self._broadcast if operation.kind == "element" else self._value
        return self._emit(name, [fit(arg, sizes) for arg in known], sizes)

    def _scaled(self, arg: Number | Value) -> bool:
        """Whether a value is a matrix times a vector, element by element."""
        op = self._op(arg.number) if isinstance(arg, Value) and len(arg.sizes) == 2 else None
        factors = [self._op(number) for number in op.args] if op and op.name == "mul" else []
        return any(factor and factor.name == "spread" and factor.attr[0] == 1.0 for factor in factors)

    def _op(self, number: int) -> Op | None:
        """The operation that made a value; None for what is given."""
        return self.ops[number - self.first] if number >= self.first else None

    def _made(self, operation: Operation, args: Sequence[Number | Value]) -> Value:
        """What is made of others, or of one value by numbers behind it. Errors: ShapeError."""
        name, first = operation.name, args[0]
        if isinstance(first, Number) and operation.rule is not broadcast:
            raise ShapeError(f"a number ({first.value:g}) is neither vector nor matrix")
        if operation.kind == "composite":
            operation.rule(operation.sign or name, [arg.sizes for arg in args if isinstance(arg, Value)])
            return self._composed(name, [arg.value if isinstance(arg, Number) else arg for arg in args])
        first = cast(Value, first)
        numbers = [arg.value for arg in args[1:] if isinstance(arg, Number)]
        if len(numbers) < len(args) - 1:
            hint = "element by element: maximum(x, y)" if name == "max" else ""
            raise ShapeError("only the first argument is a value, the others are numbers", hint)
        if name in ("sum", "max") and len(first.sizes) == 2 and not numbers:
            # all of a matrix: its columns, then these
            first = cast(Value, self.apply(name, [first, Number(0.0)]))
        assert operation.attr is not None
        attr = operation.attr(first.sizes, numbers)
        if name == "softmax":
            if attr[0] == -2.0:
                return self._composed("softmax_down", [first])
            attr = ()
        if name == "reshape":
            return self._reshape(first, attr)
        return self._emit(name, [first.number], operation.rule(name, [first.sizes], *attr), attr)

    def _composed(self, name: str, args: Sequence[Value | float]) -> Value:
        def step(name: str, values: Sequence[Operand]) -> Operand:
            return self.apply(STEPS.get(name, name), values)

        return cast(Value, spell(name, cast(Sequence[Operand | float], args), PRIMITIVE, step, Number))

    def _reshape(self, value: Value, attr: tuple[float, ...]) -> Value:
        """A value in another shape: what it was made of, where that has this shape already."""
        sizes = OPERATIONS["reshape"].rule("reshape", [value.sizes], *attr)
        if value.shape == shape(sizes):
            return value
        value = self._reshaped.get(value.number, value)
        if value.shape == shape(sizes):
            return value
        made = self._emit("reshape", [value.number], sizes, (float(len(value.sizes)), *attr[1:]))
        self._reshaped[made.number] = value
        return made

    def _broadcast(self, arg: Number | Value, sizes: Sizes) -> int:
        """An element-wise operation's argument in the shape of its result."""
        if isinstance(arg, Number) or arg.shape == shape(sizes):
            return self._value(arg, sizes)
        key = arg.number, shape(sizes)
        if key not in self._spread:
            inner = (1,) * (len(sizes) - len(arg.shape)) + arg.shape
            flat = math.prod(inner)
            vector = self._reshape(arg, (float(len(arg.shape)), float(flat)))
            attr = tuple(map(float, inner + shape(sizes)))
            self._spread[key] = self._emit("spread", [vector.number], sizes, attr).number
        return self._spread[key]

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

    def constant(self, listed: Listed, name: str) -> Value:
        """A value of these numbers."""
        value = self._emit("constant", [], listed.sizes, listed.values)
        self.label(value, name, value.number)
        return value

    def _value(self, arg: Number | Value, _: Sizes = ()) -> int:
        if isinstance(arg, Value):
            return arg.number
        if not in_float32(arg.value):
            raise ShapeError(f"{arg.value:g} is beyond what a float32 holds", "at most 3.4e38")
        if arg.value not in self._constants:
            self._constants[arg.value] = self._emit("constant", [], (), (arg.value,)).number
        return self._constants[arg.value]

    def _emit(self, name: str, args: Sequence[int], sizes: Sizes, attr: tuple[float, ...] = ()) -> Value:
        self.ops.append(Op(name, tuple(args), shape(sizes), attr))
        return Value(self.next - 1, sizes)


def in_float32(number: float) -> bool:
    """Whether a finite number stays finite as the float32 that it is computed with."""
    try:
        struct.pack("<f", number)
    except OverflowError:
        return False
    return True


def _fold(operation: Operation, values: Sequence[float]) -> float:
    if operation.rule is not broadcast:
        raise ShapeError(f"{operation.name} needs vectors or matrices, not numbers")
    import numpy as np  # reading a spec needs it for nothing else

    with np.errstate(all="ignore"):
        result = float(operation.meaning(Arrays(np), *map(np.float64, values)))
    if not math.isfinite(result):
        raise ShapeError("the number is too large")
    return result
