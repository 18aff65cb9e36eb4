"""Batches of groups of types as launches of batches of one type each; the phases of batches."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.dag import Dag
from abw.core.jit.decorators import njit
from abw.core.policy.schedule import Schedule

Ints = NDArray[np.int32]


def by_type(schedule: Schedule, dag: Dag) -> Schedule:
    """Each batch cut into one for each of its nodes' types; these are a launch.

    The nodes of a type stay in their order. O(n + batches * types).
    """
    nodes = np.empty_like(schedule.nodes)
    of_batch = np.empty(len(nodes), np.int32)
    ptr = np.zeros(len(nodes) + 1, np.int32)
    launch_ptr = np.zeros(len(schedule) + 1, np.int32)
    count = _cut(
        schedule.ptr,
        schedule.nodes,
        dag.type,
        np.empty(len(dag.types), np.int64),
        nodes,
        of_batch,
        ptr,
        launch_ptr,
    )
    return Schedule(of_batch[:count].copy(), ptr[: count + 1].copy(), nodes, schedule.unseen, launch_ptr)


def phases_of(dag: Dag, schedule: Schedule) -> int:
    """How many phases a schedule has: as many as the longest chain of batches that read from one another.

    The batches of a phase can be executed at the same time. No schedule has fewer than `Depth`'s. O(n + m).
    """
    after = np.zeros(len(dag), np.int32)
    return int(_phases(schedule.ptr, schedule.nodes, dag.succ_ptr, dag.succ, after))


@njit
def _phases(ptr: Ints, nodes: Ints, succ_ptr: Ints, succ: Ints, after: Ints) -> int:
    """`after` (n,), of zeros: the last phase that a node waits for, counted from 1."""
    phases = 0
    for b in range(len(ptr) - 1):
        phase = 0
        for i in range(ptr[b], ptr[b + 1]):
            phase = max(phase, after[nodes[i]])
        phase += 1
        phases = max(phases, phase)
        for i in range(ptr[b], ptr[b + 1]):
            for e in range(succ_ptr[nodes[i]], succ_ptr[nodes[i] + 1]):
                after[succ[e]] = max(after[succ[e]], phase)
    return phases


@njit
def _cut(
    batch_ptr: Ints,
    batch_nodes: Ints,
    type: Ints,
    offset: NDArray[np.int64],
    nodes: Ints,
    of_batch: Ints,
    ptr: Ints,
    launch_ptr: Ints,
) -> int:
    count = 0
    for b in range(len(batch_ptr) - 1):
        first, last = batch_ptr[b], batch_ptr[b + 1]
        offset[:] = 0
        for i in range(first, last):
            offset[type[batch_nodes[i]]] += 1
        begin = np.int64(first)
        for t in range(len(offset)):
            rows = offset[t]
            offset[t] = begin
            begin += rows
            if rows:
                of_batch[count] = t
                count += 1
                ptr[count] = begin
        for i in range(first, last):
            t = type[batch_nodes[i]]
            nodes[offset[t]] = batch_nodes[i]
            offset[t] += 1
        launch_ptr[b + 1] = count
    return count
