"""Agenda-based batching, as in DyNet: the type whose nodes lie least deep goes first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.bounds import depths
from abw.core.graph.dag import Dag
from abw.core.jit.decorators import fragment, njit
from abw.core.policy.rules.frontier import Batches, Edges, Frontier, begin, execute, record, to_schedule
from abw.core.policy.schedule import Schedule

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Agenda:
    """The type on the frontier with the smallest average depth goes first (Neubig et al., 2017b).

    The average is over the type's remaining nodes, as the ED-Batch paper describes it; with `static`,
    over all its nodes, computed once and in single precision, as DyNet's code does. Equal averages go to
    the type declared first.
    """

    static: bool = False

    def schedule(self, dag: Dag) -> Schedule:
        """O(n + m + batches * types)."""
        edges, frontier, batches = begin(dag)
        types = len(dag.types)
        sums = DepthSums(np.zeros(types, np.int64), np.zeros(types, np.int64), np.zeros(types))
        _agenda(edges, frontier, depths(dag), self.static, sums, batches)
        return to_schedule(batches)


class DepthSums(NamedTuple):
    """By type, (T,) each: the sum of its nodes' depths, their number, the average; all 0 to begin with."""

    total: NDArray[np.int64]
    number: NDArray[np.int64]
    average: NDArray[np.float64]


@njit
def _agenda(
    edges: Edges, frontier: Frontier, depth: Ints, static: bool, sums: DepthSums, batches: Batches
) -> None:
    n, types = len(depth), len(frontier.head)
    total, number, average = sums
    for v in range(n):
        total[edges.type[v]] += depth[v]
        number[edges.type[v]] += 1
    for t in range(types):
        average[t] = np.float32(total[t] / (number[t] + 0.001))  # DyNet's guard against a division by zero
    done = 0
    while done < n:
        if not static:
            for t in range(types):
                if frontier.tail[t] > frontier.head[t]:
                    average[t] = total[t] / number[t]
        a = _smallest(frontier, average)
        for i in range(frontier.head[a], frontier.tail[a]):
            total[a] -= depth[frontier.queue[i]]
        number[a] -= frontier.tail[a] - frontier.head[a]
        done = record(batches, frontier, a)
        execute(edges, frontier, a)


@fragment
def _smallest(frontier: Frontier, average: NDArray[np.float64]) -> int:
    best, lowest = -1, np.inf
    for t in range(len(average)):
        if frontier.tail[t] > frontier.head[t] and average[t] < lowest:
            best, lowest = t, average[t]
    return best
