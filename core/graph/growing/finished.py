"""The nodes of a mini-batch that has grown, as construction numbers them, from its vertices' columns."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.data.instances import Ints
from abw.core.data.vertices import INSTANCE, Columns
from abw.core.graph.graph import Nodes, merged
from abw.core.graph.growing.sprout import Sprouter
from abw.core.graph.growing.whose import NodeColumn


def noted(sprouter: Sprouter) -> bool:
    """Whether columns know all nodes and results: nothing runs after growth, no result is a reduction's."""
    types, outputs = sprouter.model.types, sprouter.network.outputs
    reduced = any(types[t].reduction is not None for _, producers in outputs for t, _ in producers)
    return not sprouter.phases.after and not reduced


def finished_nodes(sprouter: Sprouter, columns: Columns, order: Ints, instances: int) -> tuple[Nodes, Ints]:
    """The nodes of so many instances, and their numbers on the tape (n,), where all are `noted`.

    `order` says how finished vertices are numbered among the columns. Cost: linear; no edge is looked at.
    """
    network = sprouter.network
    vertices, numbers = [], []
    for t in range(len(network.types)):
        number = columns[NodeColumn(t)][order]
        here = np.flatnonzero(number >= 0)
        vertices.append(here.astype(np.int32))
        numbers.append(number[here])
    type_ptr = np.append(0, np.cumsum([len(here) for here in vertices])).astype(np.int32)
    vertex = np.concatenate(vertices)
    instance = columns[INSTANCE][order[vertex]]
    reference = np.arange(len(vertex), dtype=np.int32) * np.int32(network.width)
    ranges = [slice(*type_ptr[t : t + 2].tolist()) for t in range(len(vertices))]
    results = tuple(
        merged(
            name,
            [(reference[ranges[t]] + np.int32(o), vertices[t], instance[ranges[t]]) for t, o in producers],
        )
        for name, producers in network.outputs
    )
    return Nodes(network, type_ptr, vertex, instance, results, instances), np.concatenate(numbers)


def nodes_on(nodes: Nodes, t: int, vertices: Ints) -> NDArray[np.int64]:
    """The node of type t on each vertex, which has one."""
    first, last = nodes.type_ptr[t : t + 2].tolist()
    return np.int64(first) + np.searchsorted(nodes.vertex[first:last], vertices)
