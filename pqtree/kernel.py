"""The PQ-tree's kernel: reduction by rows, and a tree's shape written out.

Every function here, in `table`, `survey` and `rebuild` runs twice: as plain Python on lists (small trees, or
numba off) and compiled on int32 arrays (`compiled.py`). None may use more than the two have in common.

A reduction first looks (`survey`), then rebuilds (`commit`): a rejected row leaves the tree as it was.
"""

from __future__ import annotations

from abw.pqtree.rebuild import commit
from abw.pqtree.survey import is_full, survey
from abw.pqtree.table import (
    COUNT,
    END,
    FULL_CHILD,
    FULLS,
    HALF,
    JOURNAL_FULL,
    KEPT,
    KIND,
    LAST,
    LEAF,
    LEAVES,
    LEFT,
    NEXT_FULL,
    PARTIALS,
    RIGHT,
    ROOT,
    ROW,
    TABLE_FULL,
    VISITED,
    WIDTH,
    Journal,
    P,
    Q,
    Table,
    parent,
)
from abw.pqtree.table import start as start
from abw.pqtree.table import undo as undo

ENTRIES = ("start", "reduce_row", "encode", "encode_row", "undo")


def reduce_row(T: Table, J: Journal, W: Table, S: Table, low: int, high: int) -> int:
    """Make the leaves S[low:high] consecutive: CHANGED or KEPT; else the tree stays as it is, and why."""
    before = T[VISITED]
    apex = survey(T, J, W, S, low, high)
    if apex <= 0:
        return apex
    changes = T[VISITED] - before + 4  # at most so many new nodes, and 32 times as many writes
    if J[0] > 0 and J[0] + 64 * changes > len(J):
        return JOURNAL_FULL
    if T[END] + WIDTH * changes > len(T):
        return TABLE_FULL
    return commit(T, J, W, apex)


def encode(T: Table, W: Table, x: int, code: Table, nodes: Table, at: int) -> int:
    """Write the subtree of x in prefix form (see `shape.py`) to code[at:], its nodes to nodes[at:].

    Returns the place after it.
    """
    W[0] = x
    top = 1 if x > 0 else 0
    while top > 0:
        top -= 1
        x = W[top]
        nodes[at] = x
        if T[x + KIND] == LEAF:
            code[at] = (x - WIDTH) // HALF
            at += 1
            continue
        code[at] = -2 * T[x + COUNT] - (1 if T[x + KIND] == Q else 0)
        at += 1
        behind, child = 0, T[x + LAST]
        while child > 0:
            W[top] = child
            top += 1
            ahead = T[child + LEFT] if T[child + LEFT] != behind else T[child + RIGHT]
            behind, child = child, ahead
    return at


def encode_row(
    T: Table, J: Journal, W: Table, S: Table, low: int, high: int, code: Table, nodes: Table
) -> int:
    """`encode` what is above the leaves S[low:high]: a node, or a run of a Q-node's children as a node.

    Returns the length; 0 where the leaves are not consecutive in all orders.
    """
    if high - low == 2 and T[LEAVES] > 2:  # only two leaves under one node are always together
        x, y = WIDTH + S[low] * HALF, WIDTH + S[low + 1] * HALF
        p = parent(T, J, x)
        beside = T[p + COUNT] == 2 or (T[p + KIND] == Q and (T[x + LEFT] == y or T[x + RIGHT] == y))
        if x == y or p != parent(T, J, y) or not beside:
            return 0
        code[0], code[1], code[2] = -4, S[low], S[low + 1]
        nodes[0], nodes[1], nodes[2] = p, x, y
        return 3
    apex = survey(T, J, W, S, low, high)
    row = T[ROW]
    if apex == KEPT:
        return encode(T, W, WIDTH + S[low] * HALF if T[LEAVES] > high - low else T[ROOT], code, nodes, 0)
    if apex <= 0 or T[apex + PARTIALS] > 0:
        return 0
    child = T[apex + FULL_CHILD]
    fulls = T[apex + FULLS]
    if fulls == 1:
        return encode(T, W, child, code, nodes, 0)
    if T[apex + KIND] == P:
        return 0
    outside = 0
    while True:  # the end of the run: a child with a neighbour outside, on its side `outside`
        a, b = T[child + LEFT], T[child + RIGHT]
        if a == 0 or not is_full(T, a, row):
            outside = a
            break
        if b == 0 or not is_full(T, b, row):
            outside = b
            break
        child = T[child + NEXT_FULL]
    code[0] = -2 * fulls - (1 if fulls > 2 else 0)
    nodes[0] = apex
    at = 1
    for _ in range(fulls):
        at = encode(T, W, child, code, nodes, at)
        ahead = T[child + LEFT] if T[child + LEFT] != outside else T[child + RIGHT]
        outside, child = child, ahead
    return at
