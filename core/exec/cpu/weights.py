"""The gradients of weights by kernels, from rows in arenas: what the terms of differentiated cells say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.cpu.outer import RowSums, TableSums
from abw.core.exec.gradient import Gradient
from abw.core.exec.lower.rows import columns, matrix_view, padded, row_floats
from abw.core.exec.params import Params
from abw.core.exec.values import arenas_at, rows_in
from abw.core.grad.cell import Differentiated, Operand
from abw.core.grad.gradients import dz_of, x_of
from abw.core.grad.graph import TrainingGraph
from abw.core.grad.network import Training
from abw.core.grad.terms import param_gradients
from abw.core.plan.plan import Plan

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]


class WeightGradients:
    """The gradients of one training network's parameters, again and again in the same memory."""

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

    def gradient(self, made: TrainingGraph, plan: Plan, arenas: Sequence[Floats]) -> Gradient:
        """As `abw.core.grad.gradients.gradients_of`, in single precision; `arenas` (rows, floats), padded."""
        self._flat[:] = 0
        source = self._training.source
        for t, net_type in enumerate(source.types):
            derivative = self._training.cells[t]
            if derivative is not None and derivative.terms and made.graph.type_sizes[t]:
                self._type(made, plan, arenas, t, derivative, net_type.params)
        rows: dict[int, Ints] = {}
        tables: dict[int, Floats] = {}
        index = -1 - made.constant
        for constant in source.constants:
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
            places = arenas_at(plan, references)
            for arena in np.unique(places[places >= 0]).tolist():
                own = places == arena
                sums.add(number[own], arenas[arena], rows_in(plan, arena, references[own]))
            values = matrix_view(sums.values, constant.shape, self._lanes)
            if constant.kind == "table":
                rows[constant.number] = sums.rows
                tables[constant.number] = np.ascontiguousarray(values).reshape(len(values), -1)
            elif len(values):
                self._views[constant.number] += values[0]
        return Gradient(self._flat, rows, tables)

    def _type(
        self,
        made: TrainingGraph,
        plan: Plan,
        arenas: Sequence[Floats],
        t: int,
        derivative: Differentiated,
        numbers: Sequence[int],
    ) -> None:
        """Add what the nodes of a type give."""
        inputs, first_op = len(derivative.forward.inputs), derivative.forward.first_op
        # mostly what rows share is a parameter itself
        direct = {s: self._views[numbers[s - inputs]] for s in derivative.statics if s < first_op}
        others = {
            s: np.zeros(derivative.shape_of(s), np.float32) for s in derivative.statics if s not in direct
        }
        back = self._training.first[t]
        known: dict[tuple[int, int], tuple[int, Ints]] = {}

        def lying(what: int | Operand) -> tuple[Floats, Ints]:
            source = "" if isinstance(what, int) else what.source
            number = what if isinstance(what, int) else what.number
            key = ("", "input", "saved").index(source), number
            if key not in known:
                if isinstance(what, int):
                    arena, references = plan.arenas.output_arena[back, what], dz_of(made, t, what)
                else:
                    of = plan.arenas.slot_arena if source == "input" else plan.arenas.output_arena
                    arena, references = of[t, number], x_of(made, t, what)
                known[key] = int(arena), rows_in(plan, int(arena), references)
            arena, rows = known[key]
            return arenas[arena], rows

        self._add(derivative, lying, {**direct, **others})
        if others:
            given = {s: np.zeros(derivative.shape_of(s)) for s in direct}
            given |= {s: gradient.astype(np.float64) for s, gradient in others.items()}
            params = [self._params.values[number] for number in numbers]
            for p, gradient in param_gradients(derivative, given, params).items():
                self._views[numbers[p]] += gradient.astype(np.float32)

    def _add(self, derivative: Differentiated, lying: Any, found: Mapping[int, Floats]) -> None:  # noqa: ANN401
        """Add to the gradients of what rows share, term by term."""
        for term in derivative.terms:
            memory, rows = lying(term.dz)
            gradient = found[term.static]
            if term.x is not None:
                other, other_rows = lying(term.x)
                part = gradient[:, term.column : term.column + term.x.length]
                self._sums.outer(part, memory, rows, other[:, term.x.start :], other_rows)
            elif gradient.ndim == 2:
                step = padded(columns(gradient.shape), self._lanes)
                for number, row in enumerate(gradient):
                    self._sums.columns(row, memory[:, number * step :], rows)
            else:
                self._sums.columns(gradient, memory, rows)
