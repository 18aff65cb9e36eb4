"""How deep a graph is: depths, heights, and the lower bound on the number of batches (paper, A.3)."""

from __future__ import annotations

from itertools import count

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.dag import Dag
from abw.core.jit.decorators import njit

Ints = NDArray[np.int32]


def topological_order(dag: Dag) -> Ints:
    """The nodes (n,), each after its producers. Raises ValueError where the graph has a cycle. O(n + m)."""
    return _sorted(dag)[0]


def depths(dag: Dag) -> Ints:
    """The longest path (in edges) from a source to each node (n,); sources have 0. O(n + m).

    About 5 ns a node where the dag has `reads`. Raises ValueError where the graph has a cycle.
    """
    if dag.reads is None:
        return _sorted(dag)[1]
    n = len(dag)
    depth, way, resume = np.zeros(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32)
    if _deepen(dag.reads.ptr, dag.reads.operand, dag.reads.shift, depth, way, resume) < n:
        _sorted(dag)  # says how many nodes are on the cycle or behind it
    depth -= 1
    return depth


@njit
def _deepen(ptr: Ints, operand: Ints, shift: int, depth: Ints, way: Ints, resume: Ints) -> int:
    """Fill `depth` (n,), of zeros, with 1 more than each node's; how many are found.

    Depth first, to what nodes read. Of a node on the way it is -1 - the most of these so far.
    """
    found = 0
    for source in range(len(depth)):
        if depth[source] > 0:
            continue
        v, e, deepest, steps = np.int32(source), ptr[source], np.int32(0), 0
        while True:
            end = ptr[v + 1]
            while e < end:
                u = operand[e] >> shift
                e += 1
                if u < 0:
                    continue
                there = depth[u]
                if there > 0:
                    deepest = max(deepest, there)
                elif there == 0:
                    depth[v] = -1 - deepest
                    way[steps], resume[steps] = v, e
                    steps += 1
                    v, e, deepest, end = u, ptr[u], np.int32(0), ptr[u + 1]
                else:
                    return found
            deepest += 1
            depth[v] = deepest
            found += 1
            if steps == 0:
                break
            steps -= 1
            v, e = way[steps], resume[steps]
            deepest = max(deepest, -1 - depth[v])
    return found


def waiting(dag: Dag) -> NDArray[np.bool_]:
    """Whether each node (n,) is on a cycle or behind one. O(n + m)."""
    waits = np.ones(len(dag), np.bool_)
    waits[_free(dag)[0]] = False
    return waits


def _sorted(dag: Dag) -> tuple[Ints, Ints]:
    order, depth = _free(dag)
    if len(order) < len(dag):
        raise ValueError(f"the graph has a cycle: {len(dag) - len(order)} nodes are on it or behind it")
    return order, depth


def _free(dag: Dag) -> tuple[Ints, Ints]:
    """The nodes that wait for no cycle, each after its producers, and the depths of all (n,)."""
    n = len(dag)
    order, depth, stack = np.empty(n, np.int32), np.zeros(n, np.int32), np.empty(n, np.int32)
    found = _sort(dag.succ_ptr, dag.succ, dag.indegree, dag.indegree.copy(), order, depth, stack)
    return order[:found], depth


@njit
def _sort(ptr: Ints, succ: Ints, indegree: Ints, missing: Ints, order: Ints, depth: Ints, stack: Ints) -> int:
    # last in, first out: follows an instance to its end, so that this pass and later ones stay in the cache
    found, top = 0, 0
    for source in range(len(indegree)):
        if indegree[source] == 0:
            stack[0], top = source, 1
        while top > 0:
            top -= 1
            v = stack[top]
            order[found] = v
            found += 1
            for e in range(ptr[v], ptr[v + 1]):
                w = succ[e]
                depth[w] = max(depth[w], depth[v] + 1)
                missing[w] -= 1
                if missing[w] == 0:
                    stack[top] = w
                    top += 1
    return found


def path_lengths(dag: Dag) -> Ints:
    """The largest number of nodes, of all types, on a path that starts at each node (n,), it counted.

    O(n + m), about 6 ns a node. Raises ValueError where the graph has a cycle.
    """
    length, none = np.zeros(len(dag), np.int32), np.empty(0, np.int32)
    _measure(dag, none, np.empty((len(dag), 0), np.int32), length, none)
    return length


def heights(dag: Dag) -> Ints:
    """The largest number of nodes of v's own type on a path that starts at v, v counted, for each v (n,).

    Paths may run through nodes of other types. As long as `chains`; at once where no node waits for another
    of its type (`Dag.order`). Raises ValueError where the graph has a cycle.
    """
    return chains(dag)[1] if dag.order is None else np.ones(len(dag), np.int32)


def chains(dag: Dag) -> tuple[Ints, Ints]:
    """`path_lengths` and `heights` (n,), found together.

    A pass over the graph for every 32 recurrent types: about 10 ns a node in all where there are few of them.
    Raises ValueError where the graph has a cycle.
    """
    n, column = len(dag), recurrent_types(dag)
    length, height = np.empty(n, np.int32), np.ones(n, np.int32)
    columns = int(column.max(initial=-1)) + 1
    for first in range(0, max(columns, 1), BLOCK):
        length[:] = 0
        above = np.zeros((n, min(BLOCK, columns - first)), np.int32)
        _measure(dag, column - np.int32(first), above, length, height)
    return length, height


# How many types' heights are found in one pass.
BLOCK = 32


def _measure(dag: Dag, column: Ints, above: Ints, length: Ints, height: Ints) -> None:
    way, resume = np.empty(len(dag), np.int32), np.empty(len(dag), np.int32)
    graph = (dag.type, dag.succ_ptr, dag.succ, dag.indegree)
    if _chains(*graph, column, way, resume, above, length, height) < len(dag):
        _sorted(dag)  # says how many nodes are on the cycle or behind it


@njit
def _chains(
    type: Ints,
    ptr: Ints,
    succ: Ints,
    indegree: Ints,
    column: Ints,
    way: Ints,
    resume: Ints,
    above: Ints,
    length: Ints,
    height: Ints,
) -> int:
    """Depth first: what lies behind a node has just been in the cache, and no order need be kept.

    `length` is, of a node on the way to v, -1 - the longest path behind it so far; 0 of one not met yet.
    `above[v, k]`: the nodes of the k-th recurrent type of a block on the best path that starts at v.
    """
    found, columns = 0, above.shape[1]
    for source in range(len(indegree)):
        if indegree[source] > 0:
            continue
        v, e, longest, steps = np.int32(source), ptr[source], np.int32(0), 0
        while True:
            end = ptr[v + 1]
            while e < end:
                w = succ[e]
                behind = length[w]
                if behind > 0:
                    longest = max(longest, behind)
                    for k in range(columns):
                        above[v, k] = max(above[v, k], above[w, k])
                    e += 1
                elif behind == 0:
                    length[v] = -1 - longest
                    way[steps], resume[steps] = v, e
                    steps += 1
                    v, e, longest, end = w, ptr[w], np.int32(0), ptr[w + 1]
                else:
                    return found
            length[v] = longest + 1
            found += 1
            if columns > 0:
                own = column[type[v]]
                if 0 <= own < columns:
                    above[v, own] += 1
                    height[v] = above[v, own]
            if steps == 0:
                break
            steps -= 1
            v, e = way[steps], resume[steps]
            longest = -1 - length[v]
    return found


def recurrent_types(dag: Dag) -> Ints:
    """Numbers the types that lie on a cycle of links 0, 1, ...; the others have -1. (T,).

    Only nodes of these types can depend on others of their own type.
    """
    number = count()
    recurrent = type_reach(dag).diagonal().tolist()
    return np.array([next(number) if on else -1 for on in recurrent], np.int32)


def type_reach(dag: Dag) -> NDArray[np.bool_]:
    """(T, T): whether one or more links lead from type s to type t. O(m + T^3).

    A link leads from s to t where some node of type s has a consumer of type t.
    """
    types = len(dag.types)
    reach = np.zeros((types, types), np.bool_)
    _type_reach(dag.type, dag.succ_ptr, dag.succ, reach)
    return reach


@njit
def _type_reach(type: Ints, ptr: Ints, succ: Ints, reach: NDArray[np.bool_]) -> None:
    for v in range(len(type)):
        for e in range(ptr[v], ptr[v + 1]):
            reach[type[v], type[succ[e]]] = True
    for t in range(len(reach)):  # Warshall's closure
        for a in range(len(reach)):
            for b in range(len(reach) if reach[a, t] else 0):
                reach[a, b] = reach[a, b] or reach[t, b]


def lower_bound(dag: Dag) -> Ints:
    """The longest chain of each type (T,): the most nodes of that type on any one path.

    No schedule has fewer batches than their sum (paper, A.3).
    """
    return tallest(dag, heights(dag))


def tallest(dag: Dag, height: Ints) -> Ints:
    """The largest height of each type's nodes (T,), 0 for a type without nodes."""
    top = np.zeros(len(dag.types), np.int32)
    _tallest(dag.type, height, top)
    return top


@njit
def _tallest(type: Ints, height: Ints, top: Ints) -> None:
    for v in range(len(type)):
        top[type[v]] = max(top[type[v]], height[v])
