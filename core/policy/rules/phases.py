"""Program phases, as in ACRoBat: groups of types one after the other, by depth inside each."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.bounds import topological_order, type_reach
from abw.core.graph.dag import Dag
from abw.core.jit.decorators import njit
from abw.core.policy.rules.depth import batched_by_depth
from abw.core.policy.rules.frontier import Edges, edges
from abw.core.policy.schedule import Schedule

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Phases:
    """The strongly connected components of the type graph one after the other (Fegade et al., 2024, 4.1).

    Inside a component nodes of one type at one depth are a batch; paths outside the component do not count
    towards a node's depth.
    """

    def schedule(self, dag: Dag) -> Schedule:
        """O(n + m + T^3); O(n), and edges are not asked for, where the dag has an `order` of types."""
        if dag.order is not None:
            return _by_type(dag, dag.order)
        if len(dag) == 0:
            return batched_by_depth(dag, dag.type)
        # a type has more types before it than each of these has, and as many as the others of its component
        reach = type_reach(dag) | np.eye(len(dag.types), dtype=np.bool_)
        before = reach.sum(axis=0, dtype=np.int32)
        own = before[dag.type]
        depth = np.zeros(len(dag), np.int32)
        _depths_inside(topological_order(dag), edges(dag), own, depth)
        deepest = np.zeros(len(dag.types) + 1, np.int32)
        for t in range(len(dag.types)):
            deepest[before[t]] = max(deepest[before[t]], depth.max(where=dag.type == t, initial=-1) + 1)
        start = (np.cumsum(deepest) - deepest).astype(np.int32)
        return batched_by_depth(dag, start[own] + depth)


def _by_type(dag: Dag, order: Ints) -> Schedule:
    """One batch for each type with nodes, in that order."""
    batch_type, ptr = np.empty(len(order), np.int32), np.zeros(len(order) + 1, np.int32)
    nodes = np.empty(len(dag), np.int32)
    batches = _fill_types(dag.type, order, np.zeros(len(order), np.int32), batch_type, ptr, nodes)
    return Schedule(batch_type[:batches], ptr[: batches + 1], nodes)


@njit
def _fill_types(type: Ints, order: Ints, offset: Ints, batch_type: Ints, ptr: Ints, nodes: Ints) -> int:
    for t in type:
        offset[t] += 1
    batches, end = 0, np.int32(0)
    for t in order:
        size, offset[t] = offset[t], end
        if size > 0:
            end += size
            batch_type[batches], ptr[batches + 1] = t, end
            batches += 1
    for v in range(len(type)):
        nodes[offset[type[v]]] = v
        offset[type[v]] += 1
    return batches


@njit
def _depths_inside(order: Ints, edges: Edges, phase: Ints, depth: Ints) -> None:
    _, ptr, succ = edges
    for v in order:
        for e in range(ptr[v], ptr[v + 1]):
            w = succ[e]
            if phase[v] == phase[w]:
                depth[w] = max(depth[w], depth[v] + 1)
