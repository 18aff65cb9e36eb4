"""The gradients of all parameters and tables, from the values of a training graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.grad.cell import Operand
from abw.core.grad.graph import TrainingGraph
from abw.core.grad.terms import CHUNK, Array, param_gradients, static_gradients

# The values behind references, as `Result.values` gives them.
Read = Callable[[NDArray[np.integer[Any]]], NDArray[np.floating[Any]]]


@dataclass(frozen=True, slots=True)
class Gradients:
    """`params[i]` is the gradient of parameter i of the network; None where nothing reaches it.

    `tables[i]` has the rows of table i that were read, rising, and their gradients (rows, *shape).
    """

    params: tuple[Array | None, ...]
    tables: Mapping[int, tuple[NDArray[np.int64], Array]]


def gradients_of(made: TrainingGraph, read: Read, params: Sequence[NDArray[Any]]) -> Gradients:
    """The gradients of parameters and tables in double precision, from what an executor computed.

    `params` are the network's (`Params.values`). Rows are summed in the order of the nodes, CHUNK at a time:
    the result is the same to the bit whatever the schedule was.
    """
    source = made.training.source
    found: list[Array | None] = [None] * len(source.params)

    def add(number: int, gradient: Array) -> None:
        before = found[number]
        found[number] = gradient if before is None else before + gradient

    for t, net_type in enumerate(source.types):
        derivative = made.training.cells[t]
        count = int(made.graph.type_sizes[t])
        if derivative is None or derivative.backward is None or not derivative.terms or not count:
            continue
        statics = static_gradients(derivative, *rows_of(made, t, read))
        values = [params[number] for number in net_type.params]
        for p, gradient in param_gradients(derivative, statics, values).items():
            add(net_type.params[p], gradient)
    tables: dict[int, tuple[NDArray[np.int64], Array]] = {}
    row = -1 - made.constant.astype(np.int64)
    for constant in source.constants:
        here = np.flatnonzero((row >= constant.first) & (row < constant.first + constant.rows))
        if constant.kind not in ("param", "table") or not len(here):
            continue
        addends = np.asarray(read(made.constant_gradient[here]), np.float64)
        rows, sums = _by_row(row[here] - constant.first, addends)
        if constant.kind == "param":
            add(constant.number, sums[0])
        else:
            tables[constant.number] = rows, sums
    return Gradients(tuple(found), tables)


def rows_of(
    made: TrainingGraph, t: int, read: Read
) -> tuple[Callable[[int], NDArray[Any]], Callable[[Operand], NDArray[Any]]]:
    """What `static_gradients` needs of type t: an output of its backward cell, and an operand, at all nodes.

    Both are in the order of the nodes. A kernel that reads the rows where they lie has their references by
    `dz_of` and `x_of`.
    """

    def dz(output: int) -> NDArray[Any]:
        return read(dz_of(made, t, output))

    def x(operand: Operand) -> NDArray[Any]:
        values = read(x_of(made, t, operand))
        return values.reshape(len(values), -1)[:, operand.start : operand.start + operand.length]

    return dz, x


def dz_of(made: TrainingGraph, t: int, output: int) -> NDArray[np.int32]:
    """The references of an output of the backward cell of type t, at all of its nodes."""
    first, last = made.graph.type_ptr[made.training.first[t] :][:2].tolist()
    return np.arange(first, last, dtype=np.int32) * made.training.network.width + output


def x_of(made: TrainingGraph, t: int, operand: Operand) -> NDArray[np.int32]:
    """The references of what a term multiplies with, at all nodes of type t."""
    graph = made.graph
    first, last = graph.type_ptr[t : t + 2].tolist()
    if operand.source == "saved":
        return np.arange(first, last, dtype=np.int32) * made.training.network.width + operand.number
    return graph.operand[graph.operand_ptr[first:last] + operand.number]


def _by_row(rows: NDArray[np.int64], addends: Array) -> tuple[NDArray[np.int64], Array]:
    """The rows that there are, rising, and the sums of their addends, in order and CHUNK at a time."""
    order = np.argsort(rows, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(rows[order]) > 0])
    sums = np.zeros((len(starts), *addends.shape[1:]))
    for i, (start, stop) in enumerate(zip(starts, [*starts[1:], len(rows)], strict=True)):
        for begin in range(start, stop, CHUNK):
            sums[i] += addends[order[begin : min(begin + CHUNK, stop)]].sum(axis=0)
    return rows[order][starts], sums
