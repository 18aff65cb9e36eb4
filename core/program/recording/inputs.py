"""Numbers that instances bring along (`net.input`): rows of constants that each mini-batch has of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.ir.cell import Shape
from abw.core.ir.network import Constant, Network
from abw.core.program.recording.recorder import Longs, Segment

Floats = NDArray[np.float32]


class InputRows:
    """The rows that the instances of a mini-batch bring along, by their constants (`Network.given`).

    Rows are numbered on from run to run, so that one of an earlier run is known as such.
    """

    def __init__(self) -> None:
        self._rows: dict[int, list[Floats]] = {}
        self._first: dict[int, int] = {}
        self._reported: dict[int, int] = {}

    def __bool__(self) -> bool:
        """Whether there were any in this or an earlier run."""
        return bool(self._first)

    def begin(self) -> None:
        """Begin a run; the rows of the one before are gone."""
        for number, rows in self._rows.items():
            self._first[number] += len(rows)
            rows.clear()
        self._reported.clear()

    def rewind(self) -> None:
        """Let `fresh` yield all rows of the run again."""
        self._reported.clear()

    def add(self, constant: Constant, values: Floats) -> int:
        """Add a row; its number in the constant. Errors: AbwError for more than a mini-batch may have."""
        rows = self._rows.setdefault(constant.number, [])
        first = self._first.setdefault(constant.number, 0)
        if len(rows) == constant.rows:
            raise AbwError(
                f"the mini-batch brings along more than {constant.rows:,} values of {list(constant.shape)}",
                hint="run fewer instances at once, or share equal numbers: x = net.input(numbers)",
            )
        rows.append(values)
        return (first + len(rows) - 1) % constant.rows

    def fresh(self, network: Network) -> Iterator[tuple[int, int, Floats]]:
        """Yield each constant with rows that were not yielded before: its number among the network's, its
        first row of this run, and those rows (n, *shape).
        """
        for number in network.given:
            constant = network.constants[number]
            rows, reported = self._rows.get(constant.number, []), self._reported.get(constant.number, 0)
            if reported < len(rows):
                self._reported[constant.number] = len(rows)
                yield number, self._first[constant.number] % constant.rows, np.stack(rows[reported:])

    def row(self, network: Network, reference: int) -> Floats | None:
        """The values behind a constant's reference; None where it is another kind of constant.

        Errors: AbwError for one of an earlier run.
        """
        number, row = network.constant_of(reference)
        constant = network.constants[number]
        if constant.kind != "field":
            return None
        own = self._own(constant, np.array([row]))
        return self._rows[constant.number][int(own[0])]

    def split(self, network: Network, segment: Segment) -> tuple[Segment, tuple[Floats, ...]]:
        """A segment whose operands number the rows that it reads from 0 on; these rows, for `Graph.given`,
        which is empty where it reads none.

        Errors: AbwError for one of an earlier run. Cost: linear in the segment for each shape.
        """
        if not self:
            return segment, ()
        index = -1 - segment.operand.astype(np.int64)
        operand, given = segment.operand.copy(), []
        for number in network.given:
            constant = network.constants[number]
            inside = (index >= constant.first) & (index < constant.first + constant.rows)
            read, local = np.unique(index[inside] - constant.first, return_inverse=True)
            operand[inside] = -1 - constant.first - local
            given.append(self._stacked(constant, self._own(constant, read)))
        if not any(map(len, given)):
            return segment, ()
        return replace(segment, operand=operand), tuple(given)

    def _own(self, constant: Constant, rows: Longs) -> Longs:
        """Number rows as in this run."""
        held = len(self._rows.get(constant.number, ()))
        own = (rows - self._first.get(constant.number, 0)) % constant.rows
        if (own >= held).any():
            raise AbwError(
                "a value of an earlier run was read: its memory is taken",
                hint="call net.input in the program, for each instance",
            )
        return own

    def _stacked(self, constant: Constant, rows: Longs) -> Floats:
        if not len(rows):
            return np.zeros((0, *constant.shape), np.float32)
        held = self._rows[constant.number]
        return np.stack([held[row] for row in rows.tolist()])


def numbers_of(given: object, what: str, shapes: Sequence[Shape]) -> Floats:
    """An array, numbers in lists, or a number, as a value of one of some shapes.

    Errors: TypeError for what holds no numbers; AbwError for another shape, or what is not finite.
    """
    try:
        found = np.asarray(given)
        if found.dtype.kind not in "fiu" or found.dtype.itemsize > 8:
            raise ValueError
        if found.dtype == np.float32:
            values = found.copy()
        else:
            with np.errstate(over="ignore"):  # which takes microseconds
                values = found.astype(np.float32)
    except (ValueError, TypeError, RuntimeError):
        kind = type(given).__name__
        raise TypeError(f"{what} wants a value or numbers, not {kind}") from None
    if values.shape == () and (1,) in shapes:
        values = values.reshape(1)
    if values.shape not in shapes:
        wanted = " or ".join(str(list(shape)) for shape in shapes)
        got = list(values.shape) if values.shape else "one number"
        raise AbwError(f"{what} wants {wanted}, this is {got}", hint="check the dims of both")
    if not isfinite(np.vdot(values, values)) and not np.isfinite(values).all():
        at = np.argwhere(~np.isfinite(values))[0].tolist()
        raise AbwError(f"{what} is given {found[tuple(at)]} at {at}: a number has to be finite")
    return values
