"""Depth-based batching, as in TensorFlow Fold: nodes of one type at one depth are a batch."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.bounds import depths
from abw.core.graph.dag import Dag
from abw.core.jit.decorators import njit
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
    n, types = len(depth), len(dag.types)
    offset = np.zeros(types * (int(depth.max(initial=-1)) + 1), np.int32)
    type, ptr, nodes = (np.empty(n + more, np.int32) for more in (0, 1, 0))
    count = _group(depth, dag.type, types, offset, type, ptr, nodes)
    return Schedule(type[:count], ptr[: count + 1], nodes)


@njit
def _group(depth: Ints, own: Ints, types: int, offset: Ints, type: Ints, ptr: Ints, nodes: Ints) -> int:
    """Fill a schedule's arrays, of which the first two are long enough for any; how many batches it has.

    `offset` (depths * types,), of zeros.
    """
    for v in range(len(depth)):
        offset[depth[v] * types + own[v]] += 1
    count, first = 0, 0
    for group in range(len(offset)):
        size = offset[group]
        offset[group] = first
        if size > 0:
            type[count], ptr[count] = group % types, first
            count += 1
            first += size
    ptr[count] = first
    for v in range(len(depth)):
        group = depth[v] * types + own[v]
        nodes[offset[group]] = v
        offset[group] += 1
    return count
