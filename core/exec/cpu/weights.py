"""The gradients of weights by kernels, from rows in arenas: what the terms of differentiated cells say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.cpu.gradient_rows import COMPUTED, NOTHING, READ, grouped, place, rows_of_constants
from abw.core.exec.cpu.llvm.weight_grads import JOB
from abw.core.exec.cpu.memory import ArenaMemory
from abw.core.exec.cpu.weight_grads import RowSums, TableSums
from abw.core.exec.gradient import Gradient
from abw.core.exec.lower.rows import columns, matrix_view, padded, row_floats
from abw.core.exec.params import Params
from abw.core.grad.cell import Differentiated, Operand
from abw.core.grad.graph import TrainingGraph
from abw.core.grad.network import Training
from abw.core.grad.terms import param_gradients
from abw.core.jit.pointers import Table, address
from abw.core.plan.arenas import arenas_of
from abw.core.plan.plan import Plan

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
# Rows of one side of a job: see `place`.
Side = tuple[int, int, int, int, int]


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
        sides: dict[Side, int] = {}
        types, numbers = [], []  # of each job its type, and the numbers of both its sides
        self._others: dict[int, dict[int, Floats]] = {}
        sums_of = []
        words = []
        for t, derivative in enumerate(training.cells):
            for dw, z, x in self._type(t, derivative) if derivative else ():
                m, c = dw.shape if x else (1, len(dw))
                sums_of.append(dw)
                words.append([0, dw.strides[0], *[0] * 8, 0, m, c])
                numbers.append(
                    [sides.setdefault(side or (NOTHING, 0, 0, 0, 0), len(sides)) for side in (z, x)]
                )
                types.append(t)
        self._jobs = Table(np.array(words, np.int64).reshape(-1, len(JOB)))
        for job, dw in enumerate(sums_of):
            self._jobs.point((job, JOB.index("dw")), dw)
        self._types, self._of_jobs = np.array(types, np.int64), np.array(numbers, np.int64).reshape(-1, 2)
        self._sides = np.array([*sides], np.int64).reshape(-1, 5)
        self._reading = self._sides[self._sides[:, 0] == READ, 3]
        self._numbers = np.empty(1, np.int32)

    def _type(self, t: int, derivative: Differentiated) -> Iterator[tuple[Floats, Side, Side | None]]:
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
                yield part, (COMPUTED, arena, 0, back, term.dz), self._operand(t, term.x)
                continue
            step = padded(columns(gradient.shape), self._lanes)
            for number, row in enumerate(gradient if gradient.ndim == 2 else [gradient]):
                yield row, (COMPUTED, arena, number * step, back, term.dz), None

    def _operand(self, t: int, x: Operand) -> Side:
        if x.source == "saved":
            return COMPUTED, int(self._arenas.output_arena[t, x.number]), x.start, t, x.number
        return READ, int(self._arenas.slot_arena[t, x.number]), x.start, t, x.number

    def gradient(
        self, made: TrainingGraph, plan: Plan, memory: ArenaMemory, meanwhile: Callable[[], object] | None
    ) -> Gradient:
        """As `abw.core.grad.gradients.gradients_of`, in single precision; `meanwhile` as `RowSums.add`."""
        self._flat[:] = 0
        for others in self._others.values():
            for values in others.values():
                values[:] = 0
        first_row = rows_of_constants(plan)
        self._place(made, plan, memory, first_row)
        self._sums.add(self._jobs.words, meanwhile)
        for t, others in self._others.items():
            derivative = self._training.cells[t]
            if others and derivative is not None:
                self._add_shared(t, derivative, others)
        return self._add_constants(made, plan, memory, first_row)

    def _place(self, made: TrainingGraph, plan: Plan, memory: ArenaMemory, first_row: Ints) -> None:
        """Say in the jobs where their rows lie."""
        graph, arenas = made.graph, self._arenas
        most = int(graph.type_sizes[self._reading].sum())
        if len(self._numbers) < most:
            self._numbers = np.empty(2 * most, np.int32)
        row, numbers = plan.row, self._numbers
        self._jobs.keep("rows", (row, numbers, memory))
        place(
            self._sides, self._of_jobs, self._types,
            (graph.type_ptr, graph.operand_ptr, graph.operand),
            (row, address(row), made.training.network.width),
            (first_row, (arenas.constant_first, arenas.constant_end)),
            (memory.table.words, memory.pitch), (numbers, address(numbers)), self._jobs.words,
        )  # fmt: skip

    def _add_constants(
        self, made: TrainingGraph, plan: Plan, memory: ArenaMemory, first_row: Ints
    ) -> Gradient:
        """Sum what flows into parameters and rows of tables as they are; with that the gradient is whole."""
        arenas, count = self._arenas, len(made.constant)
        many = len(memory.pitch)
        ptr, keys = np.zeros(first_row.size + 2, np.int32), np.empty(count, np.int32)
        number, lying = np.empty(count, np.int32), np.empty(count, np.int32)
        grouped(
            made.constant, made.constant_gradient, (arenas.constant_first, arenas.constant_end),
            (made.graph.type_ptr, arenas.output_arena, plan.row), (arenas.field_arena, first_row),
            ptr, keys, (number, lying),
        )  # fmt: skip
        rows: dict[int, Ints] = {}
        tables: dict[int, Floats] = {}
        ends = ptr.tolist()
        for c, constant in enumerate(self._training.source.constants):
            first = c * many
            if constant.kind not in ("param", "table") or ends[first] == ends[first + many]:
                continue
            if constant.kind == "table":
                sums = self._tables[constant.number]
            else:
                sums = TableSums(1, row_floats(constant.shape, self._lanes))
            sums.clear()
            for a in range(many):
                own = slice(ends[first + a], ends[first + a + 1])
                if own.start < own.stop:
                    sums.add(number[own], memory.rowwise(a), lying[own])
            values = matrix_view(sums.values, constant.shape, self._lanes)
            if constant.kind == "table":
                rows[constant.number] = sums.rows
                tables[constant.number] = np.ascontiguousarray(values).reshape(len(values), -1)
            else:
                self._views[constant.number] += values[0]
        return Gradient(self._flat, rows, tables)

    def _add_shared(self, t: int, derivative: Differentiated, others: dict[int, Floats]) -> None:
        """Bring the gradients of what is computed of weights alone back to these."""
        given = {s: np.zeros(derivative.shape_of(s)) for s in derivative.statics if s not in others}
        given |= {s: gradient.astype(np.float64) for s, gradient in others.items()}
        numbers = self._training.source.types[t].params
        params = [self._params.values[number] for number in numbers]
        for p, gradient in param_gradients(derivative, given, params).items():
            self._views[numbers[p]] += gradient.astype(np.float32)
