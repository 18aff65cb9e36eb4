"""The PQ-tree's reduction, on one flat table of integers.

Every function here runs twice: as plain Python on lists (small trees, or numba off) and compiled on int32
arrays (`compiled.py`). Nothing in this file may use more than the two have in common.

A node is a row of `WIDTH` integers (64 bytes, one cache line), a leaf half a row; it is named by the place
where its row begins. Row 0 is the header, so that 0 means "no node"; the leaves follow it. The structure:

- Children of a P-node are a list linked both ways, and know their parent.
- Children of a Q-node know only two neighbours, in no fixed sense, so that a Q-node is reversed or absorbed
  by another at no cost. Their parent is found by union-find: an absorbed Q-node points to its absorber.

A reduction first looks (`survey`), writing scratch fields alone, then rebuilds (`commit`), which cannot
fail: a rejected row leaves the tree as it was. Written after Booth and Lueker 1976 (templates) and
Fink, Pfretzschner and Rutter 2021 (union-find for the parents of Q-children).
"""

from __future__ import annotations

from typing import Any

Table = Any  # list[int] or an int32 array
Journal = Any  # the same, or None where no checkpoint is open: J[0] is its top, then pairs (place, old value)

WIDTH = 16
HALF = 8
# what every node has: its place, and its label in the running reduction (valid where STAMP is its number)
KIND, PARENT, LEFT, RIGHT, STAMP, LABEL, NEXT_FULL, UNION = range(8)
# what an inner node has besides: its children, and those that the running reduction found full or partial
FIRST, LAST, COUNT, FULLS, FULL_CHILD, PARTIALS, PARTIAL_A, PARTIAL_B = range(8, 16)
# the header row; its place UNION stays 0, so that "no node" has no absorber
END, ROOT, LEAVES, ROW, VISITED = range(5)

ENTRIES = ("start", "survey", "reduce_row", "reduce_rows", "encode", "encode_row", "undo")
LARGE = ("reduce_rows", "encode_row")  # compiled once, not into each caller

LEAF, P, Q = 0, 1, 2
PARTIAL, FULL, QUEUED = 1, 2, 3

# what a reduction answers; an apex is positive
REJECTED, KEPT, CHANGED, TABLE_FULL, JOURNAL_FULL, NOT_A_LEAF = 0, -1, -2, -3, -4, -5


def put(T: Table, J: Journal, at: int, value: int) -> None:
    """Write to the structure; under a checkpoint the journal keeps the old value."""
    if J is not None:
        top = J[0]
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


def start(T: Table, n: int) -> None:
    """The tree of all orders of n leaves, one P-node, in a table of zeros."""
    T[LEAVES] = n
    T[END] = WIDTH + (n * HALF + WIDTH - 1) // WIDTH * WIDTH
    if n == 1:
        T[ROOT] = WIDTH
    elif n > 1:
        root = new(T, None, P)
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
        if J is None or J[0] + 2 <= len(J):
            put(T, J, p + UNION, over)
        p = over
        up = T[p + UNION]
    return p


# --- surveying: which nodes are full or partial, and can the row be made consecutive?


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


# --- rebuilding


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


# --- entries


def reduce_row(T: Table, J: Journal, W: Table, S: Table, low: int, high: int) -> int:
    """Make the leaves S[low:high] consecutive: CHANGED or KEPT; else the tree stays as it is, and why."""
    before = T[VISITED]
    apex = survey(T, J, W, S, low, high)
    if apex <= 0:
        return apex
    changes = T[VISITED] - before + 4  # at most so many new nodes, and 32 times as many writes
    if J is not None and J[0] + 64 * changes > len(J):
        return JOURNAL_FULL
    if T[END] + WIDTH * changes > len(T):
        return TABLE_FULL
    return commit(T, J, W, apex)


def reduce_rows(T: Table, J: Journal, W: Table, indptr: Table, S: Table, accepted: Table, begin: int) -> int:
    """Reduce the rows from number `begin` on.

    Returns the number of the row it stopped at: past the last, or one without room, or not of leaves.
    """
    for i in range(begin, len(indptr) - 1):
        answer = reduce_row(T, J, W, S, indptr[i], indptr[i + 1])
        if answer in (TABLE_FULL, JOURNAL_FULL, NOT_A_LEAF):
            return i
        accepted[i] = answer != REJECTED
    return len(indptr) - 1


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
