"""Shapes as they were written, and the rules by which operations have theirs.

A rule takes how its operation is written, a sign or a function's name, and the sizes of its arguments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from abw.core.ir.cell import Shape

MOST_NUMBERS = 2**28
"""At most so many numbers in one value: a gigabyte in single precision."""


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


def same(written: str, values: Sequence[Sizes]) -> Sizes:
    """All of one shape, and so the result. Errors: ShapeError."""
    first = values[0]
    for other in values[1:]:
        if shape(other) != shape(first):
            by_sign = not written.isidentifier()
            shown = f"{show(first)} {written} {show(other)}" if by_sign else f"{show(first)}, {show(other)}"
            matrix = len(first) != len(other) and written == "*"
            raise ShapeError(
                f"{shown}: the sizes differ", "for a matrix times a vector write @" if matrix else ""
            )
    return first


def product(written: str, values: Sequence[Sizes]) -> Sizes:
    """A matrix times a vector or a matrix. Errors: ShapeError."""
    left, right = values
    shown = f"{show(left)} {written} {show(right)}"
    if len(left) != 2:
        raise ShapeError(f"{shown}: the left side must be a matrix", "element by element: *")
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
