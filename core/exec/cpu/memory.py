"""Where a kernel's values lie: rows padded to whole vectors, and one block of all that no lane changes."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.cpu.stages import Gate, Part
from abw.core.spec.cell import Shape

Floats = NDArray[np.float32]

LINE = 64
"""Bytes that rows and weights are aligned to."""


def columns(shape: Shape) -> int:
    """The floats of one row of a matrix, or of a vector."""
    return shape[-1] if shape else 1


def padded(count: int, lanes: int) -> int:
    """A number of floats as a whole number of vectors."""
    return -(-count // lanes) * lanes


def row_floats(shape: Shape, lanes: int) -> int:
    """The floats that a value takes: each row of a matrix, and a vector, is a whole number of vectors.

    What lies in the padding is never read as a value, but may be computed with.
    """
    rows = shape[0] if len(shape) == 2 else 1
    return rows * padded(columns(shape), lanes)


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


def matrix_view(memory: Floats, shape: Shape, lanes: int) -> Floats:
    """Rows (n, row_floats) as values (n, *shape), without the padding."""
    count = columns(shape)
    rows = shape[0] if len(shape) == 2 else 1
    found = memory.reshape(len(memory), rows, padded(count, lanes))[:, :, :count]
    return found if len(shape) == 2 else found[:, 0].reshape(len(memory), *shape)


@dataclass(frozen=True, slots=True)
class Group:
    """Gates that a block of rows sums up together, and `segments`: each operand with the gates it feeds."""

    gates: tuple[Gate, ...]
    segments: tuple[tuple[Part, tuple[int, ...]], ...]


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


@dataclass(frozen=True, slots=True)
class Fixed:
    """A static value as one row of `shape` from `offset` on (floats); a number fills it."""

    offset: int
    value: int
    shape: Shape
    lanes: int

    def write(self, memory: Floats, static: Mapping[int, NDArray[Any]]) -> None:
        """Lay the value down."""
        row = memory[self.offset : self.offset + row_floats(self.shape, self.lanes)]
        row[:] = 0
        matrix_view(row[None], self.shape, self.lanes)[0] = static[self.value]
