"""The loops of graph construction. Vertices are counted from the mini-batch's first, links are absolute."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.jit import njit

Ints = NDArray[np.int32]

MISSING = -(2**31)
"""A reference that nothing has filled yet."""


@njit
def follow(target: Ints, vertices: Ints, first: int) -> Ints:
    """Where a single link leads from each of `vertices`; -1 for nowhere, and from -1."""
    out = np.empty_like(vertices)
    for i in range(len(vertices)):
        v = vertices[i]
        u = target[v + first] if v >= 0 else -1
        out[i] = u - first if u >= 0 else -1
    return out


@njit
def pick(indptr: Ints, target: Ints, vertices: Ints, first: int, index: int) -> Ints:
    """Where the link's `index`-th edge leads (negative: from the end); -1 where there are too few."""
    out = np.empty_like(vertices)
    for i in range(len(vertices)):
        out[i] = -1
        v = vertices[i]
        if v < 0:
            continue
        low, high = indptr[v + first], indptr[v + first + 1]
        e = low + index if index >= 0 else high + index
        if low <= e < high:
            out[i] = target[e] - first
    return out


@njit
def expand(indptr: Ints, target: Ints, ptr: Ints, vertices: Ints, first: int) -> tuple[Ints, Ints]:
    """Replace each vertex of the lists `vertices[ptr[i]:ptr[i + 1]]` by all that a link leads to."""
    out_ptr = np.zeros_like(ptr)
    total = 0
    for i in range(len(ptr) - 1):
        for j in range(ptr[i], ptr[i + 1]):
            v = vertices[j] + first
            if vertices[j] >= 0:
                total += indptr[v + 1] - indptr[v]
        out_ptr[i + 1] = total
    out = np.empty(total, np.int32)
    k = 0
    for j in range(len(vertices)):
        if vertices[j] >= 0:
            v = vertices[j] + first
            for e in range(indptr[v], indptr[v + 1]):
                out[k] = target[e] - first
                k += 1
    return out_ptr, out


@njit
def producers_at(rank: Ints, types: Ints, vertices: Ints) -> tuple[Ints, Ints, int]:
    """For each vertex the candidate among `types` that lives there, and which of them it is; -1 for none.

    `rank[t, v]` is type t's candidate on vertex v or -1. Third: a place where two of them live, or -1.
    """
    candidate = np.full(len(vertices), -1, np.int32)
    which = np.zeros(len(vertices), np.int32)
    clash = -1
    for k in range(len(types)):
        row = rank[types[k]]
        for i in range(len(vertices)):
            v = vertices[i]
            if v >= 0 and row[v] >= 0:
                if candidate[i] >= 0:
                    clash = i
                candidate[i] = row[v]
                which[i] = k
    return candidate, which, clash


@njit
def fill_nodes(out: Ints, candidate: Ints, which: Ints, outputs: Ints, width: int) -> int:
    """Fill what is missing with references to the candidates' outputs; returns how many stay missing."""
    missing = 0
    for i in range(len(out)):
        if out[i] == MISSING:
            if candidate[i] >= 0:
                out[i] = candidate[i] * width + outputs[which[i]]
            else:
                missing += 1
    return missing


@njit
def fill_rows(out: Ints, rows: Ints, vertices: Ints, first: int, base: int) -> int:
    """Fill what is missing with references to a table's rows; returns how many stay missing."""
    missing = 0
    for i in range(len(out)):
        if out[i] == MISSING:
            v = vertices[i]
            if v >= 0 and rows[v + first] >= 0:
                out[i] = -1 - (base + rows[v + first])
            else:
                missing += 1
    return missing


@njit
def keep_present(ptr: Ints, candidate: Ints, which: Ints) -> tuple[Ints, Ints, Ints]:
    """The lists without their absent members."""
    out_ptr = np.zeros_like(ptr)
    kept = np.empty_like(candidate)
    kind = np.empty_like(which)
    k = 0
    for i in range(len(ptr) - 1):
        for j in range(ptr[i], ptr[i + 1]):
            if candidate[j] >= 0:
                kept[k] = candidate[j]
                kind[k] = which[j]
                k += 1
        out_ptr[i + 1] = k
    return out_ptr, kept[:k], kind[:k]


@njit
def resolve(references: Ints, alias: Ints, node: Ints, width: int) -> bool:
    """Turn references to candidates into references to nodes, through those that are no nodes (in place).

    `node[c]` is candidate c's node or -1, `alias[c * width + output]` what stands for it then. False if
    they stand for each other in a circle.
    """
    for i in range(len(references)):
        r = references[i]
        steps = 0
        while r >= 0 and node[r // width] < 0:
            r = alias[r]
            steps += 1
            if steps > len(node):
                return False
        references[i] = node[r // width] * width + r % width if r >= 0 else r
    return True


@njit
def consumers(operand_ptr: Ints, operand: Ints, width: int) -> tuple[Ints, Ints, Ints]:
    """Successor lists and in-degrees from the operands, each edge once."""
    n = len(operand_ptr) - 1
    ptr = np.zeros(n + 2, np.int32)
    indegree = np.zeros(n, np.int32)
    seen = np.full(n, -1, np.int32)
    for v in range(n):
        for e in range(operand_ptr[v], operand_ptr[v + 1]):
            if operand[e] >= 0:
                u = operand[e] // width
                if seen[u] != v:
                    seen[u] = v
                    ptr[u + 2] += 1
                    indegree[v] += 1
    for v in range(n):
        ptr[v + 2] += ptr[v + 1]
    succ = np.empty(ptr[n + 1], np.int32)
    seen[:] = -1
    for v in range(n):
        for e in range(operand_ptr[v], operand_ptr[v + 1]):
            if operand[e] >= 0:
                u = operand[e] // width
                if seen[u] != v:
                    seen[u] = v
                    succ[ptr[u + 1]] = v
                    ptr[u + 1] += 1
    return ptr[: n + 1], succ, indegree


@njit
def stuck(succ_ptr: Ints, succ: Ints, indegree: Ints) -> int:
    """A node on a cycle, or -1 where there is none."""
    n = len(indegree)
    waits = indegree.copy()
    queue = np.empty(n, np.int32)
    tail = 0
    for v in range(n):
        if waits[v] == 0:
            queue[tail] = v
            tail += 1
    head = 0
    while head < tail:
        v = queue[head]
        head += 1
        for e in range(succ_ptr[v], succ_ptr[v + 1]):
            waits[succ[e]] -= 1
            if waits[succ[e]] == 0:
                queue[tail] = succ[e]
                tail += 1
    if tail == n:
        return -1
    # every node that waits has a producer that waits: walking back along those must come round
    back = np.full(n, -1, np.int32)
    last = -1
    for v in range(n):
        if waits[v] > 0:
            last = v
            for e in range(succ_ptr[v], succ_ptr[v + 1]):
                back[succ[e]] = v
    for _ in range(n):
        last = back[last]
    return last
