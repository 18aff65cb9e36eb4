"""The paper's sufficient condition as a policy (Lemma 2.1): prefer the type that nothing holds back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.bounds import recurrent_types, topological_order
from abw.core.graph.dag import Dag
from abw.core.jit.decorators import inner, njit
from abw.core.policy.rules.frontier import (
    Batches,
    Edges,
    Frontier,
    begin,
    edges,
    execute,
    record,
    to_schedule,
)
from abw.core.policy.schedule import Schedule

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Sufficient:
    """The type a with the largest |Frontier_a(G)| / |Frontier(G^a)| goes first, the first one of equals.

    Where the ratio is 1, some shortest schedule begins with a. G^a has an edge wherever a path between two
    nodes of type a avoids the others of type a.
    """

    def schedule(self, dag: Dag) -> Schedule:
        """O((n + m) * recurrent types + batches * types)."""
        edges, frontier, batches = begin(dag)
        _sufficient(edges, frontier, held_back(dag), batches)
        return to_schedule(batches)


class HeldBack(NamedTuple):
    """The frontiers of all G^a, kept up to date while the graph is executed.

    `column` (T,): a number for each type that can depend on itself, else -1. `sources` (columns, n): how
    many of a node's producers are remaining nodes of the column's type or have such a node before them.
    `size` (T,): |Frontier(G^a)|, the remaining nodes of type a that have no other one before them. `stack`
    (n,) is working space.
    """

    column: Ints
    sources: Ints
    size: Ints
    stack: Ints


def held_back(dag: Dag) -> HeldBack:
    """The frontiers of all G^a before the first batch. O((n + m) * recurrent types)."""
    column = recurrent_types(dag)
    sources = np.zeros((int(column.max(initial=-1)) + 1, len(dag)), np.int32)
    size = np.zeros(len(column), np.int32)
    _count_sources(edges(dag), topological_order(dag), column, sources, size)
    return HeldBack(column, sources, size, np.empty(len(dag), np.int32))


def nothing_held() -> HeldBack:
    """What stands in for it where it is not asked for."""
    none = np.empty(0, np.int32)
    return HeldBack(none, np.empty((0, 0), np.int32), none, none)


@njit
def _count_sources(edges: Edges, order: Ints, column: Ints, sources: Ints, size: Ints) -> None:
    type, ptr, succ = edges
    for v in order:
        own = column[type[v]]
        if own < 0 or sources[own, v] == 0:
            size[type[v]] += 1
        if own < 0:
            continue
        for e in range(ptr[v], ptr[v + 1]):
            w = succ[e]
            if column[type[w]] >= 0:
                for c in range(len(sources)):
                    sources[c, w] += c == own or sources[c, v] > 0


@inner
def release(edges: Edges, held: HeldBack, frontier: Frontier, a: int) -> None:
    """Update for the execution of type a; called before `execute`."""
    type, ptr, succ = edges
    column, stack = held.column, held.stack
    depth = frontier.tail[a] - frontier.head[a]
    held.size[a] -= depth
    if column[a] < 0:
        return
    sources = held.sources[column[a]]
    for i in range(depth):
        stack[i] = frontier.queue[frontier.head[a] + i]
    while depth > 0:
        depth -= 1
        v = stack[depth]
        for e in range(ptr[v], ptr[v + 1]):
            w = succ[e]
            if column[type[w]] >= 0:
                sources[w] -= 1
                if sources[w] == 0:
                    if type[w] == a:
                        held.size[a] += 1
                    else:  # passes on that no node of type a remains before it
                        stack[depth] = w
                        depth += 1


@njit
def _sufficient(edges: Edges, frontier: Frontier, held: HeldBack, batches: Batches) -> None:
    done = 0
    while done < len(edges.type):
        a = _least_held(frontier, held)
        done = record(batches, frontier, a)
        release(edges, held, frontier, a)
        execute(edges, frontier, a)


@inner
def _least_held(frontier: Frontier, held: HeldBack) -> int:
    best, highest = -1, 0.0
    for t in range(len(held.size)):
        ready = frontier.tail[t] - frontier.head[t]
        if ready > 0 and ready / held.size[t] > highest:
            best, highest = t, ready / held.size[t]
    return best
