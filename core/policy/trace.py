"""What a picture of a schedule needs: the frontier before each batch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.dag import Dag
from abw.core.jit import njit
from abw.core.policy.frontier import Edges, edges
from abw.core.policy.schedule import Schedule

Ints = NDArray[np.int32]


def ready_counts(dag: Dag, schedule: Schedule) -> Ints:
    """(B, T): the number of ready nodes of each type before batch b. O(n + m + batches * types)."""
    ready = np.zeros((len(schedule), len(dag.types)), np.int32)
    _count(edges(dag), dag.indegree, schedule.ptr, schedule.nodes, ready)
    return ready


@njit
def _count(edges: Edges, indegree: Ints, batch_ptr: Ints, nodes: Ints, ready: Ints) -> None:
    type, ptr, succ = edges
    batches, types = ready.shape
    missing = indegree.copy()
    now = np.zeros(types, np.int32)
    for v in range(len(type)):
        now[type[v]] += missing[v] == 0
    for b in range(batches):
        for t in range(types):
            ready[b, t] = now[t]
        for i in range(batch_ptr[b], batch_ptr[b + 1]):
            v = nodes[i]
            now[type[v]] -= 1
            for e in range(ptr[v], ptr[v + 1]):
                w = succ[e]
                missing[w] -= 1
                now[type[w]] += missing[w] == 0
