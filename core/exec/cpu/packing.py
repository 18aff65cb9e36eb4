"""Memory at cache lines, and weights packed in the order in which the kernels read them."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.lower.rows import padded, row_floats
from abw.core.exec.lower.stages import Gate, Group, Part
from abw.core.ir.cell import Shape
from abw.core.jit.pointers import address

Floats = NDArray[np.float32]

# Bytes that rows and weights are aligned to.
LINE = 64
# Bytes of a huge page.
HUGE = 1 << 21


def aligned(floats: int) -> Floats:
    """Uninitialised memory that begins at a cache line."""
    memory = np.empty(floats + LINE // 4, np.float32)
    begin = -address(memory) // 4 % (LINE // 4)
    return memory[begin : begin + floats]


def on_huge_pages(floats: int) -> Floats:
    """Memory, zeros, on pages of 2 MiB as far as it fills them and Linux gives them; elsewhere as `aligned`.

    What is read from first to last, and is larger than the second-level cache, spares the processor looking
    up a page every 4 KiB.
    """
    whole = 4 * floats // HUGE * HUGE
    if not whole or not hasattr(mmap, "MADV_HUGEPAGE"):
        return aligned(floats)
    pages = mmap.mmap(-1, 4 * floats + HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory = np.frombuffer(pages, np.float32)
    begin = -address(memory) % HUGE
    with suppress(OSError):  # a kernel without them
        pages.madvise(mmap.MADV_HUGEPAGE, begin, whole)
    return memory[begin // 4 : begin // 4 + floats]


@dataclass(frozen=True, slots=True)
class PackedWeights:
    """A group's weights, packed from `offset` on (floats).

    For every `units` vectors of the result: a bias for each gate and unit, then, segment after segment and
    element after element of its operand, the weights of the gates it feeds, [gate][unit][lane]. So a block of
    rows reads them from first to last.
    """

    offset: int
    group: Group
    shape: Shape
    units: int
    lanes: int

    @property
    def blocks(self) -> int:
        """How many times `units` vectors the result has."""
        return row_floats(self.shape, self.lanes) // (self.lanes * self.units)

    @property
    def block_floats(self) -> int:
        """The floats of one block."""
        vectors = len(self.group.gates) + sum(
            self.depth(part) * len(fed) for part, fed in self.group.segments
        )
        return vectors * self.units * self.lanes

    def depth(self, part: Part) -> int:
        """How many floats a row of weights takes for an operand."""
        return part.length

    def turns(self, part: Part) -> int:
        """How many turns a loop over them has that asks for more."""
        return part.length // 2

    def columns(self, gate: Gate, part: Part, static: Mapping[int, NDArray[Any]]) -> NDArray[Any]:
        """The floats of a gate's rows of weights for an operand: (rows, depth)."""
        return weights_of(gate, part, static)

    def write(self, memory: Floats, static: Mapping[int, NDArray[Any]]) -> None:
        """Pack the weights of these static values; beside `memory` it takes one gate's at most."""
        total = self.blocks * self.block_floats
        blocks = memory[self.offset : self.offset + total].reshape(self.blocks, self.block_floats)
        vector, gates = self.units * self.lanes, self.group.gates
        place = blocks[:, : len(gates) * vector].reshape(self.blocks, 1, len(gates), self.units, self.lanes)
        for number, gate in enumerate(gates):
            place[:, :, number] = self._by_block(self._bias(gate, static)[:, None])
        begin = len(gates) * vector
        for part, fed in self.group.segments:
            depth = self.depth(part)
            end = begin + depth * len(fed) * vector
            place = blocks[:, begin:end].reshape(self.blocks, depth, len(fed), self.units, self.lanes)
            for row, number in enumerate(fed):
                place[:, :, row] = self._by_block(self.columns(gates[number], part, static))
            begin = end

    def _by_block(self, weights: NDArray[Any]) -> NDArray[Any]:
        """(rows, k) as (blocks, k, units, lanes), with rows of zeros behind them."""
        rows, k = weights.shape
        missing = padded(rows, self.lanes) - rows
        whole = np.pad(weights, ((0, missing), (0, 0))) if missing else weights
        return whole.reshape(self.blocks, self.units, self.lanes, k).transpose(0, 3, 1, 2)

    def _bias(self, gate: Gate, static: Mapping[int, NDArray[Any]]) -> NDArray[Any]:
        bias = np.zeros(self.shape[0])
        for value in gate.biases:
            bias += static[value]
        return bias


def weights_of(gate: Gate, part: Part, static: Mapping[int, NDArray[Any]]) -> NDArray[Any]:
    """What a gate multiplies an operand with (rows, k): the sum over all products with it."""
    found = [
        static[value][:, first : first + part.length]
        for value, first, operand in gate.products
        if operand == part
    ]
    return found[0] if len(found) == 1 else np.asarray(np.sum(found, axis=0, dtype=np.float64))
