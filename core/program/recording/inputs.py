"""Numbers of instances (`net.input`): rows of constants that differ between mini-batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.graph.equal.consing import DedupMode, Patience
from abw.core.ir.cell import Shape
from abw.core.ir.network import Constant, Network
from abw.core.jit.decorators import njit
from abw.core.program.recording.segments import Ints, Longs, Segment

Floats = NDArray[np.float32]


# It pays to look for equal rows where so many were added for each that is kept.
PAYS = 1.25
# Rows of a constant that there is room for at first.
LEAST = 64
NOTHING = np.empty((0, 1), np.float32)


def warm() -> None:
    """Compile the loop that copies rows, or load it from disk."""
    row = np.zeros((1, 1), np.float32)
    for kind in (np.float32, np.float64):
        put(row, 0, np.zeros(1, kind))


class InputRows:
    """The rows of a mini-batch's instances, by their constants (`Network.given`).

    Rows are numbered on from run to run, so that one of an earlier run is known as such. `stack` makes an
    array (n, *shape) of n objects in a list of `later`. Rows of equal bits are one, where `dedup` says so.
    """

    def __init__(self, dedup: DedupMode = "off") -> None:
        self._patience = Patience(dedup)
        self._seen: dict[tuple[int, bytes], int] | None = None
        self._added = 0
        self.stack: Callable[[Sequence[Any]], Floats] = np.stack
        self._rows: dict[int, Floats] = {}
        self._count: dict[int, int] = {}
        self._later: dict[int, list[Any]] = {}
        self._first: dict[int, int] = {}
        self._reported: dict[int, int] = {}

    def __bool__(self) -> bool:
        """Whether there were any in this or an earlier run."""
        return bool(self._first)

    def begin(self) -> None:
        """Begin a run, and drop the rows of the last one."""
        if self._seen is not None and self._added:
            self._patience.learn(paid=self._added >= PAYS * len(self._seen))
        self._seen, self._added = ({} if self._patience.begin() else None), 0
        for number in self._first:
            self._first[number] += len(self._later.get(number, ())) or self._count.get(number, 0)
        self._count.clear()
        self._later.clear()
        self._reported.clear()

    def rewind(self) -> None:
        """Let `fresh` yield all rows of the run again."""
        self._reported.clear()

    def add(self, constant: Constant, values: NDArray[Any], what: str) -> int:
        """Copy a row, which `numbers_of` made; its number in the constant.

        Errors: AbwError for more than a mini-batch may have, and what is not finite.
        """
        number, count = constant.number, self._count.get(constant.number, 0)
        rows = self._room(constant, count + 1)
        if not put(rows, count, values.ravel()):
            at = np.argwhere(~np.isfinite(rows[count].reshape(constant.shape)))[0].tolist()
            raise AbwError(f"{what} is given {values[tuple(at)]} at {at}: numbers must be finite")
        row = (self._first.setdefault(number, 0) + count) % constant.rows
        if self._seen is not None:
            self._added += 1
            known = self._seen.setdefault((number, rows[count].tobytes()), row)
            if known != row:
                return known
        self._count[number] = count + 1
        return row

    def later(self, constant: Constant) -> tuple[list[Any], int]:
        """A list of this run, whose objects `stack` turns into rows when they are first read; and the number
        of the first one's row: that of object i is `(first + i) % constant.rows`.
        """
        first = self._first.setdefault(constant.number, 0)
        return self._later.setdefault(constant.number, []), first

    def _room(self, constant: Constant, wanted: int) -> Floats:
        """The rows of a constant, with room for so many."""
        held = self._rows.get(constant.number, NOTHING)
        if wanted <= len(held):
            return held
        if wanted > constant.rows:
            raise AbwError(
                f"the instances give more than {constant.rows:,} values of {list(constant.shape)}",
                hint="run fewer instances at once, or share equal numbers: x = net.input(numbers)",
            )
        rows = np.empty((min(max(LEAST, 2 * wanted), constant.rows), prod(constant.shape)), np.float32)
        rows[: len(held)] = held
        self._rows[constant.number] = rows
        return rows

    def _known(self, constant: Constant) -> Floats:
        """The rows of a constant that this run has so far (n, *shape)."""
        number = constant.number
        objects, count = self._later.get(number, ()), self._count.get(number, 0)
        if count < len(objects):
            rows = self._room(constant, len(objects))
            rows[count : len(objects)] = self.stack(objects[count:]).reshape(-1, rows.shape[1])
            count = self._count[number] = len(objects)
        return self._rows.get(number, NOTHING)[:count].reshape(count, *constant.shape)

    def fresh(self, network: Network) -> Iterator[tuple[int, int, Floats]]:
        """Yield each constant with rows that were not yielded before: its number among the network's, its
        first row of this run, and those rows (n, *shape).
        """
        for number in network.given:
            constant = network.constants[number]
            rows, reported = self._known(constant), self._reported.get(constant.number, 0)
            if reported < len(rows):
                self._reported[constant.number] = len(rows)
                yield number, self._first[constant.number] % constant.rows, rows[reported:]

    def row(self, network: Network, reference: int) -> Floats | None:
        """Return the values behind a constant's reference; None for other kinds of constants.

        Errors: AbwError for one of an earlier run.
        """
        number, row = network.constant_of(reference)
        constant = network.constants[number]
        if constant.kind != "field":
            return None
        known, own = self._known(constant), (row - self._first.get(constant.number, 0)) % constant.rows
        if own >= len(known):
            raise _earlier()
        return np.array(known[own])

    def split(self, network: Network, segment: Segment) -> tuple[Segment, tuple[Floats, ...]]:
        """A segment whose operands number the rows from the first to the last that it reads; these, for
        `Graph.given`, which is empty where it reads none.

        Errors: AbwError for one of an earlier run. Cost: linear in the segment for each shape.
        """
        if not self:
            return segment, ()
        operand, constants = segment.operand.copy(), [network.constants[number] for number in network.given]
        known = [self._known(constant) for constant in constants]
        fields = [
            (c.first, c.rows, self._first.get(c.number, 0) % c.rows, len(rows), len(rows), 0)
            for c, rows in zip(constants, known, strict=True)
        ]
        bounds = np.array(fields, np.int64)
        if not _split(operand, bounds):
            raise _earlier()
        given = [rows[low:end].copy() for rows, (low, end) in zip(known, bounds[:, 4:].tolist(), strict=True)]
        return (replace(segment, operand=operand), tuple(given)) if any(map(len, given)) else (segment, ())


def _earlier() -> AbwError:
    return AbwError(
        "a value of an earlier run was read: its memory has been reused",
        hint="call net.input in the program, for each instance",
    )


@njit
def _split(operand: Ints, bounds: Longs) -> bool:
    """Number the rows of fields that operands read from the first one read; False for one of an earlier run.

    `bounds` (C, 6): the first number of each field's references and how many it may have; the first row of
    this run, and how many this has; and from which to which of these are read, which is written.
    """
    for again in range(2):
        for i in range(len(operand)):
            number = -1 - np.int64(operand[i])
            for c in range(len(bounds) if number >= 0 else 0):
                first, rows, begin, known = bounds[c, 0], bounds[c, 1], bounds[c, 2], bounds[c, 3]
                if not first <= number < first + rows:
                    continue
                if again:
                    operand[i] += bounds[c, 4]
                    break
                own = number - first - begin
                own += rows if own < 0 else 0
                if own >= known:
                    return False
                bounds[c, 4], bounds[c, 5] = min(bounds[c, 4], own), max(bounds[c, 5], own + 1)
                operand[i] = -1 - first - own
                break
    return True


@njit
def put(rows: Floats, number: int, values: NDArray[Any]) -> bool:
    """Copy values to a row of their length; whether all are finite there."""
    finite = True
    for i in range(len(values)):
        rows[number, i] = values[i]
        finite &= bool(np.isfinite(rows[number, i]))
    return finite


def numbers_of(given: object, what: str, shapes: Sequence[Shape]) -> NDArray[Any]:
    """An array, numbers in lists, or a number, as floats of one of some shapes, not always copied.

    Errors: TypeError for what holds no numbers; AbwError for another shape.
    """
    try:
        found = np.asarray(given)
        if found.dtype.char in "fd" and found.shape in shapes and found.flags.carray:
            return found
        if found.dtype.kind not in "fiu" or found.dtype.itemsize > 8:
            raise ValueError
        with np.errstate(over="ignore"):  # which takes microseconds
            values = np.array(found, np.float32)
    except (ValueError, TypeError, RuntimeError):
        kind = type(given).__name__
        raise TypeError(f"{what} needs a value or numbers, not {kind}") from None
    if values.shape == () and (1,) in shapes:
        values = values.reshape(1)
    if values.shape not in shapes:
        wanted = " or ".join(str(list(shape)) for shape in shapes)
        got = list(values.shape) if values.shape else "one number"
        raise AbwError(f"{what} wants {wanted}, this is {got}", hint="check the dims of both")
    return values
