"""The edges of a graph: where they are looked for, and their lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.dag import Successors
from abw.core.ir.model import FieldSource, Input, Model, NodeSource, TableSource
from abw.core.ir.network import LISTED, Network, loops_of, order_of
from abw.core.jit.decorators import allocating, njit

Ints = NDArray[np.int32]
NONE = np.zeros(0, np.int32)


@dataclass(frozen=True, slots=True)
class EdgeSlots:
    """Where edges are looked for (see `consumers`), for each of T types with up to S slots.

    `slots` (T,) how many it has; `lists` (T,) whether it is a reduction; `distinct` (T, S) is -1 for slots
    that read no node, or everywhere the same as an earlier one; `loop` (T,): see `loops_of`; `order` (T,) or
    None: see `order_of`.
    """

    slots: Ints
    lists: NDArray[np.bool_]
    distinct: Ints
    loop: Ints
    order: Ints | None


def edge_slots(model: Model, network: Network) -> EdgeSlots:
    """What the model alone says of its graphs' edges.

    Two slots read the same node everywhere if their sources differ in nothing but the outputs they take, and
    these are outputs of a cell, or of a reduction whose two inputs are again such slots: what it passes on
    over one link is theirs.
    """
    slots = np.array([len(t.inputs) for t in model.types], np.int32)
    like = [[0] * len(t.outputs if t.reduction else ()) for t in model.types]
    while True:  # from all outputs of a reduction alike, as long as one proves to differ
        first = [_first_alike([_way(i, like) for i in t.inputs]) for t in model.types]
        behind = [first[t] if node_type.reduction else [] for t, node_type in enumerate(model.types)]
        if behind == like:
            break
        like = behind
    distinct = np.full((len(slots), max(slots, default=0)), -1, np.int32)
    for t, node_type in enumerate(model.types):
        for s, wanted in enumerate(node_type.inputs):
            if first[t][s] == s and any(isinstance(source, NodeSource) for source in wanted.sources):
                distinct[t, s] = s
    lists = np.array([t.reduction is not None for t in model.types])
    return EdgeSlots(slots, lists, distinct, loops_of(network), order_of(network))


def _way(wanted: Input, like: Sequence[Sequence[int]]) -> tuple[object, ...]:
    """What decides which node an input reads; outputs of reduction t are the same where `like[t]` is."""
    return tuple(
        (source.hops, tuple((t, like[t][o] if like[t] else 0) for t, o in source.producers))
        if isinstance(source, NodeSource)
        else (source if isinstance(source, TableSource | FieldSource) else None)
        for source in wanted.sources
    )


def _first_alike(keys: Sequence[object]) -> list[int]:
    """For each key the place of the first that is equal."""
    return [keys.index(key) for key in keys]


def consumers(
    type_ptr: Ints,
    slots: Ints,
    lists: NDArray[np.bool_],
    distinct: Ints,
    operand_ptr: Ints,
    operand: Ints,
    shift: int,
) -> Successors:
    """Successor lists and in-degrees from the operands, each edge once.

    Type t has `slots[t]` slots, of a reduction (`lists[t]`) each a run of operands. Only the slots s with
    `distinct[t, s] >= 0` are looked at: the others always read nodes that one of these reads.
    """
    n = len(operand_ptr) - 1
    ptr, indegree = np.zeros(n + 2, np.int32), np.empty(n, np.int32)
    edges, succ = np.empty((2, len(operand) + 1), np.int32), np.empty(len(operand), np.int32)
    seen = np.empty(n, np.int32)
    columns = np.empty(distinct.shape[1], np.int32)
    m = _consumers(
        (type_ptr, slots, operand_ptr, operand), lists, distinct, shift, (seen, columns, edges),
        ptr, succ, indegree,
    )  # fmt: skip
    return Successors(ptr[: n + 1], succ[:m], indegree)


@njit
def _consumers(
    operands: tuple[Ints, Ints, Ints, Ints],
    lists: NDArray[np.bool_],
    distinct: Ints,
    shift: int,
    space: tuple[Ints, Ints, Ints],
    ptr: Ints,
    succ: Ints,
    indegree: Ints,
) -> int:
    """Fill `ptr` (n + 2,), of zeros, `succ` and `indegree` (n,); the number of edges."""
    type_ptr, slots, operand_ptr, operand = operands
    seen, columns, edges = space
    source, target = edges[0], edges[1]
    n = len(indegree)
    m = 0
    for v in range(n):
        seen[v] = -1
    for t in range(len(slots)):
        count = 0
        for s in range(slots[t]):
            if distinct[t, s] >= 0:
                columns[count] = s
                count += 1
        if lists[t]:
            for v in range(type_ptr[t], type_ptr[t + 1]):
                low, before = operand_ptr[v], m
                # unsigned: the machine's division of those is several times faster
                run = np.int64(np.uint32(operand_ptr[v + 1] - low) // np.uint32(slots[t]))
                for c in range(count):
                    for e in range(low + columns[c] * run, low + (columns[c] + 1) * run):
                        u = operand[e] >> shift
                        if u >= 0 and seen[u] != v:
                            seen[u] = v
                            source[m], target[m] = u, v
                            ptr[u + 2] += 1
                            m += 1
                indegree[v] = m - before
        else:
            for v in range(type_ptr[t], type_ptr[t + 1]):
                low, before = operand_ptr[v], m
                for c in range(count):
                    u = operand[low + columns[c]] >> shift
                    new = u >= 0
                    for d in range(c):
                        new &= operand[low + columns[d]] >> shift != u
                    source[m], target[m] = u, v  # written over unless it is new
                    ptr[max(u, 0) + 2] += new
                    m += new
                indegree[v] = m - before
    for v in range(n):
        ptr[v + 2] += ptr[v + 1]
    for e in range(m):
        u = source[e]
        succ[ptr[u + 1]] = target[e]
        ptr[u + 1] += 1
    return m


def successors(
    operand_ptr: Ints, operand: Ints, shift: int, list_ptr: Ints = NONE, list_operand: Ints = NONE
) -> Successors:
    """Successor lists and in-degrees of n nodes by their operands, those in lists included; each edge once.

    What lies beyond the nodes is no edge. Cost: some 3 ns an operand.
    """
    return Successors(*_succeed(operand_ptr, operand, shift, list_ptr, list_operand))


@allocating
def _succeed(
    operand_ptr: Ints, operand: Ints, shift: int, list_ptr: Ints, list_operand: Ints
) -> tuple[Ints, Ints, Ints]:
    n = len(operand_ptr) - 1
    ptr, indegree = np.zeros(n + 2, np.int32), np.zeros(n, np.int32)
    succ, seen = np.empty(0, np.int32), np.full(n, -1, np.int32)
    for again in range(2):  # first counted, then written
        for v in range(n):
            mark = v + again * n
            for e in range(operand_ptr[v], operand_ptr[v + 1]):
                number, first, last = LISTED - operand[e], 0, 1
                if number >= 0:
                    first, last = list_ptr[number], list_ptr[number + 1]
                for k in range(first, last):
                    u = (list_operand[k] if number >= 0 else operand[e]) >> shift
                    if not 0 <= u < n or seen[u] == mark:
                        continue
                    seen[u] = mark
                    if again:
                        succ[ptr[u + 1]] = v
                        ptr[u + 1] += 1
                    else:
                        ptr[u + 2] += 1
                        indegree[v] += 1
        if not again:
            for v in range(n):
                ptr[v + 2] += ptr[v + 1]
            succ = np.empty(ptr[n + 1], np.int32)
    return ptr[: n + 1], succ, indegree
