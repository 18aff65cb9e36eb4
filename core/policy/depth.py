"""Depth-based batching, as in TensorFlow Fold: nodes of one type at one depth are a batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.bounds import depths
from abw.core.graph.dag import Dag
from abw.core.jit import njit
from abw.core.policy.schedule import Schedule

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Depth:
    """Execute depth after depth, and at each depth type after type (Looks et al., 2017)."""

    def schedule(self, dag: Dag) -> Schedule:
        """One batch for each distinct (depth, type). O(n + m + depth * types)."""
        return Schedule(*_by_depth(len(dag.types), dag.type, depths(dag)))


@njit
def _by_depth(types: int, type: Ints, depth: Ints) -> tuple[Ints, Ints, Ints]:
    groups = (depth.max() + 1) * types if len(depth) else 0
    first = np.zeros(groups + 1, np.int32)
    for v in range(len(type)):
        first[depth[v] * types + type[v] + 1] += 1
    batch_type = np.empty(groups, np.int32)
    batch_ptr = np.zeros(groups + 1, np.int32)
    count = 0
    for group in range(groups):
        if first[group + 1] > 0:
            batch_type[count] = group % types
            batch_ptr[count + 1] = batch_ptr[count] + first[group + 1]
            count += 1
        first[group + 1] += first[group]
    nodes = np.empty(len(type), np.int32)
    for v in range(len(type)):
        group = depth[v] * types + type[v]
        nodes[first[group]] = v
        first[group] += 1
    return batch_type[:count].copy(), batch_ptr[: count + 1].copy(), nodes
