"""Oracles: slow, plain Python, sets of nodes; they share nothing with the code under test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache

from abw.core.graph.dag import Dag

Nodes = frozenset[int]


def producers(dag: Dag) -> list[set[int]]:
    """The producers of each node."""
    above: list[set[int]] = [set() for _ in range(len(dag))]
    for v in range(len(dag)):
        for w in dag.succ[dag.succ_ptr[v] : dag.succ_ptr[v + 1]].tolist():
            above[w].add(v)
    return above


def ancestors(dag: Dag) -> list[set[int]]:
    """All nodes that a node depends on, directly or not."""
    above = producers(dag)

    @cache
    def of(v: int) -> Nodes:
        return frozenset(above[v]).union(*(of(u) for u in above[v]))

    return [set(of(v)) for v in range(len(dag))]


def ready(dag: Dag, done: Nodes, above: list[set[int]]) -> dict[int, Nodes]:
    """The frontier by type."""
    frontier: dict[int, set[int]] = {}
    for v in range(len(dag)):
        if v not in done and above[v] <= done:
            frontier.setdefault(int(dag.type[v]), set()).add(v)
    return {t: frozenset(frontier[t]) for t in sorted(frontier)}


def optimum(dag: Dag, done: Nodes = frozenset()) -> int:
    """The fewest batches that finish the graph: all sequences of types are tried, breadth first."""
    above = producers(dag)
    level, batches = {done}, 0
    while not any(len(state) == len(dag) for state in level):
        level = {state | batch for state in level for batch in ready(dag, state, above).values()}
        batches += 1
    return batches


def cheapest(dag: Dag, price: Callable[[int, int], Fraction], done: Nodes = frozenset()) -> Fraction:
    """The least cost that finishes the graph in batches of all ready nodes of a type.

    `price(t, rows)` is that of a batch; all sequences of types are tried.
    """
    above = producers(dag)

    @cache
    def of(done: Nodes) -> Fraction:
        steps = ready(dag, done, above).items()
        return min((price(t, len(batch)) + of(done | batch) for t, batch in steps), default=Fraction(0))

    return of(done)


def ratios(dag: Dag, done: Nodes, before: list[set[int]]) -> dict[int, Fraction]:
    """For each type on the frontier |Frontier_a(G)| / |Frontier(G^a)|.

    `before[v]` are the nodes that hold v back in G^a where they are of its type: its ancestors, or (the
    direct variant) its producers.
    """
    result = {}
    for a, batch in ready(dag, done, producers(dag)).items():
        remaining = {v for v in range(len(dag)) if dag.type[v] == a and v not in done}
        result[a] = Fraction(len(batch), sum(not before[v] & remaining for v in remaining))
    return result


def greedy(dag: Dag, choose: Callable[[Nodes, dict[int, Nodes]], int]) -> Iterator[tuple[int, Nodes]]:
    """The batches (type, nodes) of Algorithm 1; `choose` gets the executed nodes and the frontier."""
    above, done = producers(dag), frozenset[int]()
    while len(done) < len(dag):
        frontier = ready(dag, done, above)
        a = choose(done, frontier)
        yield a, frontier[a]
        done |= frontier[a]


def depth(dag: Dag) -> list[int]:
    """The longest path from a source to each node."""
    above = producers(dag)

    @cache
    def of(v: int) -> int:
        return max((of(u) + 1 for u in above[v]), default=0)

    return [of(v) for v in range(len(dag))]


def height(dag: Dag, v: int) -> int:
    """The most nodes of v's type on a path that starts at v."""

    @cache
    def best(u: int) -> int:
        below = dag.succ[dag.succ_ptr[u] : dag.succ_ptr[u + 1]].tolist()
        return int(dag.type[u] == dag.type[v]) + max((best(w) for w in below), default=0)

    return best(v)


def critical_type(dag: Dag, frontier: dict[int, Nodes]) -> int:
    """The type with the ready node before the longest path; among equals with the most such nodes."""

    @cache
    def length(v: int) -> int:
        below = dag.succ[dag.succ_ptr[v] : dag.succ_ptr[v + 1]].tolist()
        return 1 + max((length(w) for w in below), default=0)

    def rank(t: int) -> tuple[int, int, int]:
        lengths = [length(v) for v in frontier[t]]
        return max(lengths), lengths.count(max(lengths)), -t

    return max(frontier, key=rank)
