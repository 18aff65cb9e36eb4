"""Depth-based batching, as in TensorFlow Fold: nodes of one type at one depth are a batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.base.jit import njit
from abw.core.graph.bounds import depths
from abw.core.graph.dag import Dag
from abw.core.policy.schedule import Schedule

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Depth:
    """Execute depth after depth, and at each depth type after type (Looks et al., 2017)."""

    def schedule(self, dag: Dag) -> Schedule:
        """One batch for each distinct (depth, type). O(n + m + depth * types)."""
        return batched_by_depth(dag, depths(dag))


def batched_by_depth(dag: Dag, depth: Ints) -> Schedule:
    """One batch for each distinct (depth, type), in that order; `depth` (n,) grows along every edge."""
    types = len(dag.types)
    group = depth * np.int32(types) + dag.type
    size = np.bincount(group)
    occupied = np.flatnonzero(size)
    ptr = np.concatenate([[0], np.cumsum(size[occupied])]).astype(np.int32)
    nodes = np.empty(len(group), np.int32)
    _group(group, np.cumsum(size) - size, nodes)
    return Schedule((occupied % types).astype(np.int32), ptr, nodes)


@njit
def _group(group: Ints, place: NDArray[np.int64], nodes: Ints) -> None:
    for v in range(len(group)):
        nodes[place[group[v]]] = v
        place[group[v]] += 1
