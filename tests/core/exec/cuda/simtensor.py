"""What a tensor core computes from a warp's fragments, and copies that are under way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

# Of the bits of a float: half of what TF32 keeps last, and what it keeps.
HALF, KEPT = np.uint32(1 << 12), np.uint32(0xFFFFE000)


def split(values: NDArray[np.float32]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Floats as two of TF32; the larger one to the nearest, ties away from 0, the other one cut off."""
    large = ((values.view(np.uint32) + HALF) & KEPT).view(np.float32)
    return large, ((values - large).view(np.uint32) & KEPT).view(np.float32)


def is_tf32(values: NDArray[np.float32]) -> bool:
    """Whether all values have mantissas of 10 bits."""
    return not (values.view(np.uint32) & ~KEPT).any()


def cut(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """As float32, rounded towards 0."""
    near = values.astype(np.float32)
    toward = np.nextafter(near, np.float32(0))
    cut_off: NDArray[np.float32] = np.where(np.abs(near) > np.abs(values), toward, near)
    return cut_off


def multiply(operands: Mapping[int, Sequence[Any]]) -> NDArray[np.float32]:
    """A B + C of a whole warp as (32, 4) results; thread by thread four floats of A, two of B and four of C.

    Of the numbers of A, the first bit says which half of the rows it is in, the second which half of the
    columns; of B, the half of the rows; of C, the column's last bit and the half of the rows. Raises
    ValueError for A or B that is not of TF32.
    """
    given = np.array([operands[lane] for lane in range(32)], np.float32)
    if not is_tf32(given[:, :6]):
        raise ValueError("an operand of a tensor core has more bits than TF32")
    parts = given.astype(np.float64)
    a = parts[:, :4].reshape(8, 4, 2, 2).transpose(3, 0, 2, 1).reshape(16, 8)
    b = parts[:, 4:6].reshape(8, 4, 2).transpose(2, 1, 0).reshape(8, 8)
    c = parts[:, 6:].reshape(8, 4, 2, 2).transpose(2, 0, 1, 3).reshape(16, 8)
    return cut(a @ b + c).reshape(2, 8, 4, 2).transpose(1, 2, 0, 3).reshape(32, 4)


class Array(Protocol):
    """What copies read and write."""

    def __getitem__(self, index: int) -> Any: ...
    def __setitem__(self, index: int, value: Any) -> None: ...


@dataclass(frozen=True, slots=True)
class Copy:
    """Four floats on their way: the first `floats` of the source, then zeros."""

    target: Array
    place: int
    source: Array
    index: int
    floats: int

    def begin(self) -> None:
        """From now on the target is being written and the source read."""
        self._write([np.float32(np.nan)] * 4)
        self._read()

    def end(self) -> None:
        """What was there all the time is written."""
        self._write([*self._read(), *[np.float32(0)] * (4 - self.floats)])

    def _read(self) -> list[Any]:
        return [self.source[self.index + k] for k in range(self.floats)]

    def _write(self, values: list[Any]) -> None:
        for k, value in enumerate(values):
            self.target[self.place + k] = value


@dataclass(slots=True)
class Copies:
    """The copies of a thread that are under way: they are done as late as can be."""

    begun: list[Copy] = field(default_factory=list)
    groups: list[list[Copy]] = field(default_factory=list)

    def begin(self, copy: Copy) -> None:
        """One more."""
        copy.begin()
        self.begun.append(copy)

    def group(self) -> None:
        """Those that are in no group make one."""
        self.groups.append(self.begun)
        self.begun = []

    def wait(self, left: int) -> None:
        """All but the latest groups are done."""
        while len(self.groups) > left:
            for copy in self.groups.pop(0):
                copy.end()

    @property
    def under_way(self) -> bool:
        """Whether any are not done."""
        return any([self.begun, *self.groups])
