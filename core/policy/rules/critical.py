"""The critical path as a guide: execute what the longest remaining path waits for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.bounds import path_lengths
from abw.core.graph.dag import Dag
from abw.core.jit.decorators import fragment, njit
from abw.core.policy.rules.frontier import (
    Batches,
    Edges,
    Frontier,
    arrays,
    enqueue,
    execute,
    record,
    room,
    space,
    to_schedule,
)
from abw.core.policy.schedule import Schedule

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Critical:
    """The type of the ready node before the longest path goes first.

    Paths are counted in nodes of all types. Among equals goes the type with the most ready nodes before such
    a path, then the one declared first: list scheduling by levels (Hu, 1961) with batches for tasks.
    """

    def schedule(self, dag: Dag) -> Schedule:
        """O(n + m + batches * types)."""
        batches = room(dag)
        _critical(arrays(dag), path_lengths(dag), *space(dag), (*batches,))
        return to_schedule(batches)


class Paths(NamedTuple):
    """The longest paths from the frontier, kept up to date by `step_paths`.

    `length` (n,): the nodes on the longest path that starts at a node; `longest` (T,) the largest length of a
    ready node of each type, 0 without one, and `number` (T,) of its ready nodes have it. `Frontier.queue` has
    been looked at up to `seen` (T,).
    """

    length: Ints
    longest: Ints
    number: Ints
    seen: Ints


def start_paths(frontier: Frontier, length: Ints) -> Paths:
    """The paths of these lengths before the first batch, `frontier` being `start(dag)`."""
    paths = Paths(length, *np.zeros((3, len(frontier.head)), np.int32))
    begin_paths(frontier, paths)
    return paths


@njit
def begin_paths(frontier: Frontier, paths: Paths) -> None:
    """Fill the paths before the first batch; all but `length` are zeros."""
    for t in range(len(paths.seen)):
        paths.seen[t] = frontier.head[t]
    _note_ready(frontier, paths)


def no_paths() -> Paths:
    """What stands in for them where they are not asked for."""
    return Paths(*(np.empty(0, np.int32),) * 4)


@fragment
def _note_ready(frontier: Frontier, paths: Paths) -> None:
    length, longest, number, seen = paths
    for t in range(len(longest)):
        for i in range(seen[t], frontier.tail[t]):
            here = length[frontier.queue[i]]
            if here > longest[t]:
                longest[t] = here
                number[t] = 1
            elif here == longest[t]:
                number[t] += 1
        seen[t] = frontier.tail[t]


@njit
def step_paths(frontier: Frontier, paths: Paths, a: int) -> None:
    """Follow the execution of type a. O(the nodes that became ready + types)."""
    paths.longest[a] = 0
    _note_ready(frontier, paths)


@fragment
def critical_type(paths: Paths) -> int:
    """The type of the ready node with the longest path before it."""
    longest, number = paths.longest, paths.number
    best = 0
    for t in range(1, len(longest)):
        if longest[t] > longest[best] or (longest[t] == longest[best] and number[t] > number[best]):
            best = t
    return best


@njit
def _critical(
    dag: tuple[Ints, Ints, Ints, Ints],
    length: Ints,
    of_nodes: Ints,
    of_types: Ints,
    recorded: tuple[Ints, Ints, Ints, Ints],
) -> None:
    """Record the schedule. For room see `space`."""
    type, ptr, succ, indegree = dag
    edges, batches = Edges(type, ptr, succ), Batches(*recorded)
    frontier = Frontier(of_nodes[0], of_nodes[1], of_types[0], of_types[1], of_types[2])
    paths = Paths(length, of_types[3], of_types[4], of_types[5])
    enqueue(type, indegree, frontier)
    begin_paths(frontier, paths)
    done = 0
    while done < len(edges.type):
        a = critical_type(paths)
        done = record(batches, frontier, a)
        execute(edges, frontier, a)
        step_paths(frontier, paths, a)
