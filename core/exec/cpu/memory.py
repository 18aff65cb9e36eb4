"""Memory at cache lines, and weights packed in the order in which the kernels read them."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.rows import padded, row_floats
from abw.core.exec.stages import Gate, Group
from abw.core.spec.cell import Shape

Floats = NDArray[np.float32]

LINE = 64
"""Bytes that rows and weights are aligned to."""


def aligned(floats: int) -> Floats:
    """Uninitialised memory that begins at a cache line."""
    memory = np.empty(floats + LINE // 4, np.float32)
    begin = -address(memory) // 4 % (LINE // 4)
    return memory[begin : begin + floats]


def address(array: NDArray[Any]) -> int:
    """Where an array's first element lies; 0 for an empty one."""
    if not array.size:
        return 0
    if array.flags.writeable:
        # a sixth of what array.ctypes.data takes
        return ctypes.addressof(ctypes.c_char.from_buffer(cast(Any, array)))
    return int(array.ctypes.data)


@dataclass(frozen=True, slots=True)
class Weights:
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
        vectors = len(self.group.gates) + sum(part.length * len(fed) for part, fed in self.group.segments)
        return vectors * self.units * self.lanes

    def write(self, memory: Floats, static: Mapping[int, NDArray[Any]]) -> None:
        """Pack the weights of these static values."""
        size = padded(self.shape[0], self.lanes)
        parts = [
            self._by_block(np.stack([self._bias(gate, static, size) for gate in self.group.gates])[..., None])
        ]
        for part, fed in self.group.segments:
            weights = np.zeros((len(fed), size, part.length))
            for row, number in enumerate(fed):
                for value, first, operand in self.group.gates[number].products:
                    if operand == part:
                        weights[row, : self.shape[0]] += static[value][:, first : first + part.length]
            parts.append(self._by_block(weights))
        total = self.blocks * self.block_floats
        memory[self.offset : self.offset + total] = np.concatenate(parts, axis=1).ravel()

    def _by_block(self, weights: NDArray[Any]) -> NDArray[np.float32]:
        """(gates, size, k) as (blocks, k * gates * units * lanes)."""
        gates, _, k = weights.shape
        split = weights.reshape(gates, self.blocks, self.units, self.lanes, k).astype(np.float32)
        return split.transpose(1, 4, 0, 2, 3).reshape(self.blocks, -1)

    def _bias(self, gate: Gate, static: Mapping[int, NDArray[Any]], size: int) -> NDArray[Any]:
        bias = np.zeros(size)
        for value in gate.biases:
            bias[: self.shape[0]] += static[value]
        return bias
