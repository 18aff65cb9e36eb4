"""The lower bound of what remains of a graph, and which batches lower it.

The bound is the sum over types a of D_a, the largest height of a remaining node of type a (paper, A.3;
`abw.core.graph.bounds.heights`). The remaining nodes of that height are critical. Executing type a lowers the
bound by one exactly when all its critical nodes are ready: such a batch is free. The paper's sufficient
condition asks that of all nodes of Frontier(G^a), which holds less often.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.bounds import _tallest
from abw.core.graph.dag import Dag
from abw.core.jit.decorators import njit
from abw.core.policy.rules.frontier import Frontier

Ints = NDArray[np.int32]


class Remaining(NamedTuple):
    """What remains of each type, kept up to date by `step_remaining`.

    `height` (n,); `number[first[t] + h]` of the remaining nodes of type t have height h; `top` (T,) is the
    largest height that remains, D_t, and `ready` (T,) the number of its nodes on the frontier. Of
    `Frontier.queue`, what lies before `seen` (T,) has been counted as ready, before `done` (T,) as executed.
    """

    height: Ints
    first: Ints
    number: Ints
    top: Ints
    ready: Ints
    seen: Ints
    done: Ints


def start_remaining(dag: Dag, frontier: Frontier, height: Ints) -> Remaining:
    """What remains before the first batch, of nodes of these heights, `frontier` being `start(dag)`."""
    number, of_types = np.zeros(len(dag) + len(dag.types), np.int32), np.zeros((5, len(dag.types)), np.int32)
    remaining = Remaining(height, of_types[0], number, *of_types[1:])
    begin_remaining(dag.type, frontier, remaining)
    return remaining


@njit
def begin_remaining(type: Ints, frontier: Frontier, remaining: Remaining) -> None:
    """Fill what remains before the first batch; all but `height` are zeros, `number` (n + T,) of them."""
    height, first, number, top, _, seen, done = remaining
    _tallest(type, height, top)
    numbers = 0
    for t in range(len(top)):
        first[t], seen[t], done[t] = numbers, frontier.head[t], frontier.head[t]
        numbers += top[t] + 1
    for v in range(len(type)):
        number[first[type[v]] + height[v]] += 1
    _note_ready(frontier, remaining)


@njit
def _note_ready(frontier: Frontier, remaining: Remaining) -> None:
    height, _, _, top, ready, seen, _ = remaining
    for t in range(len(top)):
        for i in range(seen[t], frontier.tail[t]):
            ready[t] += height[frontier.queue[i]] == top[t]
        seen[t] = frontier.tail[t]


@njit
def step_remaining(frontier: Frontier, remaining: Remaining, a: int) -> None:
    """Follow the execution of type a. O(its nodes + those that became ready + types)."""
    _note_executed(frontier, remaining, a)
    remaining.ready[a] = 0
    _note_ready(frontier, remaining)


@njit
def _note_executed(frontier: Frontier, remaining: Remaining, a: int) -> None:
    height, first, number, top, _, _, done = remaining
    for i in range(done[a], frontier.head[a]):
        number[first[a] + height[frontier.queue[i]]] -= 1
    done[a] = frontier.head[a]
    while top[a] > 0 and number[first[a] + top[a]] == 0:
        top[a] -= 1


@njit
def is_free(remaining: Remaining, t: int) -> bool:
    """Whether executing type t, which is on the frontier, lowers the bound."""
    return bool(remaining.ready[t] == remaining.number[remaining.first[t] + remaining.top[t]])
