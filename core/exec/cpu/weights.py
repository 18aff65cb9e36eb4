"""The gradients of weights by kernels, from rows in arenas: what the terms of differentiated cells say."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.cpu.llvm.outer import JOB
from abw.core.exec.cpu.memory import ArenaMemory
from abw.core.exec.cpu.outer import RowSums, TableSums
from abw.core.exec.cpu.packing import address
from abw.core.exec.gradient import Gradient
from abw.core.exec.lower.rows import columns, matrix_view, padded, row_floats
from abw.core.exec.params import Params
from abw.core.exec.values import located, rows_in
from abw.core.grad.cell import Differentiated, Operand
from abw.core.grad.gradients import x_of
from abw.core.grad.graph import TrainingGraph
from abw.core.grad.network import Training
from abw.core.grad.terms import param_gradients
from abw.core.plan.arenas import arenas_of
from abw.core.plan.plan import Plan

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
Read = tuple[int, Operand]
"""A type, and what a term of its cell reads."""

_SIDES = slice(JOB.index("z"), JOB.index("n"))


@dataclass(frozen=True, slots=True)
class _Rows:
    """Floats `start` and on of rows of an arena: of output `output` of a type's nodes, or what is `read`."""

    arena: int
    start: int
    type: int = 0
    output: int = 0
    read: Read | None = None


class WeightGradients:
    """The gradients of one training network's parameters, again and again in the same memory.

    What is to be summed is a table of jobs (see `RowSums`), made once; each mini-batch says where rows lie.
    """

    def __init__(self, sums: RowSums, training: Training, params: Params, lanes: int) -> None:
        """`params`: whatever has the shapes of the network's; `lanes` floats are a vector."""
        self._sums, self._training, self._lanes = sums, training, lanes
        ends = np.cumsum([0, *(value.size for value in params.values)]).tolist()
        self._flat = np.zeros(ends[-1], np.float32)
        self._views = [
            self._flat[first:last].reshape(value.shape)
            for (first, last), value in zip(pairwise(ends), params.values, strict=True)
        ]
        self._params = params
        self._tables = [TableSums(len(table), row_floats(table.shape[1:], lanes)) for table in params.tables]
        self._arenas = arenas_of(training.network)
        self._rows: dict[_Rows | None, int] = {None: 0}
        nodes, sides = [], []  # of each job its type, and the numbers of both its sides' rows
        self._others: dict[int, dict[int, Floats]] = {}
        words = []
        for t, derivative in enumerate(training.cells):
            for dw, z, x in self._type(t, derivative) if derivative else ():
                m, c = dw.shape if x else (1, len(dw))
                words.append([int(dw.ctypes.data), dw.strides[0], *[0] * 8, 0, m, c])
                sides.append([self._rows.setdefault(rows, len(self._rows)) for rows in (z, x)])
                nodes.append(t)
        self._jobs = np.array(words, np.int64).reshape(-1, len(JOB))
        self._nodes = np.array(nodes, np.int64)
        self._sides = np.array(sides, np.int64).reshape(-1, 2)

    def _type(self, t: int, derivative: Differentiated) -> Iterator[tuple[Floats, _Rows, _Rows | None]]:
        """What is to be summed of a type: to where, and the rows of either side."""
        inputs, first_op = len(derivative.forward.inputs), derivative.forward.first_op
        numbers, back = self._training.source.types[t].params, self._training.first[t]
        # mostly what rows share is a parameter itself
        direct = {s: self._views[numbers[s - inputs]] for s in derivative.statics if s < first_op}
        others = {
            s: np.zeros(derivative.shape_of(s), np.float32) for s in derivative.statics if s not in direct
        }
        self._others[t] = others

        for term in derivative.terms:
            gradient = {**direct, **others}[term.static]
            arena = int(self._arenas.output_arena[back, term.dz])
            if term.x is not None:
                part = gradient[:, term.column : term.column + term.x.length]
                yield part, _Rows(arena, 0, back, term.dz), self._operand(t, term.x)
                continue
            step = padded(columns(gradient.shape), self._lanes)
            for number, row in enumerate(gradient if gradient.ndim == 2 else [gradient]):
                yield row, _Rows(arena, number * step, back, term.dz), None

    def _operand(self, t: int, x: Operand) -> _Rows:
        if x.source == "saved":
            return _Rows(int(self._arenas.output_arena[t, x.number]), x.start, t, x.number)
        return _Rows(int(self._arenas.slot_arena[t, x.number]), x.start, read=(t, x))

    def gradient(self, made: TrainingGraph, plan: Plan, memory: ArenaMemory) -> Gradient:
        """As `abw.core.grad.gradients.gradients_of`, in single precision."""
        self._flat[:] = 0
        for others in self._others.values():
            for values in others.values():
                values[:] = 0
        self._add_products(made, plan, memory)
        for t, others in self._others.items():
            derivative = self._training.cells[t]
            if others and derivative is not None:
                self._add_shared(t, derivative, others)
        rows: dict[int, Ints] = {}
        tables: dict[int, Floats] = {}
        index = -1 - made.constant
        for constant in self._training.source.constants:
            if constant.kind not in ("param", "table"):
                continue
            here = np.flatnonzero((constant.first <= index) & (index < constant.first + constant.rows))
            if not len(here):
                continue
            number, references = index[here] - constant.first, made.constant_gradient[here]
            if constant.kind == "table":
                sums = self._tables[constant.number]
            else:
                sums = TableSums(1, row_floats(constant.shape, self._lanes))
            sums.clear()
            places, lying = located(plan, references)
            for arena in sorted(set(places[places >= 0].tolist())):
                own = places == arena
                sums.add(number[own], memory.rowwise(arena), lying[own])
            values = matrix_view(sums.values, constant.shape, self._lanes)
            if constant.kind == "table":
                rows[constant.number] = sums.rows
                tables[constant.number] = np.ascontiguousarray(values).reshape(len(values), -1)
            elif len(values):
                self._views[constant.number] += values[0]
        return Gradient(self._flat, rows, tables)

    def _add_products(self, made: TrainingGraph, plan: Plan, memory: ArenaMemory) -> None:
        """Sum all that kernels sum, by each job's rows."""
        width, known = made.training.network.width, address(plan.row)
        first = made.graph.type_ptr.tolist()
        read: dict[Read, Ints] = {}

        def lying(rows: _Rows | None) -> tuple[int, int, int, int]:
            """Where rows and their numbers begin, and the bytes from one number, and row, to the next."""
            if rows is None:
                return 0, 0, 0, 0
            place, pitch = int(memory.at[rows.arena]) + 4 * rows.start, int(memory.pitch[rows.arena])
            if rows.read is None:
                return place, known + 4 * (first[rows.type] * width + rows.output), 4 * width, pitch
            if rows.read not in read:
                read[rows.read] = rows_in(plan, rows.arena, x_of(made, *rows.read))
            return place, address(read[rows.read]), 4, pitch

        words = np.array([lying(rows) for rows in self._rows], np.int64)
        self._jobs[:, _SIDES] = words[self._sides].reshape(len(self._jobs), 8)
        self._jobs[:, JOB.index("n")] = made.graph.type_sizes[self._nodes]
        self._sums.add(self._jobs)

    def _add_shared(self, t: int, derivative: Differentiated, others: dict[int, Floats]) -> None:
        """Bring the gradients of what is computed of weights alone back to these."""
        given = {s: np.zeros(derivative.shape_of(s)) for s in derivative.statics if s not in others}
        given |= {s: gradient.astype(np.float64) for s, gradient in others.items()}
        numbers = self._training.source.types[t].params
        params = [self._params.values[number] for number in numbers]
        for p, gradient in param_gradients(derivative, given, params).items():
            self._views[numbers[p]] += gradient.astype(np.float32)
