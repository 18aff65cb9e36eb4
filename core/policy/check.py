"""Checks what the fast code made: written for clarity and apart from it."""

from __future__ import annotations

import numpy as np

from abw.core.base.errors import CheckError
from abw.core.graph.dag import Dag
from abw.core.policy.schedule import Schedule


def check_schedule(dag: Dag, schedule: Schedule) -> None:
    """Raise CheckError unless every node is executed once, in batches of one type and after its producers.

    Its producers' batches must be of earlier launches.
    """
    ptr, nodes = schedule.ptr.astype(np.int64), schedule.nodes.astype(np.int64)
    strange = (schedule.type < 0) | (schedule.type >= len(dag.types))
    if strange.any():
        b = int(np.argmax(strange))
        raise CheckError(f"batch {b} is of type {schedule.type[b]}; there are {len(dag.types)} types")
    if len(ptr) != len(schedule) + 1 or ptr[0] != 0 or ptr[-1] != len(nodes):
        raise CheckError(f"offsets of {len(schedule)} batches do not span the {len(nodes)} executed nodes")
    sizes = np.diff(ptr)
    if (sizes < 1).any():
        raise CheckError(f"batch {np.argmax(sizes < 1)} is empty")
    if len(nodes) and not (nodes.min() >= 0 and nodes.max() < len(dag)):
        raise CheckError(f"node numbers must lie in 0 .. {len(dag) - 1}")
    times = np.bincount(nodes, minlength=len(dag))
    if (times != 1).any():
        v = int(np.argmax(times != 1))
        raise CheckError(
            f"node {v} is executed {times[v]} times" if times[v] else f"node {v} is never executed"
        )
    batch_of = np.empty(len(dag), np.int64)
    batch_of[nodes] = np.repeat(np.arange(len(schedule)), sizes)
    wrong = dag.type != schedule.type[batch_of]
    if wrong.any():
        v = int(np.argmax(wrong))
        raise CheckError(
            f"node {v} of type {dag.types[dag.type[v]]} is in batch {batch_of[v]}, "
            f"which is of type {dag.types[schedule.type[batch_of[v]]]}"
        )
    source = np.repeat(np.arange(len(dag)), np.diff(dag.succ_ptr))
    early = batch_of[source] >= batch_of[dag.succ]
    if early.any():
        e = int(np.argmax(early))
        u, w = source[e], dag.succ[e]
        raise CheckError(
            f"node {w} in batch {batch_of[w]} reads node {u}, which is only executed in batch {batch_of[u]}"
        )
    ends = schedule.launches.astype(np.int64)
    if not len(ends) or ends[0] != 0 or ends[-1] != len(schedule) or (np.diff(ends) < 1).any():
        raise CheckError(f"offsets of {len(ends) - 1} launches do not span the {len(schedule)} batches")
    launch_of = np.repeat(np.arange(len(ends) - 1), np.diff(ends))[batch_of]
    inside = launch_of[source] == launch_of[dag.succ]
    if inside.any():
        e = int(np.argmax(inside))
        raise CheckError(f"node {dag.succ[e]} reads node {source[e]}, which is executed in the same launch")
