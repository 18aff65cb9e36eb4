"""The critical-path condition: which types can be executed at no cost to the lower bound.

The lower bound of what remains is the sum over types a of D_a, the largest height of a remaining node of type
a (`abw.core.graph.bounds.heights`). The remaining nodes of that height are critical. Executing type a lowers
the bound by one exactly when all its critical nodes are ready: such a batch is free. The paper's sufficient
condition asks that of all nodes of Frontier(G^a), which holds less often.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.bounds import heights, tallest
from abw.core.graph.dag import Dag
from abw.core.jit import njit
from abw.core.policy.frontier import (
    Batches,
    Edges,
    Frontier,
    edges,
    execute,
    record,
    room,
    start,
    to_schedule,
)
from abw.core.policy.schedule import Schedule

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Critical:
    """A type whose next batch is free goes first, then one with at least half of its critical nodes ready.

    Among equals the type declared first. (The share rounded to halves needs fewer batches than the exact
    share, on lattices and on two-type trees.)
    """

    def schedule(self, dag: Dag) -> Schedule:
        """O(n + m + batches * types), about as much as agenda."""
        batches, frontier = room(dag), start(dag)
        _critical(edges(dag), frontier, critical_nodes(dag, frontier), batches)
        return to_schedule(batches)


class CriticalNodes(NamedTuple):
    """The critical nodes of every type, kept up to date by `execute_critical`.

    `height` (n,); `remaining[first[t] + h]` the remaining nodes of type t and height h; `top` (T,) the
    largest height that remains, D_t; `ready` (T,) how many nodes of that height are on the frontier; `seen`
    (T,) up to where `Frontier.queue` has been counted.
    """

    height: Ints
    first: Ints
    remaining: Ints
    top: Ints
    ready: Ints
    seen: Ints


def critical_nodes(dag: Dag, frontier: Frontier) -> CriticalNodes:
    """The critical nodes before the first batch, `frontier` being `start(dag)`. About 20 ns a node."""
    height = heights(dag)
    top = tallest(dag, height)
    first = np.cumsum(top + 1, dtype=np.int32) - (top + 1)
    remaining = np.bincount(first[dag.type] + height, minlength=int(np.sum(top + 1))).astype(np.int32)
    nodes = CriticalNodes(height, first, remaining, top, np.zeros_like(top), frontier.head.copy())
    _note_ready(frontier, nodes)
    return nodes


def no_critical_nodes(types: int) -> CriticalNodes:
    """What stands in for them where they are not asked for."""
    none, zeros = np.empty(0, np.int32), np.zeros(types, np.int32)
    return CriticalNodes(none, zeros, none, zeros, zeros, zeros)


@njit
def _note_ready(frontier: Frontier, nodes: CriticalNodes) -> None:
    """Count the critical ones among the nodes that became ready since the last call."""
    height, _, _, top, ready, seen = nodes
    for t in range(len(top)):
        for i in range(seen[t], frontier.tail[t]):
            ready[t] += height[frontier.queue[i]] == top[t]
        seen[t] = frontier.tail[t]


@njit
def execute_critical(edges: Edges, frontier: Frontier, nodes: CriticalNodes, a: int) -> None:
    """`execute`, and keep the critical nodes up to date. O(the batch's edges + types)."""
    height, first, remaining, top, ready, _ = nodes
    for i in range(frontier.head[a], frontier.tail[a]):
        remaining[first[a] + height[frontier.queue[i]]] -= 1
    while top[a] > 0 and remaining[first[a] + top[a]] == 0:
        top[a] -= 1
    ready[a] = 0
    execute(edges, frontier, a)
    _note_ready(frontier, nodes)


@njit
def is_free(nodes: CriticalNodes, t: int) -> bool:
    """Whether the lower bound falls when type t, which is on the frontier, is executed."""
    return bool(nodes.ready[t] == nodes.remaining[nodes.first[t] + nodes.top[t]])


@njit
def _most_critical(frontier: Frontier, nodes: CriticalNodes) -> int:
    best, highest = -1, -1
    for t in range(len(nodes.top)):
        if frontier.tail[t] > frontier.head[t]:
            critical = nodes.remaining[nodes.first[t] + nodes.top[t]]
            halves = 2 * nodes.ready[t] // critical
            if halves > highest:
                best, highest = t, halves
    return best


@njit
def _critical(edges: Edges, frontier: Frontier, nodes: CriticalNodes, batches: Batches) -> None:
    done = 0
    while done < len(edges.type):
        a = _most_critical(frontier, nodes)
        done = record(batches, frontier, a)
        execute_critical(edges, frontier, nodes, a)


@njit
def encode_critical(frontier: Frontier, nodes: CriticalNodes, state: Ints) -> int:
    """Write the state of the encoding `critical` into `state` (T + 1,); its length. O(T^2).

    The types on the frontier, by the batches that they need at least (D_t, most first, the first type of
    equals), each as t, or as T + t where its next batch is free.
    """
    top, types, length = nodes.top, len(nodes.top), 0
    for t in range(types):
        if frontier.tail[t] > frontier.head[t]:
            place = length
            while place > 0 and top[state[place - 1] % types] < top[t]:
                state[place] = state[place - 1]
                place -= 1
            state[place] = t + types if is_free(nodes, t) else t
            length += 1
    return length
