"""The frontier of a graph under execution: the step that all policies share (Algorithm 1 of the paper)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.dag import Dag
from abw.core.jit import njit
from abw.core.policy.schedule import Schedule

Ints = NDArray[np.int32]


class Edges(NamedTuple):
    """What hot loops read of a `Dag`: see there."""

    type: Ints
    ptr: Ints
    succ: Ints


class Frontier(NamedTuple):
    """The state of an execution, changed in place.

    `queue` (n,) holds the nodes that became ready, in that order, type t's from a place of its own on:
    `queue[head[t]:tail[t]]` are on the frontier, those before are executed. `missing` (n,) counts a node's
    producers that are not executed yet.
    """

    missing: Ints
    queue: Ints
    head: Ints
    tail: Ints


class Batches(NamedTuple):
    """Room for a schedule: `Schedule`'s arrays with space for n batches, and in `size[0]` their number."""

    type: Ints
    ptr: Ints
    nodes: Ints
    size: Ints


def edges(dag: Dag) -> Edges:
    """The dag's arrays as hot loops take them."""
    return Edges(dag.type, dag.succ_ptr, dag.succ)


def to_schedule(batches: Batches, unseen: int = 0) -> Schedule:
    """The recorded batches."""
    count = int(batches.size[0])
    return Schedule(batches.type[:count].copy(), batches.ptr[: count + 1].copy(), batches.nodes, unseen)


@njit
def start(types: int, type: Ints, indegree: Ints) -> Frontier:
    """The frontier before the first batch: the nodes without producers."""
    head = np.zeros(types + 1, np.int32)
    for t in type:
        head[t + 1] += 1
    for t in range(types):
        head[t + 1] += head[t]
    head = head[:types].copy()
    tail = head.copy()
    queue = np.empty(len(type), np.int32)
    for v in range(len(type)):
        if indegree[v] == 0:
            t = type[v]
            queue[tail[t]] = v
            tail[t] += 1
    return Frontier(indegree.copy(), queue, head, tail)


@njit
def execute(edges: Edges, frontier: Frontier, a: int) -> None:
    """Execute the ready nodes of type a: their consumers may become ready. O(their edges)."""
    missing, queue, head, tail = frontier
    type, ptr, succ = edges
    first, last = head[a], tail[a]
    head[a] = last
    for i in range(first, last):
        v = queue[i]
        for e in range(ptr[v], ptr[v + 1]):
            w = succ[e]
            missing[w] -= 1
            if missing[w] == 0:
                t = type[w]
                queue[tail[t]] = w
                tail[t] += 1


@njit
def room(n: int) -> Batches:
    """Space for a schedule of n nodes."""
    ptr = np.empty(n + 1, np.int32)
    ptr[0] = 0
    return Batches(np.empty(n, np.int32), ptr, np.empty(n, np.int32), np.zeros(1, np.int32))


@njit
def record(batches: Batches, frontier: Frontier, a: int) -> int:
    """Write down that the ready nodes of type a are the next batch; the number of nodes recorded so far."""
    count = batches.size[0]
    end = batches.ptr[count]
    for i in range(frontier.head[a], frontier.tail[a]):
        batches.nodes[end] = frontier.queue[i]
        end += 1
    batches.type[count] = a
    batches.ptr[count + 1] = end
    batches.size[0] = count + 1
    return int(end)
