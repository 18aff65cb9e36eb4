"""The first half of a PQ-tree's reduction: what is full or partial, and can the row be made consecutive?

Writes scratch fields alone. Templates after Booth and Lueker 1976.
"""

from __future__ import annotations

from abw.pqtree.table import (
    COUNT,
    FULL,
    FULL_CHILD,
    FULLS,
    HALF,
    KEPT,
    KIND,
    LABEL,
    LEAVES,
    LEFT,
    NEXT_FULL,
    NOT_A_LEAF,
    PARTIAL,
    PARTIAL_A,
    PARTIAL_B,
    PARTIALS,
    QUEUED,
    REJECTED,
    RIGHT,
    ROW,
    STAMP,
    VISITED,
    WIDTH,
    Journal,
    P,
    Table,
    parent,
)


def touch(T: Table, x: int, row: int) -> None:
    """Begin the scratch fields of x for this row."""
    T[x + STAMP] = row
    T[x + LABEL] = PARTIAL
    T[x + FULLS] = 0
    T[x + FULL_CHILD] = 0
    T[x + PARTIALS] = 0
    T[x + PARTIAL_A] = 0
    T[x + PARTIAL_B] = 0


def is_full(T: Table, x: int, row: int) -> bool:
    """Whether all leaves below x are in the row."""
    return bool(T[x + STAMP] == row and T[x + LABEL] == FULL)


def mark_leaves(T: Table, W: Table, S: Table, low: int, high: int, row: int) -> int:
    """Put the distinct leaves of the row on the stack at W[0:]; their number, or NOT_A_LEAF."""
    top = 0
    for i in range(low, high):
        leaf = S[i]
        if leaf < 0 or leaf >= T[LEAVES]:
            return NOT_A_LEAF
        x = WIDTH + leaf * HALF
        if T[x + STAMP] != row:
            T[x + STAMP] = row
            T[x + LABEL] = FULL
            W[top] = x
            top += 1
    return top


def mark_full(T: Table, J: Journal, W: Table, top: int, row: int) -> int:
    """Carry fullness up from the `top` leaves on the stack; list the partial nodes met at W[len(W) // 2:].

    Returns the number of partial nodes.
    """
    half = len(W) // 2
    seen = 0
    while top > 0:
        top -= 1
        x = W[top]
        p = parent(T, J, x)
        if T[p + STAMP] != row:
            touch(T, p, row)
            W[half + seen] = p
            seen += 1
        T[x + NEXT_FULL] = T[p + FULL_CHILD]
        T[p + FULL_CHILD] = x
        fulls = T[p + FULLS] + 1
        T[p + FULLS] = fulls
        if fulls == T[p + COUNT]:
            T[p + LABEL] = FULL
            W[top] = p
            top += 1
    T[VISITED] += seen
    partial = 0
    for i in range(half, half + seen):
        x = W[i]
        if T[x + LABEL] == PARTIAL:
            W[half + partial] = x
            partial += 1
    return partial


def join_paths(T: Table, J: Journal, W: Table, tail: int, row: int) -> int:
    """Walk up from the `tail` partial nodes, all at once, to the lowest node above all: the apex.

    Returns it, or REJECTED when three partial children meet.
    """
    half = len(W) // 2
    if tail == 1:
        return int(W[half])
    for i in range(half, half + tail):
        T[W[i] + LABEL] = QUEUED
    head, tail = half, half + tail
    top = 0  # the root, once a walk has reached it
    while tail > head and (tail - head > 1 or top > 0):
        x = W[head]
        head += 1
        p = parent(T, J, x)
        if p == 0:
            top = x
            continue
        if T[p + STAMP] != row:
            touch(T, p, row)
        partials = T[p + PARTIALS] + 1
        if partials > 2:
            return REJECTED
        T[p + PARTIALS] = partials
        T[p + PARTIAL_A if partials == 1 else p + PARTIAL_B] = x
        if T[p + LABEL] != QUEUED:
            T[p + LABEL] = QUEUED
            W[tail] = p
            tail += 1
    T[VISITED] += tail - half
    apex: int = W[head] if tail > head else top
    while T[apex + FULLS] == 0 and T[apex + PARTIALS] == 1:  # the walk went too high
        apex = T[apex + PARTIAL_A]
    return apex


def fits(T: Table, x: int, row: int, is_apex: bool) -> bool:
    """Whether a template exists for the partial node x."""
    partials = T[x + PARTIALS]
    if partials > 1 and not is_apex:
        return False
    if T[x + KIND] == P:
        return True
    a, b = T[x + PARTIAL_A], T[x + PARTIAL_B]
    if T[x + FULLS] == 0:  # the partial children must touch: each other, or an end
        return (
            bool(T[a + LEFT] == b or T[a + RIGHT] == b)
            if is_apex
            else bool(T[a + LEFT] == 0 or T[a + RIGHT] == 0)
        )
    # the full children must be one run; what lies beyond its two ends?
    inside = 0
    beyond_a = beyond_b = -1
    child = T[x + FULL_CHILD]
    while child > 0:
        for side in (LEFT, RIGHT):
            neighbour = T[child + side]
            if neighbour > 0 and is_full(T, neighbour, row):
                inside += 1
            elif beyond_a < 0:
                beyond_a = neighbour
            else:
                beyond_b = neighbour
        child = T[child + NEXT_FULL]
    if inside != 2 * (T[x + FULLS] - 1):
        return False
    if is_apex:
        return bool(
            (partials < 1 or a in (beyond_a, beyond_b)) and (partials < 2 or b in (beyond_a, beyond_b))
        )
    if beyond_a != 0 and beyond_b != 0:
        return False
    return bool(partials == 0 or a == beyond_a + beyond_b)


def survey(T: Table, J: Journal, W: Table, S: Table, low: int, high: int) -> int:
    """The apex of the row S[low:high] if it can be made consecutive; else REJECTED, KEPT or NOT_A_LEAF.

    KEPT: the row is trivial. Time in proportion to the row (amortised, times log n for union-find).
    """
    T[ROW] += 1
    row = T[ROW]
    size = mark_leaves(T, W, S, low, high, row)
    if size < 0:
        return size
    T[VISITED] += size
    if size < 2 or size >= T[LEAVES]:
        return KEPT
    apex = join_paths(T, J, W, mark_full(T, J, W, size, row), row)
    if apex == REJECTED or not fits(T, apex, row, True):
        return REJECTED
    for side in (PARTIAL_A, PARTIAL_B):
        x = T[apex + side]
        while x > 0:
            if not fits(T, x, row, False):
                return REJECTED
            x = T[x + PARTIAL_A]
    return apex
