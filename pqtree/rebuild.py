"""The second half of a PQ-tree's reduction: the surveyed row is made consecutive, which cannot fail.

Templates after Booth and Lueker 1976.
"""

from __future__ import annotations

from abw.pqtree.survey import is_full
from abw.pqtree.table import (
    CHANGED,
    COUNT,
    FIRST,
    FULL,
    FULL_CHILD,
    FULLS,
    KEPT,
    KIND,
    LABEL,
    LAST,
    LEFT,
    NEXT_FULL,
    PARENT,
    PARTIAL_A,
    PARTIAL_B,
    PARTIALS,
    RIGHT,
    ROOT,
    ROW,
    STAMP,
    UNION,
    Journal,
    P,
    Q,
    Table,
    new,
    parent,
    put,
)


def unlink(T: Table, J: Journal, p: int, x: int) -> None:
    """Take the child x out of the P-node p."""
    a, b = T[x + LEFT], T[x + RIGHT]
    put(T, J, a + RIGHT if a > 0 else p + FIRST, b)
    put(T, J, b + LEFT if b > 0 else p + LAST, a)
    put(T, J, p + COUNT, T[p + COUNT] - 1)


def append(T: Table, J: Journal, p: int, x: int) -> None:
    """Make x the last child of the P-node p."""
    last = T[p + LAST]
    put(T, J, x + LEFT, last)
    put(T, J, x + RIGHT, 0)
    put(T, J, x + PARENT, p)
    put(T, J, last + RIGHT if last > 0 else p + FIRST, x)
    put(T, J, p + LAST, x)
    put(T, J, p + COUNT, T[p + COUNT] + 1)


def relink(T: Table, J: Journal, x: int, old: int, neighbour: int) -> None:
    """Let the Q-child x have `neighbour` where it had `old`."""
    put(T, J, x + LEFT if T[x + LEFT] == old else x + RIGHT, neighbour)


def attach(T: Table, J: Journal, q: int, end: int, x: int) -> None:
    """Put x at one end (FIRST or LAST) of the Q-node q."""
    last = T[q + end]
    put(T, J, x + LEFT, last)
    put(T, J, x + RIGHT, 0)
    put(T, J, x + PARENT, q)
    if last > 0:
        relink(T, J, last, 0, x)
    else:
        put(T, J, q + FIRST, x)
        put(T, J, q + LAST, x)
    put(T, J, q + end, x)
    put(T, J, q + COUNT, T[q + COUNT] + 1)


def stand_in(T: Table, J: Journal, old: int, x: int) -> None:
    """Put x in the place of `old` in the tree."""
    p = parent(T, J, old)
    a, b = T[old + LEFT], T[old + RIGHT]
    put(T, J, x + PARENT, p)
    put(T, J, x + LEFT, a)
    put(T, J, x + RIGHT, b)
    if p == 0:
        put(T, J, ROOT, x)
        return
    if a > 0:
        relink(T, J, a, old, x)
    if b > 0:
        relink(T, J, b, old, x)
    if T[p + FIRST] == old:
        put(T, J, p + FIRST, x)
    if T[p + LAST] == old:
        put(T, J, p + LAST, x)


def group_full(T: Table, J: Journal, p: int, row: int) -> int:
    """Take the full children out of the P-node p; one node for all of them."""
    x = T[p + FULL_CHILD]
    if T[p + FULLS] == 1:
        unlink(T, J, p, x)
        return int(x)
    group = new(T, J, P)
    T[group + STAMP] = row
    T[group + LABEL] = FULL
    while x > 0:
        unlink(T, J, p, x)
        append(T, J, group, x)
        x = T[x + NEXT_FULL]
    return group


def dissolve(T: Table, J: Journal, q: int, x: int, before: int, after: int) -> None:
    """Replace the child x of the Q-node q, a Q-node from FIRST (empty) to LAST (full), by x's children.

    `before` and `after` are x's neighbours at its empty and its full end; 0 is an end of q.
    """
    empty, full = T[x + FIRST], T[x + LAST]
    if T[q + FIRST] == x:
        put(T, J, q + FIRST, full if after == 0 else empty)
    elif T[q + LAST] == x:
        put(T, J, q + LAST, full if after == 0 else empty)
    if after > 0:
        relink(T, J, full, 0, after)
        relink(T, J, after, x, full)
    if before > 0:
        relink(T, J, empty, 0, before)
        relink(T, J, before, x, empty)
    put(T, J, x + UNION, q)
    put(T, J, q + COUNT, T[q + COUNT] + T[x + COUNT] - 1)


def dissolve_beside(T: Table, J: Journal, q: int, x: int, row: int) -> None:
    """Dissolve x with its full end at its full neighbour in q."""
    a, b = T[x + LEFT], T[x + RIGHT]
    if a > 0 and is_full(T, a, row):
        dissolve(T, J, q, x, b, a)
    else:
        dissolve(T, J, q, x, a, b)


def turn(T: Table, J: Journal, q: int) -> None:
    """Reverse the Q-node q."""
    first = T[q + FIRST]
    put(T, J, q + FIRST, T[q + LAST])
    put(T, J, q + LAST, first)


def split(T: Table, J: Journal, p: int, inner: int, row: int) -> int:
    """Turn the partial P-node p into a Q-node: its empty children, `inner` (0: none), its full children."""
    if inner > 0:
        unlink(T, J, p, inner)
    full = group_full(T, J, p, row) if T[p + FULLS] > 0 else 0
    q = inner if inner > 0 else new(T, J, Q)
    stand_in(T, J, p, q)
    empty = p if T[p + COUNT] > 1 else T[p + FIRST]  # none, one child, or p with what is left to it
    if empty > 0:
        attach(T, J, q, FIRST, empty)
    if full > 0:
        attach(T, J, q, LAST, full)
    return q


def absorb(T: Table, J: Journal, q: int, inner: int, row: int) -> None:
    """Turn the partial Q-node q so that it is full at its LAST end, and dissolve its partial child."""
    if T[q + FULLS] > 0:
        if not is_full(T, T[q + LAST], row):
            turn(T, J, q)
        if inner > 0:
            dissolve_beside(T, J, q, inner, row)
        return
    if T[q + LAST] != inner:
        turn(T, J, q)
    dissolve(T, J, q, inner, T[inner + LEFT] + T[inner + RIGHT], 0)


def straighten(T: Table, J: Journal, W: Table, x: int, row: int) -> int:
    """Turn the path of partial nodes below x into one Q-node, empty at FIRST, full at LAST, in x's place."""
    depth = 0
    while x > 0:
        W[depth] = x
        depth += 1
        x = T[x + PARTIAL_A]
    q = 0
    while depth > 0:
        depth -= 1
        x = W[depth]
        if T[x + KIND] == P:
            q = split(T, J, x, q, row)
        else:
            absorb(T, J, x, q, row)
            q = x
    return q


def join(T: Table, J: Journal, p: int, a: int, b: int) -> None:
    """Append the Q-node b, a child of the P-node p, to the Q-node a: full end to full end."""
    unlink(T, J, p, b)
    left, right = T[a + LAST], T[b + LAST]
    relink(T, J, left, 0, right)
    relink(T, J, right, 0, left)
    put(T, J, a + LAST, T[b + FIRST])
    put(T, J, b + UNION, a)
    put(T, J, a + COUNT, T[a + COUNT] + T[b + COUNT])


def commit(T: Table, J: Journal, W: Table, apex: int) -> int:
    """Make the surveyed row consecutive below its apex. Returns KEPT or CHANGED."""
    row = T[ROW]
    partials, fulls = T[apex + PARTIALS], T[apex + FULLS]
    if partials == 0:
        if T[apex + KIND] == Q or fulls == 1:
            return KEPT
        append(T, J, apex, group_full(T, J, apex, row))
        return CHANGED
    a = straighten(T, J, W, T[apex + PARTIAL_A], row)
    b = straighten(T, J, W, T[apex + PARTIAL_B], row)
    if T[apex + KIND] == P:
        if fulls > 0:
            attach(T, J, a, LAST, group_full(T, J, apex, row))
        if b > 0:
            join(T, J, apex, a, b)
        if T[apex + COUNT] == 1:
            stand_in(T, J, apex, a)
        return CHANGED
    if fulls > 0:
        dissolve_beside(T, J, apex, a, row)
    elif T[a + LEFT] == b:
        dissolve(T, J, apex, a, T[a + RIGHT], b)
    else:
        dissolve(T, J, apex, a, T[a + LEFT], b)
    if b > 0:
        dissolve_beside(T, J, apex, b, row)
    return CHANGED
