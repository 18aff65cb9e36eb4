"""The PQ-tree as one flat table of integers, on which its kernel works.

A node is a row of `WIDTH` integers (64 bytes, one cache line), a leaf half a row; it is named by the place
where its row begins. Row 0 is the header, so that 0 means "no node"; the leaves follow it. The structure:

- Children of a P-node are a list linked both ways, and know their parent.
- Children of a Q-node know only two neighbours, in no fixed sense, so that a Q-node is reversed or absorbed
  by another at no cost. Their parent is found by union-find: an absorbed Q-node points to its absorber.

After Fink, Pfretzschner and Rutter 2021 (union-find for the parents of Q-children).
"""

from __future__ import annotations

from typing import Any

Table = Any  # list[int] or an int32 array
Journal = Any  # the same: J[0] is its top, 0 where no checkpoint is open; then pairs (place, old value)

WIDTH = 16
HALF = 8
# what every node has: its place, and its label in the running reduction (valid where STAMP is its number)
KIND, PARENT, LEFT, RIGHT, STAMP, LABEL, NEXT_FULL, UNION = range(8)
# what an inner node has besides: its children, and those that the running reduction found full or partial
FIRST, LAST, COUNT, FULLS, FULL_CHILD, PARTIALS, PARTIAL_A, PARTIAL_B = range(8, 16)
# the header row; its place UNION stays 0, so that "no node" has no absorber
END, ROOT, LEAVES, ROW, VISITED = range(5)

LEAF, P, Q = 0, 1, 2
PARTIAL, FULL, QUEUED = 1, 2, 3

# what a reduction answers; an apex is positive
REJECTED, KEPT, CHANGED, TABLE_FULL, JOURNAL_FULL, NOT_A_LEAF = 0, -1, -2, -3, -4, -5


def put(T: Table, J: Journal, at: int, value: int) -> None:
    """Write to the structure; under a checkpoint the journal keeps the old value."""
    top = J[0]
    if top > 0:
        J[top] = at
        J[top + 1] = T[at]
        J[0] = top + 2
    T[at] = value


def undo(T: Table, J: Table, mark: int) -> None:
    """Take back all that was written since the journal's top was at `mark`."""
    top = J[0]
    while top > mark:
        top -= 2
        T[J[top]] = J[top + 1]
    J[0] = mark


def new(T: Table, J: Journal, kind: int) -> int:
    """An inner node without children or place. Undoing takes back its whole row: no old value counts."""
    x: int = T[END]
    put(T, J, END, x + WIDTH)
    for field in range(WIDTH):
        T[x + field] = 0
    T[x + KIND] = kind
    T[x + UNION] = x
    return x


def table_size(n: int, inner: int) -> int:
    """The integers that a tree of n leaves and so many inner nodes takes."""
    return (2 + inner) * WIDTH + n * HALF


def start(T: Table, J: Journal, n: int) -> None:
    """The tree of all orders of n leaves, one P-node, in a table of zeros; no checkpoint is open."""
    T[LEAVES] = n
    T[END] = WIDTH + (n * HALF + WIDTH - 1) // WIDTH * WIDTH
    if n == 1:
        T[ROOT] = WIDTH
    elif n > 1:
        root = new(T, J, P)
        T[ROOT] = root
        T[root + FIRST] = WIDTH
        T[root + LAST] = WIDTH + (n - 1) * HALF
        T[root + COUNT] = n
        for x in range(WIDTH, WIDTH + n * HALF, HALF):
            T[x + PARENT] = root
            T[x + LEFT] = x - HALF if x > WIDTH else 0
            T[x + RIGHT] = x + HALF if x < T[root + LAST] else 0


def parent(T: Table, J: Journal, x: int) -> int:
    """The parent of x, or 0. Halves the path it walks, unless the journal is full."""
    p: int = T[x + PARENT]
    up: int = T[p + UNION]
    while up != p:
        over = T[up + UNION]
        if J[0] == 0 or J[0] + 2 <= len(J):
            put(T, J, p + UNION, over)
        p = over
        up = T[p + UNION]
    return p
