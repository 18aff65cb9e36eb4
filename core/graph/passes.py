"""Passes that leave policies fewer nodes or fewer types to batch.

They say what there is to gain: no executor runs their graphs yet. One that does must reduce several rows
while it reads them, or choose each row's weights inside a launch.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.dag import Dag, build_dag
from abw.core.graph.graph import Graph
from abw.core.graph.network import NetType, Network

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Fused:
    """What is left of a graph: its dag, and for each node of it the graph's number (n',)."""

    dag: Dag
    node: Ints


def fuse_reductions(graph: Graph) -> Fused:
    """Each reduction that only cells read becomes part of their reads: it is no node any more.

    Its consumers depend on its operands instead, and each of them forms the reduction again. A reduction that
    another one reads, or that is one of the model's results, stays. The types keep their numbers, a type
    without nodes too. O(n + m').
    """
    dag = graph.dag
    reduces = np.array([t.reduction is not None for t in graph.network.types], bool)[dag.type]
    degree = np.diff(dag.succ_ptr)
    source, target = np.repeat(np.arange(len(dag), dtype=np.int32), degree), dag.succ
    gone = reduces & (degree > 0)
    gone[source[reduces[target]]] = False
    for result in graph.results:
        gone[result.reference[result.reference >= 0] // graph.network.width] = False

    kept = ~gone[source] & ~gone[target]
    behind = np.flatnonzero(gone[target])  # the edges into what goes: each leads to all that reads it
    many = degree[target[behind]]
    first = np.cumsum(many) - many
    place = np.arange(many.sum()) - np.repeat(first - dag.succ_ptr[target[behind]], many)
    node = np.flatnonzero(~gone).astype(np.int32)
    number = np.cumsum(~gone, dtype=np.int32) - 1
    return Fused(
        build_dag(
            dag.types,
            dag.type[node],
            number[np.concatenate([source[kept], np.repeat(source[behind], many)])].astype(np.int32),
            number[np.concatenate([target[kept], dag.succ[place]])].astype(np.int32),
        ),
        node,
    )


@dataclass(frozen=True, slots=True)
class Groups:
    """G groups of a network's T types: `names` (G) and each type's group (T,), numbered by first type."""

    names: tuple[str, ...]
    group: Ints

    def apply(self, dag: Dag) -> Dag:
        """The same nodes and edges, with groups for types. O(n)."""
        return Dag(self.names, self.group[dag.type], dag.succ_ptr, dag.succ, dag.indegree)


def group_types(network: Network) -> Groups:
    """Types that compute the same from inputs of the same shapes, with parameters of their own, are a group.

    One launch can execute nodes of several of them if it chooses each row's parameters (a grouped kernel).
    A group is called by its types' names joined by +.
    """
    number: dict[object, int] = {}
    group = [number.setdefault(_structure(t), len(number)) for t in network.types]
    names = tuple(
        "+".join(t.name for t, g in zip(network.types, group, strict=True) if g == wanted)
        for wanted in range(len(number))
    )
    return Groups(names, np.array(group, np.int32))


def _structure(net_type: NetType) -> object:
    """All that two types' kernels must share: everything but names, parameters and where inputs come from."""
    shapes = tuple(s.shape for s in net_type.slots)
    if net_type.cell is None:
        return net_type.reduction, shapes
    cell = net_type.cell
    params = tuple(p.shape for p in cell.params)
    ops = tuple((op.name, op.args, op.shape, op.attr) for op in cell.ops)
    return shapes, params, ops, tuple(value for _, value in cell.outputs)
