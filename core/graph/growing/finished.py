"""The nodes of a mini-batch that has grown, as construction numbers them, from its vertices' columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.data.instances import Ints
from abw.core.data.vertices import INSTANCE, Columns, Order
from abw.core.graph.graph import Nodes, merged
from abw.core.graph.growing.model import GrowthModel
from abw.core.jit.decorators import njit


def noted(growth_model: GrowthModel) -> bool:
    """Whether columns know all nodes and results: nothing runs after growth, no result is a reduction's."""
    types, outputs = growth_model.model.types, growth_model.network.outputs
    reduced = any(types[t].reduction is not None for _, producers in outputs for t, _ in producers)
    return not growth_model.phases.after and not reduced


def finished_nodes(
    growth_model: GrowthModel,
    columns: Columns,
    order: Order,
    own: Ints,
    wanted: Ints,
    most: int,
    given: Nodes | None = None,
) -> tuple[Nodes, Ints]:
    """The nodes of finished instances, and what columns say of each: (n, k), where all are `noted`.

    Type t has nodes where the column `own[t]` (T,) says something; of a node `wanted[t]` (T, k) is asked,
    -1 for nothing. There are not more nodes than `most`. `given`: the nodes before growth, which those are
    whose `own[t]` is -1, in the same order. Cost: linear in vertices times types, a ns each; no edge is
    looked at.
    """
    network = growth_model.network
    type_ptr = np.zeros(len(network.types) + 1, np.int32)
    nodes, found = np.empty((2, most), np.int32), np.full((most, wanted.shape[1]), -1, np.int32)
    given_ptr, before = (type_ptr, nodes[0]) if given is None else (given.type_ptr, given.vertex)
    block, whose = columns.block, columns.place[INSTANCE]
    places = order.vertex, order.place
    _select(block, whose, *places, own, wanted, given_ptr, before, type_ptr, nodes, found)
    count = int(type_ptr[-1])
    vertex, instance = nodes[:, :count]
    reference = np.arange(0, count * network.width, network.width, dtype=np.int32)
    first = type_ptr.tolist()

    def of(t: int, output: int) -> tuple[Ints, Ints, Ints]:
        here = slice(first[t], first[t + 1])
        return reference[here] + np.int32(output), vertex[here], instance[here]

    results = tuple(merged(name, [of(*pair) for pair in producers]) for name, producers in network.outputs)
    return Nodes(network, type_ptr, vertex, instance, results, len(order.start) - 1), found[:count]


def nodes_on(nodes: Nodes, t: int, vertices: Ints) -> NDArray[np.int64]:
    """The node of type t on each vertex, which has one."""
    first, last = nodes.type_ptr[t : t + 2].tolist()
    return np.int64(first) + np.searchsorted(nodes.vertex[first:last], vertices)


@njit
def _select(
    block: Ints,
    whose: int,
    order: Ints,
    place: Ints,
    own: Ints,
    wanted: Ints,
    given_ptr: Ints,
    given: Ints,
    type_ptr: Ints,
    nodes: Ints,
    found: Ints,
) -> None:
    """Write where each type's nodes begin, and of each its vertex and instance, and what is wanted."""
    n = 0
    for t in range(len(own)):
        type_ptr[t] = n
        if own[t] < 0:
            for i in range(given_ptr[t], given_ptr[t + 1]):
                nodes[0, n], nodes[1, n] = place[given[i]], block[whose, given[i] + 1]
                n += 1
            continue
        for p in range(len(order)):
            v = order[p] + 1
            if block[own[t], v] >= 0:
                nodes[0, n], nodes[1, n] = p, block[whose, v]
                for k in range(wanted.shape[1]):
                    if wanted[t, k] >= 0:
                        found[n, k] = block[wanted[t, k], v]
                n += 1
    type_ptr[len(own)] = n
