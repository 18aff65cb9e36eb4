"""The gradients of weights by kernels, from rows in arenas: what the terms of differentiated cells say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.cpu.llvm.weight_grads import JOB
from abw.core.exec.cpu.weight_grads import RowSums, TableSums
from abw.core.exec.gradient import Gradient, param_gradients
from abw.core.exec.lower.rows import columns, matrix_view, padded, row_floats
from abw.core.exec.memory import ArenaMemory
from abw.core.exec.params import Params
from abw.core.grad.cell import Differentiated, Operand
from abw.core.grad.graph import TrainingGraph
from abw.core.grad.network import Training
from abw.core.jit.decorators import njit
from abw.core.jit.pointers import Table, address
from abw.core.plan.arenas import arenas_of
from abw.core.plan.kernels import range_of
from abw.core.plan.plan import Plan

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
# Rows of one side of a job: what they are, their arena, the first float read, the type, its output or slot.
Side = tuple[int, int, int, int, int]
# A one for each row; an output of the type's nodes; what these read in a slot.
ONES, COMPUTED, READ = range(3)

_DW, _Z, _Z_ROWS, _N = (JOB.index(name) for name in ("dw", "z", "z_rows", "n"))


class WeightGradients:
    """The gradients of one training network's parameters, again and again in the same memory: of `params`,
    which may be others of their shapes each time.

    What is to be summed is a table of jobs (see `RowSums`), made once; each mini-batch says where rows lie.
    """

    def __init__(self, sums: RowSums, training: Training, params: Params, lanes: int) -> None:
        """`lanes` floats are a vector."""
        self._sums, self._training, self._lanes = sums, training, lanes
        ends = np.cumsum([0, *(value.size for value in params.values)]).tolist()
        self._flat = np.zeros(ends[-1], np.float32)
        self._views = [
            self._flat[first:last].reshape(value.shape)
            for (first, last), value in zip(pairwise(ends), params.values, strict=True)
        ]
        self.params = params
        self._tables = [TableSums(len(table), row_floats(table.shape[1:], lanes)) for table in params.tables]
        self._arenas = arenas_of(training.network)
        sides: dict[Side, int] = {}
        types, numbers = [], []  # of each job its type, and the numbers of both its sides
        self._others: dict[int, dict[int, Floats]] = {}
        sums_of = []
        words = []
        for t, derivative in enumerate(training.cells):
            for dw, z, x in self._type(t, derivative) if derivative else ():
                sums_of.append(dw)
                words.append([0, dw.strides[0], *[0] * 9, *dw.shape])
                numbers.append([sides.setdefault(side, len(sides)) for side in (z, x)])
                types.append(t)
        self._jobs = Table(np.array(words, np.int64).reshape(-1, len(JOB)))
        # all rows are the first one, until `_place` says otherwise
        ones, first = np.ones(lanes, np.float32), np.zeros(1, np.int32)
        for job, dw in enumerate(sums_of):
            for place, array in ((_DW, dw), (_Z, ones), (_Z_ROWS, first)):
                self._jobs.point((job, place), array)
        self._types, self._of_jobs = np.array(types, np.int64), np.array(numbers, np.int64).reshape(-1, 2)
        self._sides = np.array([*sides], np.int64).reshape(-1, 5)
        self._read = np.empty(1, np.int32)

    def _type(self, t: int, derivative: Differentiated) -> Iterator[tuple[Floats, Side, Side]]:
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
            for number, row in enumerate(gradient.reshape(-1, 1, gradient.shape[-1])):
                yield row, (ONES, 0, 0, 0, 0), (COMPUTED, arena, number * step, back, term.dz)

    def _operand(self, t: int, x: Operand) -> Side:
        if x.source == "saved":
            return COMPUTED, int(self._arenas.output_arena[t, x.number]), x.start, t, x.number
        return READ, int(self._arenas.slot_arena[t, x.number]), x.start, t, x.number

    def gradient(
        self, made: TrainingGraph, plan: Plan, memory: ArenaMemory, meanwhile: Callable[[], object] | None
    ) -> Gradient:
        """The gradient of parameters and tables in single precision; `meanwhile`: see `RowSums.add`."""
        self._flat[:] = 0
        for others in self._others.values():
            for values in others.values():
                values[:] = 0
        self._place(made, plan, memory)
        self._sums.add(self._jobs.words, meanwhile)
        for t, others in self._others.items():
            derivative = self._training.cells[t]
            if others and derivative is not None:
                self._add_shared(t, derivative, others)
        return self._add_constants(made, plan, memory)

    def _place(self, made: TrainingGraph, plan: Plan, memory: ArenaMemory) -> None:
        """Say in the jobs where their rows lie: those of outputs by the plan, those that nodes read here."""
        graph, arenas = made.graph, self._arenas
        forward = int(graph.operand_ptr[made.forward])
        if len(self._read) < forward:
            self._read = np.empty(2 * forward, np.int32)
        row, read = plan.row, self._read
        self._jobs.keep("rows", (row, read, memory))
        _place(
            (self._sides, self._of_jobs, self._types), (graph.type_ptr, graph.operand_ptr, graph.operand),
            (arenas.slots, made.training.network.width), (memory.table.words, memory.pitch),
            (plan.constant_row, arenas.constant_first, arenas.constant_end),
            (row, read), (address(row), address(read)), self._jobs.words,
        )  # fmt: skip

    def _add_constants(self, made: TrainingGraph, plan: Plan, memory: ArenaMemory) -> Gradient:
        """Sum what flows into parameters and rows of tables as they are; with that the gradient is whole."""
        arenas, many = self._arenas, len(memory.pitch)
        ptr = np.zeros(plan.constant_row.size + 2, np.int32)
        found = np.empty((2, len(made.constant)), np.int32)
        _group(
            (made.constant, made.constant_gradient), (arenas.constant_first, arenas.constant_end),
            (made.graph.type_ptr, arenas.output_arena, plan.row), (arenas.field_arena, plan.constant_row),
            ptr, found,
        )  # fmt: skip
        within, source_row = found
        rows: dict[int, Ints] = {}
        tables: dict[int, Floats] = {}
        ends = ptr.tolist()
        for c, constant in enumerate(self._training.source.constants):
            groups = range(c * many, c * many + many)
            if constant.kind not in ("param", "table") or ends[groups.start] == ends[groups.stop]:
                continue
            if constant.kind == "table":
                sums = self._tables[constant.number]
            else:
                sums = TableSums(1, row_floats(constant.shape, self._lanes))
            sums.clear()
            for a, group in enumerate(groups):
                own = slice(ends[group], ends[group + 1])
                if own.start < own.stop:
                    sums.add(within[own], memory.rowwise(a), source_row[own])
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
        params = [self.params.values[number] for number in numbers]
        for p, gradient in param_gradients(derivative, given, params).items():
            self._views[numbers[p]] += gradient.astype(np.float32)


@njit
def _place(
    sides: tuple[Longs, Longs, Longs],
    graph: tuple[Ints, Ints, Ints],
    sizes: tuple[Ints, int],
    memory: tuple[Longs, Longs],
    constants: tuple[Ints, Ints, Ints],
    rows: tuple[Ints, Ints],
    addresses: tuple[int, int],
    jobs: Longs,
) -> None:
    """Write into jobs (see `RowSums`) where the rows of both sides lie.

    `sides`: those (k, 5) that there are (see `Side`); their numbers of each job (jobs, 2), and its type.
    `sizes`: the slots of each type, the outputs of a node. `memory`: where each arena begins, and the bytes
    of its rows. `rows`: of each value, and room for those of what nodes read, by operand; `addresses`: where
    both begin.
    """
    every, of_jobs, types = sides
    type_ptr, operand_ptr, operand = graph
    row, read = rows
    first_row, first, end = constants
    for k in range(len(every)):
        kind, arena, start, t, o = every[k]
        if kind == ONES:
            continue
        place, step = addresses[0] + 4 * (type_ptr[t] * sizes[1] + o), sizes[1]
        if kind == READ:
            constant, step = 0, sizes[0][t]
            begin = operand_ptr[type_ptr[t]] + o
            place = addresses[1] + 4 * begin
            for i in range(begin, operand_ptr[type_ptr[t + 1]], step):
                if operand[i] >= 0:
                    read[i] = row[operand[i]]
                else:
                    constant = range_of(-1 - operand[i], first, end, constant)
                    read[i] = first_row[arena, constant] - 1 - operand[i] - first[constant]
        for j in range(len(jobs)):
            for side in range(2):
                if of_jobs[j, side] == k:
                    to = _Z + 4 * side
                    jobs[j, to], jobs[j, to + 1] = memory[0][arena] + 4 * start, place
                    jobs[j, to + 2], jobs[j, to + 3] = 4 * step, memory[1][arena]
    for j in range(len(jobs)):
        jobs[j, _N] = type_ptr[types[j] + 1] - type_ptr[types[j]]


@njit
def _group(
    references: tuple[Ints, Ints],
    bounds: tuple[Ints, Ints],
    values: tuple[Ints, Ints, Ints],
    fields: tuple[Ints, Ints],
    ptr: Ints,
    found: Ints,
) -> None:
    """What flows into constants' gradients, by constant and arena: of group c * A + a from `ptr` of it on.

    `references`: of constants (n,) and what flows into each; zeros are left out. `bounds`: the references of
    each constant. `values`: `type_ptr`, the arenas of outputs (T, W), the row of each value; `fields`: the
    arena of each constant that is a field of vertices, and the first rows. `ptr` (C * A + 2,) are zeros.
    `found` (2, n): group by group in the order given, which row of the constant it is, and the row of what
    flows into it.
    """
    constants, gradients = references
    first, end = bounds
    type_ptr, output_arena, row = values
    field_arena, first_row = fields
    within, source_row = found[0], found[1]
    width = np.uint32(output_arena.shape[1])
    t = c = field = 0
    for again in range(2):  # first counted, then written
        for i in range(len(constants)):
            reference = gradients[i]
            c = range_of(-1 - constants[i], first, end, c)
            if reference >= 0:
                t = range_of(np.uint32(reference) // width, type_ptr, type_ptr[1:], t)
                arena = output_arena[t, np.uint32(reference) % width]
            else:
                field = range_of(-1 - reference, first, end, field)
                arena = field_arena[field]
            if arena < 0:
                continue
            key = c * len(first_row) + arena
            if not again:
                ptr[key + 2] += 1
                continue
            at = ptr[key + 1]
            ptr[key + 1] += 1
            within[at] = -1 - constants[i] - first[c]
            source_row[at] = (
                row[reference] if reference >= 0 else first_row[arena, field] - 1 - reference - first[field]
            )
        for g in range(2, len(ptr) if not again else 0):
            ptr[g] += ptr[g - 1]
