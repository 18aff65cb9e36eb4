"""The gradient of a model's parameters and tables, and what it is in double precision."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.cell.evaluate import run_cell
from abw.core.exec.params import Params
from abw.core.grad.cell import Differentiated, Operand
from abw.core.grad.graph import TrainingGraph

Array = NDArray[np.floating[Any]]
Doubles = NDArray[np.float64]
Ints = NDArray[np.int32]
# The values behind references, as `Result.values` gives them.
Read = Callable[[NDArray[np.integer[Any]]], Array]
# So many rows are summed from zero; then the sums of chunks are added in order. What comes out is then the
# same to the bit whatever the batches were, and long sums do not lose digits.
CHUNK = 128


@dataclass(frozen=True, slots=True)
class Gradient:
    """The gradients of a model's parameters, one after the other in `values`, and of its tables.

    Of table t the rows `rows[t]` (k,) were read; their gradients are `tables[t]` (k, floats of a row).
    """

    values: Array
    rows: Mapping[int, Ints]
    tables: Mapping[int, Array]

    def copy(self) -> Gradient:
        """A copy, to be changed."""
        rows = {table: read.copy() for table, read in self.rows.items()}
        tables = {table: sums.copy() for table, sums in self.tables.items()}
        return Gradient(self.values.copy(), rows, tables)

    def norm(self) -> float:
        """The root of the sum of all squares."""
        # not by BLAS, whose threads would spin for what is over in no time
        parts = map(np.ravel, (self.values, *self.tables.values()))
        return math.sqrt(sum(float(np.einsum("i,i->", part, part, dtype=np.float64)) for part in parts))

    def clip(self, most: float) -> float:
        """Scale it in place so that its norm is `most` at most (0: anything); the norm before."""
        norm = self.norm() if most else 0.0
        if most and norm > most:
            self.scale(most / norm)
        return norm

    def scale(self, factor: float) -> None:
        """Multiply it in place."""
        for part in (self.values, *self.tables.values()):
            part *= part.dtype.type(factor)

    def vector(self, params: Params) -> Array:
        """All of it in one vector, as `Params.flat`: the tables' other rows are zeros."""
        size = sum(array.size for array in (*params.values, *params.tables))
        vector, at = np.empty(size, self.values.dtype), len(self.values)
        vector[:at], vector[at:] = self.values, 0
        for number, table in enumerate(params.tables):
            if number in self.rows:
                rows = vector[at : at + table.size].reshape(len(table), -1)
                rows[self.rows[number]] = self.tables[number]
            at += table.size
        return vector


def of_vector(vector: Array, params: Params) -> Gradient:
    """The gradient that a vector is; rows of zeros are left out."""
    at = sum(value.size for value in params.values)
    values, rows, tables = vector[:at], {}, {}
    for number, table in enumerate(params.tables):
        own = vector[at : at + table.size].reshape(len(table), -1)
        rows[number] = np.flatnonzero(own.any(axis=1)).astype(np.int32)
        tables[number] = own[rows[number]]
        at += table.size
    return Gradient(values, rows, tables)


def summed(parts: Sequence[Gradient]) -> Gradient:
    """The sum of gradients, at least one, in their order: the same parts give the same bits."""
    values, tables = parts[0].values.copy(), {}
    for part in parts[1:]:
        values += part.values
    rows = {
        table: np.unique(np.concatenate([part.rows[table] for part in parts if table in part.rows]))
        for table in sorted({table for part in parts for table in part.rows})
    }
    for table, read in rows.items():
        theirs = [part for part in parts if table in part.rows]
        tables[table] = np.zeros((len(read), *theirs[0].tables[table].shape[1:]), values.dtype)
        for part in theirs:
            tables[table][np.searchsorted(read, part.rows[table])] += part.tables[table]
    return Gradient(values, rows, tables)


def gradients_of(made: TrainingGraph, read: Read, params: Params) -> Gradient:
    """The gradient in double precision, from what an executor computed.

    `params` are the network's. Rows are summed in the order of the nodes, CHUNK at a time: the result is the
    same to the bit whatever the schedule was.
    """
    source = made.training.source
    found = [np.zeros(value.shape) for value in params.values]
    for t, net_type in enumerate(source.types):
        derivative = made.training.cells[t]
        count = int(made.graph.type_sizes[t])
        if derivative is None or derivative.backward is None or not derivative.terms or not count:
            continue
        statics = static_gradients(derivative, *_rows_of(made, t, read))
        values = [params.values[number] for number in net_type.params]
        for p, gradient in param_gradients(derivative, statics, values).items():
            found[net_type.params[p]] += gradient
    rows: dict[int, Ints] = {}
    tables: dict[int, Array] = {}
    row = -1 - made.constant.astype(np.int64)
    for constant in source.constants:
        here = np.flatnonzero((row >= constant.first) & (row < constant.first + constant.rows))
        if constant.kind not in ("param", "table") or not len(here):
            continue
        addends = np.asarray(read(made.constant_gradient[here]), np.float64)
        read_rows, sums = _by_row(row[here] - constant.first, addends)
        if constant.kind == "param":
            found[constant.number] += sums[0]
        else:
            rows[constant.number] = read_rows.astype(np.int32)
            tables[constant.number] = sums.reshape(len(sums), -1)
    values_of = np.concatenate([np.zeros(0), *(gradient.ravel() for gradient in found)])
    return Gradient(values_of, rows, tables)


def _rows_of(
    made: TrainingGraph, t: int, read: Read
) -> tuple[Callable[[int], NDArray[Any]], Callable[[Operand], NDArray[Any]]]:
    """What `static_gradients` needs of type t: an output of its backward cell, and an operand, at all nodes.

    Both are in the order of the nodes.
    """
    graph, training = made.graph, made.training

    def output(type: int, number: int) -> NDArray[np.int32]:
        first, last = graph.type_ptr[type : type + 2].tolist()
        return np.arange(first, last, dtype=np.int32) * training.network.width + number

    def dz(number: int) -> NDArray[Any]:
        return read(output(training.first[t], number))

    def x(operand: Operand) -> NDArray[Any]:
        first, last = graph.type_ptr[t : t + 2].tolist()
        if operand.source == "saved":
            values = read(output(t, operand.number))
        else:
            values = read(graph.operand[graph.operand_ptr[first:last] + operand.number])
        return values.reshape(len(values), -1)[:, operand.start : operand.start + operand.length]

    return dz, x


def _by_row(rows: NDArray[np.int64], addends: Doubles) -> tuple[NDArray[np.int64], Doubles]:
    """The rows that there are, rising, and the sums of their addends, in order and CHUNK at a time."""
    order = np.argsort(rows, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(rows[order]) > 0])
    sums = np.zeros((len(starts), *addends.shape[1:]))
    for i, (start, stop) in enumerate(zip(starts, [*starts[1:], len(rows)], strict=True)):
        for begin in range(start, stop, CHUNK):
            sums[i] += addends[order[begin : min(begin + CHUNK, stop)]].sum(axis=0)
    return rows[order][starts], sums


def static_gradients(
    made: Differentiated, dz: Callable[[int], NDArray[Any]], x: Callable[[Operand], NDArray[Any]]
) -> dict[int, Doubles]:
    """The gradients of the values that a type's rows share, by the terms: this is what a kernel has to do.

    `dz(o)` gives the backward cell's output o at all rows (n, *shape), `x(operand)` what they are multiplied
    with, (n, length). Computed in double precision.
    """
    found = {static: np.zeros(made.forward.shape_of(static)) for static in made.statics}
    for term in made.terms:
        left = np.asarray(dz(term.dz), np.float64)
        right = None if term.x is None else np.asarray(x(term.x), np.float64)
        gradient = found[term.static]
        if term.x is not None:
            gradient = gradient[:, term.column : term.column + term.x.length]
        for start in range(0, len(left), CHUNK):
            rows = slice(start, start + CHUNK)
            gradient += left[rows].sum(axis=0) if right is None else left[rows].T @ right[rows]
    return found


def param_gradients(
    made: Differentiated, statics: Mapping[int, Doubles], params: Sequence[NDArray[Any]]
) -> dict[int, Doubles]:
    """From the gradients of what rows share to those of the cell's parameters, by number.

    What rows share is computed of the parameters by a cell, whose forward and backward cells run with NumPy.
    """
    shared = made.shared
    if shared is None or shared.backward is None:
        return {}
    values = [np.asarray(value, np.float64) for value in params]
    gradients = [statics[static] for static in made.statics]
    sources = {"input": values, "saved": run_cell(shared.forward, values, ()), "gradient": gradients}
    read = [sources[leaf.source][leaf.number] for leaf in shared.reads]
    found = run_cell(shared.backward, read, ())
    return {i: found[o] for i, o in shared.inputs.items()}
