"""Granularity `op`: each operation of a recorded call is a node."""

from __future__ import annotations

import numpy as np

from abw.core.graph.ops import op_network
from abw.core.ir.network import Network
from abw.core.program.engines.engine import Engine
from abw.core.program.recording.segments import Ints, Longs, Segment


class OpEngine(Engine):
    """Executes the network of operations for calls of cells, and returns the values of cells."""

    by_tape = False
    _calls = _expanded = 0
    _where: Ints = np.zeros(0, np.int32)  # by the reference of a cell's output, that of the operation's

    def _executed_network(self, cells: Network) -> Network:
        """The network of operations."""
        ops = op_network(cells)
        self._templates = ops.templates
        self._steps = np.array([len(t.steps) for t in ops.templates])
        lookups = {c: t for template in ops.templates for of in template.lookups for c, t in of.items()}
        self._reduces = np.array([t.cell is None for t in cells.types], np.bool_)
        self._lookups = [(cells.constants[c], t) for c, t in lookups.items()]
        return ops.network

    def begin(self, base: int) -> None:
        """Begin a run: see `Engine.begin`."""
        super().begin(base)
        self._expanded = self._calls = 0

    def advance(self, segment: Segment) -> None:
        """Compute the operations of the next nodes. Errors: TooLargeError."""
        self.prepare()
        self._calls += len(segment)
        self._execute(self._expand(segment))

    @property
    def recorded(self) -> int:
        """How many calls of cells this run has computed."""
        return self._calls

    def _executed(self, references: Longs) -> Longs:
        return self._where[references].astype(np.int64)

    def _expand(self, segment: Segment) -> Segment:
        """The operations of a segment's cells, and the rows that they look up, cell after cell.

        An operation has one output: its number is its value's reference. Of a cell, the rows come first.
        Linear in operands and operations.
        """
        cell = np.repeat(np.arange(len(segment)), np.diff(segment.operand_ptr))  # that reads an operand
        looked_up = self._looked_up(segment.operand)
        looked_up[self._reduces[segment.type][cell]] = -1
        rows = np.bincount(cell[looked_up >= 0], minlength=len(segment))
        count = rows + self._steps[segment.type]
        first = np.cumsum(count) - count  # of a cell's operations
        step = first + rows
        self._place(segment, step)
        row = np.cumsum(looked_up >= 0) - 1 - (np.cumsum(rows) - rows)[cell] + first[cell]
        fed = np.where(looked_up >= 0, row + self._expanded, segment.operand)
        earlier = segment.operand >= 0
        fed[earlier] = self._where[segment.operand[earlier]]

        type_of, sizes = np.empty((2, int(count.sum())), np.int32)
        here = looked_up >= 0
        type_of[row[here]], sizes[row[here]] = looked_up[here], 1
        operands = [(row[here], segment.operand[here][:, None])]
        reduced: list[tuple[Longs, Ints, Ints]] = []
        for t, template in enumerate(self._templates):
            nodes = np.flatnonzero(segment.type == t)
            if self._reduces[t] and len(nodes):
                counts = np.diff(segment.operand_ptr)[nodes]
                type_of[step[nodes]], sizes[step[nodes]] = template.steps[0].type, counts
                reduced.append((step[nodes], segment.operand_ptr[nodes], counts))
                continue
            for j, made in enumerate(template.steps if len(nodes) else ()):
                begin, at = segment.operand_ptr[nodes], step[nodes]
                args = [fed[begin + n] if is_slot else self._expanded + at + n for is_slot, n in made.args]
                type_of[at + j], sizes[at + j] = made.type, len(args)
                operands.append(
                    (at + j, np.stack(args, axis=1) if args else np.empty((len(nodes), 0), np.int32))
                )
        ptr = np.append(0, np.cumsum(sizes)).astype(np.int32)
        operand = np.empty(ptr[-1], np.int32)
        for at, values in operands:
            operand[ptr[at][:, None] + np.arange(values.shape[1])] = values
        for at, begin, counts in reduced:
            within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
            operand[np.repeat(ptr[at], counts) + within] = fed[np.repeat(begin, counts) + within]
        found = Segment(self._expanded, type_of, np.repeat(segment.instance, count), ptr, operand)
        self._expanded += len(found)
        return found

    def _looked_up(self, operand: Ints) -> Ints:
        """The type of node that looks up each operand that is a table's row; -1 for other operands."""
        found = np.full(len(operand), -1, np.int32)
        for constant, t in self._lookups:
            number = -1 - operand.astype(np.int64) - constant.first
            found[(number >= 0) & (number < constant.rows)] = t
        return found

    def _place(self, segment: Segment, step: Longs) -> None:
        """Note where the outputs of cells are computed, whose own operations begin at `step`."""
        width = self.cells.width
        end = (segment.first + len(segment)) * width
        if end > len(self._where):
            self._where = np.append(self._where, np.zeros(2 * end - len(self._where), np.int32))
        for t, template in enumerate(self._templates):
            nodes = np.flatnonzero(segment.type == t)
            for o, made in enumerate(template.outputs):
                self._where[(segment.first + nodes) * width + o] = self._expanded + step[nodes] + made
