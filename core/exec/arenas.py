"""Arenas as arrays: filled with what no node computes, and read by reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.params import Params, constant_value
from abw.core.graph.network import Network
from abw.core.plan.arenas import Arenas
from abw.core.plan.plan import Plan

Floats = NDArray[np.float32]


def fill_constants(memory: Floats, arena: int, arenas: Arenas, network: Network, params: Params) -> None:
    """Write the zeros, parameters and tables of an arena to their rows of `memory` (rows, *shape)."""
    for constant, first in zip(network.constants, arenas.constant_row[arena].tolist(), strict=True):
        if first >= 0:
            values: Any = np.float32(0)
            if constant.kind == "param":
                values = params.values[constant.number]
            elif constant.kind == "table":
                values = params.tables[constant.number]
            memory[first : first + constant.rows] = values


def refuse_lost(plan: Plan, references: NDArray[np.integer[Any]]) -> None:
    """Raise RuntimeError unless a plan keeps all values behind references."""
    computed = references[references >= 0]
    lost = computed[plan.row[computed] < 0]
    if len(lost):
        node, output = divmod(int(lost[0]), plan.graph.network.width)
        net_type = plan.graph.network.types[np.searchsorted(plan.graph.type_ptr, node, side="right") - 1]
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
    network, arenas = plan.graph.network, plan.arenas
    if not len(references):
        return np.empty(0, np.float32)
    alone = _one_arena(plan, references)
    if alone is not None:
        rows = plan.row[references]
        if rows.min() < 0:
            refuse_lost(plan, references)
        found: Floats = memory[alone][rows]
        return found
    refuse_lost(plan, references)
    nodes, outputs = np.divmod(np.maximum(references, 0), network.width)
    types = np.searchsorted(plan.graph.type_ptr, nodes, side="right") - 1
    found = np.where(references >= 0, arenas.output_arena[types, outputs], -1)
    if found[0] >= 0:
        shape = arenas.shape[found[0]]
    else:
        shape = constant_value(network, params, int(references[0])).shape
    values = np.empty((len(references), *shape), np.float32)
    for arena in set(found.tolist()):
        here = np.flatnonzero(found == arena)
        if arena >= 0:
            values[here] = memory[arena][plan.row[references[here]]]
        else:
            for i in here:
                values[i] = constant_value(network, params, int(references[i]))
    return values


def _one_arena(plan: Plan, references: NDArray[np.integer[Any]]) -> int | None:
    """The arena of one type's one output, where all references are to that, as mostly; else None."""
    width = plan.graph.network.width
    ends = np.array([references.min(), references.max()])
    first, last = np.searchsorted(plan.graph.type_ptr, ends // width, side="right") - 1
    output = int(ends[0]) & (width - 1)
    if ends[0] < 0 or first != last or (references & (width - 1) != output).any():
        return None
    return int(plan.arenas.output_arena[first, output])
