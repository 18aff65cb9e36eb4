"""The gradients of all parameters and tables, from the values of a training graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.cell.evaluate import run_cell
from abw.core.grad.cell import Differentiated, Operand
from abw.core.grad.graph import TrainingGraph

Array = NDArray[np.float64]
# The values behind references, as `Result.values` gives them.
Read = Callable[[NDArray[np.integer[Any]]], NDArray[np.floating[Any]]]
# So many rows are summed from zero; then the sums of chunks are added in order. What comes out is then the
# same to the bit whatever the batches were, and long sums do not lose digits.
CHUNK = 128


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
        statics = static_gradients(derivative, *_rows_of(made, t, read))
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


def _by_row(rows: NDArray[np.int64], addends: Array) -> tuple[NDArray[np.int64], Array]:
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
) -> dict[int, Array]:
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
    made: Differentiated, statics: Mapping[int, Array], params: Sequence[NDArray[Any]]
) -> dict[int, Array]:
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
