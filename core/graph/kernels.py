"""The loops of graph construction. Vertices are counted from the mini-batch's first, links are absolute.

What they find they write into the arrays called `out`, which their caller makes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.jit import njit

Ints = NDArray[np.int32]

MISSING = -(2**31)
"""A reference that nothing has filled yet."""

VIRTUAL = -(2**30)
"""`VIRTUAL - place`: what stands for a reduction's output, by its place in `stand_ins`, is not known yet."""


@njit
def select(kind: NDArray[np.uint8], wanted: NDArray[np.bool_], out: Ints) -> int:
    """The vertices (V,) whose kind is wanted, in order, and how many; `wanted` (kinds,), `out` (V + 1,)."""
    n = 0
    for v in range(len(kind)):
        out[n] = v  # written over unless it is wanted: kinds follow no pattern that a branch could learn
        n += wanted[kind[v]]
    return n


@njit
def take(values: Ints, at: Ints, out: Ints) -> None:
    """`values[at]`; NumPy's own would first widen the indices."""
    for i in range(len(at)):
        out[i] = values[at[i]]


@njit
def follow(target: Ints, vertices: Ints, first: int, out: Ints) -> None:
    """Where a single link leads from each of `vertices`; -1 for nowhere, and from -1."""
    for i in range(len(vertices)):
        v = vertices[i]
        u = target[v + first] if v >= 0 else -1
        out[i] = u - first if u >= 0 else -1


@njit
def pick(indptr: Ints, target: Ints, vertices: Ints, first: int, index: int, out: Ints) -> None:
    """Where the link's `index`-th edge leads (negative: from the end); -1 where there are too few."""
    for i in range(len(vertices)):
        out[i] = -1
        v = vertices[i]
        if v < 0:
            continue
        low, high = indptr[v + first], indptr[v + first + 1]
        e = low + index if index >= 0 else high + index
        if low <= e < high:
            out[i] = target[e] - first


@njit
def degrees(indptr: Ints, vertices: Ints, first: int) -> int:
    """To how many vertices a link leads in all."""
    total = 0
    for v in vertices:
        if v >= 0:
            total += indptr[v + first + 1] - indptr[v + first]
    return total


@njit
def expand(
    indptr: Ints, target: Ints, ptr: Ints, vertices: Ints, first: int, out_ptr: Ints, out: Ints
) -> None:
    """Replace each vertex of the lists `vertices[ptr[i]:ptr[i + 1]]` by all that a link leads to.

    `out` (`degrees`,).
    """
    n = 0
    out_ptr[0] = 0
    for i in range(len(ptr) - 1):
        for j in range(ptr[i], ptr[i + 1]):
            if vertices[j] >= 0:
                v = vertices[j] + first
                for e in range(indptr[v], indptr[v + 1]):
                    out[n] = target[e] - first
                    n += 1
        out_ptr[i + 1] = n


@njit
def mark(present: NDArray[np.bool_], vertices: Ints) -> None:
    """Note that a type lives on these vertices."""
    for v in vertices:
        present[v] = True


@njit
def settle(home: Ints, vertices: Ints, first: int, output: int, shift: int) -> None:
    """Note on each of a type's vertices a reference to its output there; `first` is the type's first node."""
    for i in range(len(vertices)):
        home[vertices[i]] = ((first + i) << shift) + output


@njit
def settle_reduction(
    home: Ints, vertices: Ints, stand: Ints, first: int, output: int, shift: int, known: bool
) -> None:
    """The same for a reduction: what stands for its output, or until that is `known` a VIRTUAL reference."""
    for i in range(len(vertices)):
        place = ((first + i) << shift) + output
        home[vertices[i]] = stand[place] if known else VIRTUAL - place


@njit
def fill_nodes(out: Ints, at: int, step: int, home: Ints, vertices: Ints, fresh: bool) -> int:
    """Write `home` of each vertex (-1: MISSING) to `out[at + i * step]`.

    Only what is MISSING is written, unless all of it is (`fresh`). Returns how many are missing now.
    """
    missing = 0
    for i in range(len(vertices)):
        place = at + i * step
        if fresh or out[place] == MISSING:
            v = vertices[i]
            found = home[v] if v >= 0 else MISSING
            out[place] = found
            missing += found == MISSING
    return missing


@njit
def fill_rows(
    out: Ints,
    at: int,
    step: int,
    ids: Ints,
    rows: Ints,
    count: int,
    vertices: Ints,
    first: int,
    base: int,
    fresh: bool,
) -> int:
    """Write references to a table's rows, as `fill_nodes` does; returns how many are missing.

    Vertex v has the id `ids[v]` (-1: none), which is row `rows[id]` (-1: none), or `id % count` where `rows`
    is empty.
    """
    missing = 0
    for i in range(len(vertices)):
        place = at + i * step
        if not fresh and out[place] != MISSING:
            continue
        v = vertices[i]
        row = ids[v + first] if v >= 0 else -1
        if row >= 0:
            row = rows[row] if len(rows) else row % count
        if row < 0:
            out[place] = MISSING
            missing += 1
        else:
            out[place] = -1 - (base + row)
    return missing


@njit
def fill_constant(out: Ints, at: int, step: int, count: int, reference: int, fresh: bool) -> None:
    """Write one reference wherever it is missing."""
    for i in range(count):
        place = at + i * step
        if fresh or out[place] == MISSING:
            out[place] = reference


@njit
def direction(own: Ints, vertices: Ints) -> int:
    """Whether the vertices lie before (1) or behind (2) the own ones, or both (3); -1 lies nowhere."""
    before = behind = 0
    for i in range(len(own)):
        before |= (vertices[i] >= 0) & (vertices[i] <= own[i])
        behind |= vertices[i] >= own[i]
    return before + 2 * behind


@njit
def list_direction(own: Ints, ptr: Ints, vertices: Ints) -> int:
    """The same for lists of vertices: list i is `vertices[ptr[i]:ptr[i + 1]]`."""
    before = behind = 0
    for i in range(len(own)):
        for j in range(ptr[i], ptr[i + 1]):
            before |= (vertices[j] >= 0) & (vertices[j] <= own[i])
            behind |= vertices[j] >= own[i]
    return before + 2 * behind


@njit
def gather(
    indptr: Ints,
    target: Ints,
    ptr: Ints,
    vertices: Ints,
    first: int,
    present: NDArray[np.bool_],
    out_ptr: Ints,
    out: Ints,
) -> tuple[int, int]:
    """As `expand`, without the vertices where nothing is `present`; `out` (`degrees` + 1,).

    How many lists hold two or more, and how much those hold.
    """
    n, nodes, operands = 0, 0, 0
    out_ptr[0] = 0
    for i in range(len(ptr) - 1):
        for j in range(ptr[i], ptr[i + 1]):
            if vertices[j] >= 0:
                v = vertices[j] + first
                for e in range(indptr[v], indptr[v + 1]):
                    u = target[e] - first
                    out[n] = u
                    n += present[u]
        count = n - out_ptr[i]
        nodes += count >= 2
        operands += count if count >= 2 else 0
        out_ptr[i + 1] = n
    return nodes, operands


@njit
def stand_ins(
    ptr: Ints,
    members: Ints,
    homes: Ints,
    vertices: Ints,
    node: int,
    shift: int,
    stand: Ints,
    first: int,
    out: Ints,
) -> None:
    """Write what stands for each output of a reduction's candidates, and the vertices of its nodes.

    Candidate i with two and more members is a node, numbered from `node` on, and stands for itself; with one
    its member does, of which slot s reads `homes[s, member]`; with none nothing does yet (MISSING). Output s
    of candidate i has the place `(first + i) << shift | s` in `stand`. `out` (nodes + 1,).
    """
    n = 0
    for i in range(len(vertices)):
        count = ptr[i + 1] - ptr[i]
        for s in range(len(homes)):
            if count >= 2:
                found = ((node + n) << shift) + s
            else:
                found = homes[s, members[ptr[i]]] if count == 1 else MISSING
            stand[((first + i) << shift) + s] = found
        out[n] = vertices[i]
        n += count >= 2


@njit
def chase(stand: Ints) -> bool:
    """Replace what stands for something by what stands for that, to the end; False if that is a circle."""
    for i in range(len(stand)):
        r = stand[i]
        steps = 0
        while MISSING < r <= VIRTUAL:
            r = stand[VIRTUAL - r]
            steps += 1
            if steps > len(stand):
                return False
        stand[i] = r
    return True


@njit
def write_lists(
    ptr: Ints, members: Ints, homes: Ints, operand: Ints, operand_ptr: Ints, first: int, at: int
) -> None:
    """Write the operands of a reduction's nodes, a run for each slot, and where each node's end."""
    n = first
    for i in range(len(ptr) - 1):
        if ptr[i + 1] - ptr[i] < 2:
            continue
        for s in range(len(homes)):
            for j in range(ptr[i], ptr[i + 1]):
                operand[at] = homes[s, members[j]]
                at += 1
        n += 1
        operand_ptr[n] = at


@njit
def count_up(operand_ptr: Ints, first: int, last: int, at: int, slots: int) -> None:
    """Where the operands of a cell's nodes, `first` to `last` - 1, end: each has `slots` from `at` on."""
    for v in range(first, last):
        at += slots
        operand_ptr[v + 1] = at


def consumers(
    type_ptr: Ints,
    slots: Ints,
    lists: NDArray[np.bool_],
    distinct: Ints,
    operand_ptr: Ints,
    operand: Ints,
    shift: int,
) -> tuple[Ints, Ints, Ints]:
    """Successor lists and in-degrees from the operands, each edge once.

    Type t has `slots[t]` slots, of a reduction (`lists[t]`) each a run of operands. Only the slots s with
    `distinct[t, s] >= 0` are looked at: the others always read nodes that one of these reads.
    """
    n = len(operand_ptr) - 1
    ptr, indegree = np.zeros(n + 2, np.int32), np.empty(n, np.int32)
    edges, succ = np.empty(len(operand) + 1, np.int32), np.empty(len(operand), np.int32)
    seen = np.full(n if lists.any() else 0, -1, np.int32)
    columns = np.empty(distinct.shape[1], np.int32)
    m = _consumers(
        (type_ptr, slots, operand_ptr, operand), lists, distinct, shift, (seen, columns, edges),
        ptr, succ, indegree,
    )  # fmt: skip
    return ptr[: n + 1], succ[:m].copy(), indegree


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
    n = len(indegree)
    m = 0
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
                            edges[m] = u
                            m += 1
                indegree[v] = m - before
        else:
            for v in range(type_ptr[t], type_ptr[t + 1]):
                low, before = operand_ptr[v], m
                for c in range(count):
                    u = operand[low + columns[c]] >> shift
                    new = u >= 0
                    for d in range(before, m):
                        new &= edges[d] != u
                    edges[m] = u
                    m += new
                indegree[v] = m - before
    for e in range(m):
        ptr[edges[e] + 2] += 1
    for v in range(n):
        ptr[v + 2] += ptr[v + 1]
    m = 0
    for v in range(n):
        for _ in range(indegree[v]):
            u = edges[m]
            succ[ptr[u + 1]] = v
            ptr[u + 1] += 1
            m += 1
    return m


def stuck(succ_ptr: Ints, succ: Ints, indegree: Ints) -> int:
    """A node on a cycle, or -1 where there is none."""
    n = len(indegree)
    return _stuck(succ_ptr, succ, indegree.copy(), np.empty(n, np.int32), np.full(n, -1, np.int32))


@njit
def _stuck(succ_ptr: Ints, succ: Ints, waits: Ints, queue: Ints, back: Ints) -> int:
    n = len(waits)
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
    last = -1
    for v in range(n):
        if waits[v] > 0:
            last = v
            for e in range(succ_ptr[v], succ_ptr[v + 1]):
                back[succ[e]] = v
    for _ in range(n):
        last = back[last]
    return last
