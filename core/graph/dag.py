"""The part of a dataflow graph that batching looks at: types and edges, as arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abw.core.jit.decorators import njit

Ints = NDArray[np.int32]


class Successors(NamedTuple):
    """m edges between n nodes, each once: see `Dag`."""

    succ_ptr: Ints
    succ: Ints
    indegree: Ints


class Reads(NamedTuple):
    """Which nodes a node reads, some perhaps several times: those numbered `operand[e] >> shift`, for e of
    `ptr[v]:ptr[v + 1]` (n + 1,), where that is not negative.
    """

    ptr: Ints
    operand: Ints
    shift: int


@dataclass(frozen=True, eq=False)
class Dag:
    """n nodes of T types, m edges, without a cycle.

    `types` (T) are the types' names; `type` (n,) a node's type; node v's consumers are
    `succ[succ_ptr[v]:succ_ptr[v + 1]]` ((n + 1,) and (m,), each edge once); `indegree` (n,) its number of
    distinct producers. The edges are looked for (`find`) when they are first asked for: a policy that goes by
    types alone spares that, and one that goes by depths where the dag has `reads`.

    `order` (T,): the types in an order in which none reads from itself or from one behind it, where the model
    has one whatever the instance; else None.
    """

    types: tuple[str, ...]
    type: Ints
    find: Callable[[], Successors]
    order: Ints | None = None
    reads: Reads | None = None

    @classmethod
    def of(cls, types: tuple[str, ...], type: Ints, succ_ptr: Ints, succ: Ints, indegree: Ints) -> Dag:
        """The dag of these edges."""
        found = Successors(succ_ptr, succ, indegree)
        return cls(types, type, lambda: found)

    def __len__(self) -> int:
        return len(self.type)

    @cached_property
    def edges(self) -> Successors:
        """Its edges."""
        return self.find()

    @property
    def succ_ptr(self) -> Ints:
        """Where each node's consumers begin (n + 1,)."""
        return self.edges.succ_ptr

    @property
    def succ(self) -> Ints:
        """The consumers (m,)."""
        return self.edges.succ

    @property
    def indegree(self) -> Ints:
        """Each node's number of distinct producers (n,)."""
        return self.edges.indegree


def build_dag(types: tuple[str, ...], type: Ints, source: Ints, target: Ints) -> Dag:
    """The dag of the edges `source[e] -> target[e]`, each kept once, in the order given.

    Does not look for cycles (`abw.core.graph.bounds.topological_order` does). Raises ValueError where a
    type or a node number is out of range. O(n + m), about 5 ns an edge.
    """
    if len(source) != len(target):
        raise ValueError(f"{len(source)} sources, {len(target)} targets")
    _check_range("type", type, len(types))
    _check_range("source", source, len(type))
    _check_range("target", target, len(type))
    n = len(type)
    ptr, succ, indegree = np.zeros(n + 2, np.int32), np.empty(len(target), np.int32), np.zeros(n, np.int32)
    kept = _adjacency(source, target, ptr, succ, np.full(n, -1, np.int32), indegree)
    return Dag.of(types, type, ptr[: n + 1], succ[:kept].copy(), indegree)


def _check_range(what: str, values: Ints, end: int) -> None:
    if len(values) and not (values.min() >= 0 and values.max() < end):
        raise ValueError(f"{what} numbers must lie in 0 .. {end - 1}")


@njit
def _adjacency(source: Ints, target: Ints, ptr: Ints, succ: Ints, seen: Ints, indegree: Ints) -> int:
    """Fill `ptr` (n + 2,), of zeros, `succ` (m,) and `indegree` (n,), of zeros; how many edges were kept."""
    m, n = len(source), len(indegree)
    for e in range(m):
        ptr[source[e] + 2] += 1
    for v in range(n):
        ptr[v + 2] += ptr[v + 1]
    for e in range(m):
        u = source[e]
        succ[ptr[u + 1]] = target[e]
        ptr[u + 1] += 1
    # drop repeated edges in place; seen[w] is the last node that had w as a consumer
    first, kept = 0, 0
    for v in range(n):
        last = ptr[v + 1]
        for e in range(first, last):
            w = succ[e]
            if seen[w] != v:
                seen[w] = v
                indegree[w] += 1
                succ[kept] = w
                kept += 1
        first = last
        ptr[v + 1] = kept
    return kept


def components(dag: Dag) -> Ints:
    """The number of each node's connected component (n,), counted in the order of their first nodes.

    Edges count in both directions: mostly a component is an instance. Nearly O(n + m).
    """
    number = np.empty(len(dag), np.int32)
    _components(dag.succ_ptr, dag.succ, np.arange(len(dag), dtype=np.int32), number)
    return number


@njit
def _components(ptr: Ints, succ: Ints, parent: Ints, number: Ints) -> None:
    """Union-find by path halving: `parent` (n,) begins as each node itself; a root is its tree's first."""
    n = len(parent)
    for v in range(n):
        for e in range(ptr[v], ptr[v + 1]):
            a, b = v, succ[e]
            while parent[a] != a:
                parent[a] = parent[parent[a]]
                a = parent[a]
            while parent[b] != b:
                parent[b] = parent[parent[b]]
                b = parent[b]
            parent[max(a, b)] = min(a, b)
    found = 0
    for v in range(n):
        if parent[v] == v:
            number[v] = found
            found += 1
        else:
            number[v] = number[parent[v]]


def part(dag: Dag, keep: NDArray[np.bool_]) -> Dag:
    """The nodes `keep` (n,) and the edges between them, numbered anew in the same order. O(n + m)."""
    number = np.cumsum(keep, dtype=np.int32) - np.int32(1)
    source = np.repeat(np.arange(len(dag), dtype=np.int32), np.diff(dag.succ_ptr))
    inside = keep[source] & keep[dag.succ]
    return build_dag(dag.types, dag.type[keep], number[source[inside]], number[dag.succ[inside]])
