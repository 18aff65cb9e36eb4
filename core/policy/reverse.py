"""The other direction: the reversed graph scheduled, and its batches in reverse order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.dag import Dag
from abw.core.jit.decorators import njit
from abw.core.policy.schedule import Schedule

Ints = NDArray[np.int32]


def reversed_dag(dag: Dag) -> Dag:
    """The dag with every edge reversed. O(n + m)."""
    n = len(dag)
    ptr, succ, indegree = np.zeros(n + 1, np.int32), np.empty_like(dag.succ), np.empty(n, np.int32)
    _turn(dag.succ_ptr, dag.succ, dag.indegree, ptr, succ, indegree)
    return Dag.of(dag.types, dag.type, ptr, succ, indegree)


@njit
def _turn(ptr: Ints, succ: Ints, indegree: Ints, new_ptr: Ints, new_succ: Ints, new_indegree: Ints) -> None:
    n = len(indegree)
    for v in range(n):
        new_indegree[v] = ptr[v + 1] - ptr[v]
        new_ptr[v + 1] = new_ptr[v] + indegree[v]
    for v in range(n):
        for e in range(ptr[v], ptr[v + 1]):  # new_ptr[w] runs through w's room, to where the next begins
            w = succ[e]
            new_succ[new_ptr[w]] = v
            new_ptr[w] += 1
    for v in range(n, 0, -1):
        new_ptr[v] = new_ptr[v - 1]
    new_ptr[0] = 0


def reversed_schedule(schedule: Schedule) -> Schedule:
    """The batches last to first: a schedule of the reversed graph, such as that of a backward pass. O(n).

    Inside a batch the nodes keep their order; launches and parts go along.
    """
    sizes = np.diff(schedule.ptr)[::-1]
    ptr = np.zeros_like(schedule.ptr)
    np.cumsum(sizes, out=ptr[1:])
    nodes = np.empty_like(schedule.nodes)
    _last_to_first(schedule.ptr, schedule.nodes, nodes)
    launches, split = schedule.launch_ptr, schedule.split
    return Schedule(
        np.ascontiguousarray(schedule.type[::-1]),
        ptr,
        nodes,
        schedule.unseen,
        None if launches is None else np.ascontiguousarray(launches[-1] - launches[::-1]),
        None if split is None else np.ascontiguousarray(split[::-1]),
    )


@njit
def _last_to_first(ptr: Ints, nodes: Ints, turned: Ints) -> None:
    end = 0
    for b in range(len(ptr) - 2, -1, -1):
        for i in range(ptr[b], ptr[b + 1]):
            turned[end] = nodes[i]
            end += 1
