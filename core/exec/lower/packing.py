"""Static values of a cell, and weights packed in the order in which kernels read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.cell.evaluate import evaluate
from abw.core.cell.normal import NormalCell
from abw.core.exec.lower.rows import matrix_view, padded, row_floats
from abw.core.exec.lower.stages import Gate, Group, Part
from abw.core.ir.cell import Shape

Floats = NDArray[np.float32]
# The values that all lanes share, by their numbers.
Statics = Mapping[int, NDArray[Any]]


def static_values(normal: NormalCell, params: Sequence[Floats]) -> dict[int, NDArray[Any]]:
    """The values that are the same at every lane: parameters as they are, others in double precision."""
    cell = normal.cell
    values: dict[int, NDArray[Any]] = {len(cell.inputs) + i: np.asarray(p) for i, p in enumerate(params)}
    with np.errstate(all="ignore"):
        for value, op in enumerate(cell.ops, cell.first_op):
            if normal.static[value]:
                values[value] = evaluate(op, [np.asarray(values[a], np.float64) for a in op.args])
    return values


@dataclass(frozen=True, slots=True)
class Fixed:
    """A static value as one row of `shape` from `offset` on (floats); a number fills it."""

    offset: int
    value: int
    shape: Shape
    lanes: int

    @property
    def floats(self) -> int:
        """The floats of the row."""
        return row_floats(self.shape, self.lanes)

    def write(self, memory: Floats, static: Statics) -> None:
        """Write the value, with zeros behind its rows."""
        row = memory[self.offset : self.offset + self.floats]
        row[:] = 0
        matrix_view(row[None], self.shape, self.lanes)[0] = static[self.value]


@dataclass(frozen=True, slots=True)
class PackedWeights:
    """The weights of a group of gates with so many `rows` each, packed from `offset` on (floats).

    `block` rows lie together, in the order in which a block of sums reads them: if `biased` a bias for each
    gate, [gate][row]; then, segment after segment and element after element of its operand, the weights of
    the gates it feeds, [element][gate][row]. The elements of an operand are a multiple of `multiple`.
    """

    offset: int
    group: Group
    rows: int
    block: int
    multiple: int = 1
    biased: bool = True

    @property
    def blocks(self) -> int:
        """How many blocks the rows are."""
        return -(-self.rows // self.block)

    @property
    def begins(self) -> list[int]:
        """Where in a block each segment's weights begin; last, where the block ends."""
        found = [len(self.group.gates) * self.block * self.biased]
        for part, fed in self.group.segments:
            found.append(found[-1] + self.depth(part) * len(fed) * self.block)
        return found

    @property
    def block_floats(self) -> int:
        """The floats of one block."""
        return self.begins[-1]

    @property
    def floats(self) -> int:
        """The floats of all blocks."""
        return self.blocks * self.block_floats

    def depth(self, part: Part) -> int:
        """How many floats a row of weights takes for an operand."""
        return padded(part.length, self.multiple)

    def turns(self, part: Part) -> int:
        """How many turns a loop over them has that prefetches."""
        return part.length // 2

    def columns(self, gate: Gate, part: Part, static: Statics) -> NDArray[Any]:
        """The floats of a gate's rows of weights for an operand: (rows, at most `depth`)."""
        return weights_of(gate, part, static)

    def write(self, memory: Floats, static: Statics) -> None:
        """Pack the weights of these static values into `memory`; uses temporary memory of one gate at most.

        Elements beyond an operand's own are not written: they have to be zeros.
        """
        blocks = memory[self.offset : self.offset + self.floats].reshape(self.blocks, self.block_floats)
        gates, begins = self.group.gates, self.begins
        if self.biased:
            biases = blocks[:, : begins[0]].reshape(self.blocks, len(gates), self.block)
            for number, gate in enumerate(gates):
                bias = np.zeros((self.rows, 1))
                for value in gate.biases:
                    bias[:, 0] += static[value]
                biases[:, number] = self._by_block(bias)[:, 0]
        for (part, fed), begin, end in zip(self.group.segments, begins, begins[1:], strict=False):
            into = blocks[:, begin:end].reshape(self.blocks, self.depth(part), len(fed), self.block)
            for row, number in enumerate(fed):
                weights = self._by_block(self.columns(gates[number], part, static))
                into[:, : weights.shape[1], row] = weights

    def _by_block(self, weights: NDArray[Any]) -> NDArray[Any]:
        """(rows, k) as (blocks, k, block), with rows of zeros behind them."""
        missing = self.blocks * self.block - self.rows
        whole = np.pad(weights, ((0, missing), (0, 0))) if missing else weights
        return whole.reshape(self.blocks, self.block, -1).transpose(0, 2, 1)


def weights_of(gate: Gate, part: Part, static: Statics) -> NDArray[Any]:
    """What a gate multiplies an operand with (rows, k): the sum over all products with it."""
    found = [
        static[value][:, first : first + part.length]
        for value, first, operand in gate.products
        if operand == part
    ]
    return found[0] if len(found) == 1 else np.asarray(np.sum(found, axis=0, dtype=np.float64))
