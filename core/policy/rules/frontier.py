"""The frontier of a graph under execution: the step that all policies share (Algorithm 1 of the paper)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.dag import Dag
from abw.core.jit.decorators import fragment, njit
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
    `queue[head[t]:tail[t]]` are on the frontier, those before are executed, the rest, up to `end[t]`, are not
    ready yet. `missing` (n,) counts a node's producers that are not executed yet.
    """

    missing: Ints
    queue: Ints
    head: Ints
    tail: Ints
    end: Ints


class Batches(NamedTuple):
    """Room for a schedule: `Schedule`'s arrays with space for n batches, and in `size[0]` their number."""

    type: Ints
    ptr: Ints
    nodes: Ints
    size: Ints


def edges(dag: Dag) -> Edges:
    """The dag's arrays as hot loops take them."""
    return Edges(dag.type, dag.succ_ptr, dag.succ)


def arrays(dag: Dag) -> tuple[Ints, Ints, Ints, Ints]:
    """The dag's arrays and its in-degrees as a plain tuple: numba takes a microsecond for each named one."""
    return dag.type, dag.succ_ptr, dag.succ, dag.indegree


def space(dag: Dag) -> tuple[Ints, Ints]:
    """Room for a frontier and the paths from it that compiled code makes: (2, n), and (6, T) of zeros."""
    return np.empty((2, len(dag)), np.int32), np.zeros((6, len(dag.types)), np.int32)


def start(dag: Dag) -> Frontier:
    """The frontier before the first batch: the nodes without producers. O(n)."""
    n, types = len(dag), len(dag.types)
    missing, queue = np.empty(n, np.int32), np.empty(n, np.int32)
    frontier = Frontier(missing, queue, *(np.zeros(types, np.int32) for _ in range(3)))
    enqueue(dag.type, dag.indegree, frontier)
    return frontier


@njit
def enqueue(type: Ints, indegree: Ints, frontier: Frontier) -> None:
    """Fill a frontier as it is before the first batch; `head`, `tail` and `end` are zeros."""
    missing, queue, head, tail, end = frontier
    for t in type:
        end[t] += 1
    for t in range(1, len(end)):
        head[t] = tail[t] = end[t - 1]
        end[t] += end[t - 1]
    for v in range(len(type)):
        missing[v] = indegree[v]
        if missing[v] == 0:
            t = type[v]
            queue[tail[t]] = v
            tail[t] += 1


@njit
def execute(edges: Edges, frontier: Frontier, a: int) -> None:
    """Execute the ready nodes of type a: their consumers may become ready. O(their edges)."""
    missing, queue, head, tail, _ = frontier
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


def room(dag: Dag) -> Batches:
    """Space for a schedule of the dag."""
    n = len(dag)
    type, ptr, nodes = np.empty(n, np.int32), np.empty(n + 1, np.int32), np.empty(n, np.int32)
    ptr[0] = 0
    return Batches(type, ptr, nodes, np.zeros(1, np.int32))


def begin(dag: Dag) -> tuple[Edges, Frontier, Batches]:
    """What a policy starts from: the dag's arrays, the frontier before the first batch, room for batches."""
    return edges(dag), start(dag), room(dag)


@fragment
def record(batches: Batches, frontier: Frontier, a: int) -> int:
    """Write down that the ready nodes of type a are the next batch; the number of nodes recorded so far."""
    size = batches.size[0]
    end = batches.ptr[size]
    for i in range(frontier.head[a], frontier.tail[a]):
        batches.nodes[end] = frontier.queue[i]
        end += 1
    batches.type[size] = a
    batches.ptr[size + 1] = end
    batches.size[0] = size + 1
    return int(end)


def to_schedule(batches: Batches, unseen: int = 0) -> Schedule:
    """The recorded batches."""
    size = int(batches.size[0])
    return Schedule(batches.type[:size], batches.ptr[: size + 1], batches.nodes, unseen)
