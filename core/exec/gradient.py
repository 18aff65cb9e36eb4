"""The gradient of a model's parameters and tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.params import Params
from abw.core.grad.gradients import Gradients

Array = NDArray[np.floating[Any]]
Ints = NDArray[np.int32]


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
        vector = np.zeros(size, self.values.dtype)
        at = len(self.values)
        vector[:at] = self.values
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


def joined(found: Gradients, params: Params) -> Gradient:
    """Gradients by parameter in one vector."""
    parts = [
        np.zeros(value.size) if gradient is None else gradient.ravel()
        for gradient, value in zip(found.params, params.values, strict=True)
    ]
    return Gradient(
        np.concatenate([np.zeros(0), *parts]),
        {table: rows.astype(np.int32) for table, (rows, _) in found.tables.items()},
        {table: sums.reshape(len(sums), -1) for table, (_, sums) in found.tables.items()},
    )
