"""Shapes as they were written, and the rules by which operations have theirs.

A rule takes how its operation is written, a sign or a function's name, and the sizes of its arguments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from abw.core.ir.cell import Shape

# At most so many numbers in one value: a gigabyte in single precision.
MOST_NUMBERS = 2**28


@dataclass(frozen=True, slots=True)
class Size:
    """A size, and how it was written."""

    value: int
    text: str

    def __str__(self) -> str:
        """`hidden=64`, or a bare number."""
        return self.text if self.text == str(self.value) else f"{self.text}={self.value}"


Sizes = tuple[Size, ...]


class ShapeError(Exception):
    """Operands that do not fit."""

    def __init__(self, message: str, hint: str = "") -> None:
        """A message with the shapes in it."""
        super().__init__(message)
        self.message = message
        self.hint = hint


def show(sizes: Sizes) -> str:
    """A shape for messages: [hidden=64, embed=32]."""
    return f"[{', '.join(map(str, sizes))}]"


def shape(sizes: Sizes) -> Shape:
    """The numbers alone."""
    return tuple(size.value for size in sizes)


def same(written: str, values: Sequence[Sizes], *_: float) -> Sizes:
    """The shape of the one value."""
    return values[0]


def broadcast(written: str, values: Sequence[Sizes]) -> Sizes:
    """The shape in which all fit, as in NumPy: equal sizes or 1, from the last one on. Errors: ShapeError."""
    result = values[0]
    for other in values[1:]:
        long, short = (result, other) if len(result) >= len(other) else (other, result)
        behind = long[len(long) - len(short) :]
        if any(
            a.value != b.value and 1 not in (a.value, b.value) for a, b in zip(behind, short, strict=True)
        ):
            raise _unlike(written, values, long, short)
        wider = (a if b.value == 1 else b for a, b in zip(behind, short, strict=True))
        result = (*long[: len(long) - len(short)], *wider)
    return result


def _unlike(written: str, values: Sequence[Sizes], long: Sizes, short: Sizes) -> ShapeError:
    """What to raise where two shapes do not fit, and what may have been meant."""
    sign = ", " if written.isidentifier() else f" {written} "
    hint = ""
    if len(long) != len(short):
        hint = "for a matrix times a vector write @" if written == "*" else ""
        if long[0].value == short[0].value:
            hint += f"{'; ' if hint else ''}for one number a row write reshape(…, {long[0].text}, 1)"
    return ShapeError(f"{sign.join(map(show, values))}: the sizes differ", hint)


def one_axis(sizes: Sizes, numbers: Sequence[float]) -> tuple[float, ...]:
    """The axis counted from the last (-1), and whether it stays as a size of 1. Errors: ShapeError."""
    if len(sizes) == 1:
        if set(numbers) <= {0.0, -1.0}:
            return (-1.0, 1.0)
        raise ShapeError(f"{show(sizes)} has no axis {numbers[0]:g}", "a vector has axis 0 alone")
    axis = {0.0: -2.0, 1.0: -1.0, -2.0: -2.0, -1.0: -1.0}.get(numbers[0] if numbers else -1.0)
    if axis is None:
        hint = "0 goes down the columns, 1 along the rows"
        raise ShapeError(f"{show(sizes)} has no axis {numbers[0]:g}", hint)
    return (axis, 0.0)


def reduced(written: str, values: Sequence[Sizes], axis: float, keep: float) -> Sizes:
    """A number a row or column of a matrix; of a vector a vector of size 1."""
    (whole,) = values
    return (Size(1, "1"),) if keep else (whole[int(axis) + 1],)


def shaped(sizes: Sizes, numbers: Sequence[float]) -> tuple[float, ...]:
    """How many sizes there are, and those of the result."""
    return (float(len(sizes)), *numbers)


def sized(written: str, values: Sequence[Sizes], *attr: float) -> Sizes:
    """The second half of the numbers."""
    return tuple(Size(int(size), f"{size:g}") for size in attr[len(attr) // 2 :])


def regrouped(written: str, values: Sequence[Sizes], rank: float, *numbers: float) -> Sizes:
    """The sizes named, which must have as many elements. Errors: ShapeError."""
    (whole,) = values
    result = tuple(Size(int(size), f"{size:g}") for size in numbers)
    if not 1 <= len(result) <= 2:
        raise ShapeError("a shape has one size or two", "reshape(x, n) or reshape(x, m, n)")
    before, after = (math.prod(shape(sizes)) for sizes in (whole, result))
    if before != after or min(shape(result)) < 1:
        raise ShapeError(f"{show(whole)} has {before:,} elements, {show(result)} {after:,}")
    return result


def two_vectors(written: str, values: Sequence[Sizes]) -> Sizes:
    """Two vectors; for `dot` of one size. Errors: ShapeError."""
    shown = ", ".join(map(show, values))
    if [len(value) for value in values] != [1, 1]:
        raise ShapeError(f"{shown}: {written} takes two vectors", "for products of matrices write @")
    if written == "dot" and values[0][0].value != values[1][0].value:
        raise ShapeError(f"{shown}: the sizes differ")
    return ()


def product(written: str, values: Sequence[Sizes]) -> Sizes:
    """A matrix times a vector or a matrix. Errors: ShapeError."""
    left, right = values
    shown = f"{show(left)} {written} {show(right)}"
    if len(left) != 2:
        hint = "element by element: *" if len(right) < 2 else "the matrix stands on the left: W @ x"
        raise ShapeError(f"{shown}: the left side must be a matrix", hint)
    if left[1].value != right[0].value:
        turned = len(right) == 1 and left[0].value == right[0].value
        raise ShapeError(f"{shown}: the inner sizes differ", "transpose the matrix?" if turned else "")
    return (left[0], *right[1:])


def joined(written: str, values: Sequence[Sizes]) -> Sizes:
    """One behind the other along the first axis. Errors: ShapeError."""
    if len({shape(value)[1:] for value in values}) > 1:
        shown = ", ".join(map(show, values))
        raise ShapeError(f"{shown}: only the first sizes may differ")
    length = sum(value[0].value for value in values)
    result = (Size(length, str(length)), *values[0][1:])
    if math.prod(shape(result)) > MOST_NUMBERS:
        raise ShapeError(f"{show(result)} is too large")
    return result


def part(written: str, values: Sequence[Sizes], start: float, stop: float) -> Sizes:
    """From `start` up to `stop` along the first axis. Errors: ShapeError."""
    (whole,) = values
    length = whole[0].value
    if not 0 <= start < stop <= length:
        shown = f"{int(start)}:{int(stop)}"
        raise ShapeError(f"{shown} is not inside {show(whole)}", f"0 <= start < stop <= {length}")
    size = int(stop - start)
    return (Size(size, str(size)), *whole[1:])


def turned(written: str, values: Sequence[Sizes]) -> Sizes:
    """A matrix's rows as columns. Errors: ShapeError."""
    if len(values[0]) != 2:
        raise ShapeError(f"{show(values[0])} is no matrix")
    return values[0][::-1]
