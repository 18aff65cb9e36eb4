"""Arenas as arrays: filled with what no node computes, and read by reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.params import Params, constant_value
from abw.core.graph.graph import Graph
from abw.core.ir.network import Network
from abw.core.jit.decorators import njit
from abw.core.plan.arenas import Arenas
from abw.core.plan.kernels import range_of
from abw.core.plan.plan import Plan

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]


def single(values: NDArray[np.floating[Any]]) -> Floats:
    """Values in single precision; what is too large for it is infinite, without a warning of NumPy's."""
    if values.dtype == np.float32:
        return values
    with np.errstate(over="ignore"):
        return values.astype(np.float32)


def fill_constants(
    memory: Floats,
    arena: int,
    arenas: Arenas,
    network: Network,
    params: Params,
    changed: Mapping[int, Ints] | None = None,
) -> None:
    """Write the zeros, parameters and tables of an arena to their rows of `memory` (rows, *shape).

    `changed`: write only the parameters, and of table t the rows `changed[t]`.
    """
    for constant, first in zip(network.constants, arenas.constant_row[arena].tolist(), strict=True):
        if first < 0 or constant.kind == "kept":
            continue
        rows = memory[first : first + constant.rows]
        if constant.kind == "param":
            rows[:] = params.values[constant.number]
        elif changed is None:
            rows[:] = params.tables[constant.number] if constant.kind == "table" else 0
        elif constant.kind == "table" and constant.number in changed:
            table, numbers = params.tables[constant.number], changed[constant.number]
            if table.ndim == 2:
                _copy(table, numbers, rows)
            else:
                rows[numbers] = table[numbers]


def fill_given(memory: Sequence[Floats], plan: Plan) -> None:
    """Write a plan's fields of vertices to their rows of the arenas (rows, *shape)."""
    for arena, row, values in plan.given:
        if len(values):  # an arena without rows has no shape
            memory[arena][row : row + len(values)] = values


def kept_rows(network: Network, arenas: Arenas) -> Ints:
    """(T, W): where the kept leaves of each type's outputs begin in their arenas; -1 where none are kept."""
    first = np.full(arenas.output_arena.shape, -1, np.int32)
    for number, constant in enumerate(network.constants):
        if constant.kind == "kept":
            place = divmod(constant.number, network.width)
            first[place] = arenas.constant_row[arenas.output_arena[place], number]
    return first


@njit
def _copy(table: Floats, rows: Ints, memory: Floats) -> None:
    for row in rows:
        for j in range(table.shape[1]):
            memory[row, j] = table[row, j]


def refuse_lost(network: Network, type_ptr: Ints, row: Ints, references: NDArray[np.integer[Any]]) -> None:
    """Raise RuntimeError unless all values behind references are kept: `row` says where (see `Plan`)."""
    computed = references[references >= 0]
    lost = computed[row[computed] < 0]
    if len(lost):
        node, output = divmod(int(lost[0]), network.width)
        net_type = network.types[np.searchsorted(type_ptr, node, side="right") - 1]
        raise RuntimeError(
            f"output '{net_type.outputs[output].name}' of node {node} (type '{net_type.name}') was not kept: "
            "its memory was given to other values; name it in `keep` when planning"
        )


def read_values(
    memory: Sequence[Floats], plan: Plan, params: Params, references: NDArray[np.integer[Any]]
) -> Floats:
    """The values behind references, all of one shape (see `Result.read`); nodes' from the arenas.

    Raises RuntimeError for a value that the plan did not keep.
    """
    graph = plan.graph
    return read_rows(memory, plan.arenas, graph, params, graph.type_ptr, plan.row, references)


def read_rows(
    memory: Sequence[Floats],
    arenas: Arenas,
    graph: Graph,
    params: Params,
    type_ptr: Ints,
    row: Ints,
    references: NDArray[np.integer[Any]],
) -> Floats:
    """Read values of nodes numbered by `type_ptr` (T + 1,), which lie in `row` (n * W,), as `read_values`.

    The graph may be another: it says what constants are.
    """
    network = graph.network
    if not len(references):
        return np.empty(0, np.float32)
    found, rows = np.empty(len(references), np.int32), np.empty(len(references), np.int32)
    wanted = references.astype(np.int32, copy=False)
    where = _locate(wanted, type_ptr, arenas.output_arena, row, found, rows)
    if where >= 0:
        values: Floats = memory[where][rows]
        return values
    if where == LOST:
        refuse_lost(network, type_ptr, row, references)
    if found.min() >= 0:
        return gathered(memory, found, rows)
    if found[0] >= 0:
        shape = arenas.shape[found[0]]
    else:
        shape = network.constants[network.constant_of(int(references[0]))[0]].shape
    values = np.empty((len(references), *shape), np.float32)
    for arena in set(found.tolist()):
        here = np.flatnonzero(found == arena)
        if arena >= 0:
            values[here] = memory[arena][rows[here]]
        else:
            for i in here:
                number, own = network.constant_of(int(references[i]))
                if network.constants[number].kind == "kept":
                    place = arenas.output_arena[divmod(network.constants[number].number, network.width)]
                    values[i] = memory[place][arenas.constant_row[place, number] + own]
                else:
                    values[i] = constant_value(network, params, int(references[i]), graph.given)
    return values


def gathered(memory: Sequence[Floats], arena: NDArray[Any], rows: NDArray[Any]) -> Floats:
    """Copy the values of rows of several arenas, in `rows` of `arena` (m,), all of one shape: (m, *shape)."""
    found = np.empty((len(rows), *memory[arena[0]].shape[1:]), np.float32)
    for a in np.flatnonzero(np.bincount(arena)).tolist():
        if found.ndim == 2:
            _collect(memory[a], a, arena, rows, found)
        else:
            here = arena == a
            found[here] = memory[a][rows[here]]
    return found


@njit
def _collect(memory: Floats, a: int, arena: NDArray[Any], rows: NDArray[Any], found: Floats) -> None:
    for i in range(len(rows)):
        for j in range(found.shape[1] if arena[i] == a else 0):
            found[i, j] = memory[rows[i], j]


SEVERAL, LOST = -1, -2


@njit
def _locate(references: Ints, type_ptr: Ints, output_arena: Ints, row: Ints, arena: Ints, rows: Ints) -> int:
    """Write where values lie: their arenas, -1 for a constant, and their rows, -1 for what was not kept.

    The result is the arena of all; LOST where some are not kept, SEVERAL where they have not one.
    """
    width = np.uint32(output_arena.shape[1])
    t, together, lost = 0, True, False
    for i in range(len(references)):
        reference = references[i]
        arena[i], rows[i] = -1, -1
        if 0 <= reference < len(row):
            # unsigned: the machine's division of those is several times faster
            node, output = np.uint32(reference) // width, np.uint32(reference) % width
            t = range_of(node, type_ptr, type_ptr[1:], t)
            arena[i], rows[i] = output_arena[t, output], row[reference]
        lost |= reference >= 0 and rows[i] < 0
        together &= rows[i] >= 0 and arena[i] == arena[0]
    return LOST if lost else int(arena[0]) if together else SEVERAL
