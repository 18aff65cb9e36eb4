"""Numbers of less than 32 bits: how they are rounded, and how weights and rows of them lie in memory.

bfloat16 is the upper half of a float32, rounded to nearest, of two to the even one. In int8 a row of numbers,
of a matrix or of what it is multiplied with, is whole numbers from -127 to 127 times a scale: its largest
absolute value over 127.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.lower.packing import PackedWeights, Statics, weights_of
from abw.core.exec.lower.rows import padded
from abw.core.exec.lower.stages import Gate, Part
from abw.core.exec.memory import LINE
from abw.core.exec.precision import Precision

Floats = NDArray[np.float32]

# A row whose largest absolute value is below counts as zeros.
LEAST = 2.0**-100


@dataclass(frozen=True, slots=True)
class Narrow:
    """How numbers of a precision are multiplied: `per` of one row of weights are in a word of 32 bits.

    `element` is the bytes that each number of a row that is multiplied takes: bfloat16 is widened. `head`:
    words before a row of weights: int8's scale, and what its sum begins with.
    """

    precision: Literal["bf16", "int8"]
    per: int
    element: int
    head: int

    def words(self, length: int) -> int:
        """The words that so many weights take."""
        return -(-length // self.per)

    def pitch(self, length: int) -> int:
        """Bytes from a row of so many numbers to the next; the last line of them has its scale."""
        return padded(self.element * padded(length, LINE // self.element), LINE) + LINE


NARROW: dict[Precision, Narrow] = {"bf16": Narrow("bf16", 2, 4, 0), "int8": Narrow("int8", 4, 1, 2)}


@dataclass(frozen=True, slots=True)
class NarrowRows:
    """An operand of a stage's products as narrow rows; `offset` bytes of a lane's others lie before it."""

    part: Part
    offset: int
    pitch: int


@dataclass(frozen=True, slots=True)
class NarrowWeights(PackedWeights):
    """A group's weights in words. Biases are floats; in int8 a row has a scale for each of its operands."""

    narrow: Narrow = field(kw_only=True)

    def depth(self, part: Part) -> int:
        """Words that a row of weights takes for an operand, with their head."""
        return self.narrow.head + self.narrow.words(part.length)

    def turns(self, part: Part) -> int:
        """Pairs of words."""
        return self.narrow.words(part.length) // 2

    def columns(self, gate: Gate, part: Part, static: Statics) -> NDArray[Any]:
        """The words of a gate's weights for an operand, as floats of the same bits: (rows, depth)."""
        weights = np.ascontiguousarray(weights_of(gate, part, static), np.float32)
        missing = -weights.shape[1] % self.narrow.per
        whole = np.pad(weights, ((0, 0), (0, missing)))
        if self.narrow.precision == "bf16":
            return bfloat16(whole).view(np.float32)
        rows, scale = quantised(whole)
        begin = -128 * rows.sum(axis=1, dtype=np.int32)
        return np.concatenate([scale[:, None], begin[:, None].view(np.float32), rows.view(np.float32)], 1)


def bfloat16(values: Floats) -> NDArray[np.uint16]:
    """Numbers rounded to bfloat16, as its bits."""
    bits = values.view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16)


def quantised(rows: Floats) -> tuple[NDArray[np.int8], Floats]:
    """Rows (n, k) in int8, and their scales (n,); NaN, and all 0, of a row that is not finite."""
    largest = np.abs(rows).max(axis=1, initial=0)
    finite, some = np.isfinite(largest), largest >= LEAST
    with np.errstate(all="ignore"):
        inverse = np.where(finite & some, np.float32(127) / largest, np.float32(0))
        scale = np.where(finite, np.where(some, largest / np.float32(127), 0), np.nan)
        whole = np.rint(np.where(finite[:, None], rows, 0) * inverse[:, None])
    return whole.astype(np.int8), scale.astype(np.float32)
