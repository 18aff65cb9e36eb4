"""Lane orders: how the nodes below the operands of one batch must be ordered alike, on flat arrays.

Once a tree is closed under broadcast, the trees below two operands of a batch have one shape. Tying them
says: order the children of these two P-nodes alike, or turn these two Q-nodes alike. One union-find over
"things that come together" decides whether that is possible: a child of a P-node, and each direction of a
Q-node, is an element, and alike elements are united. It is impossible if and only if two children of one
node, or its two directions, become one element. This replaces the unions with transforms of ED-Batch's
Algorithm 5, whose composition is right only for transforms that commute.

Like `kernel.py`, every function runs as plain Python on lists, or compiled on int32 arrays. The rows of
its table `A` are named here.
"""

from __future__ import annotations

from typing import Any

from abw.pqtree.kernel import encode, encode_row
from abw.pqtree.table import ROOT, Journal, Table

ENTRIES = ("untie", "tie", "consistent")

# by a node's name or its direction's: its place in the tree's code, what it is united with, if tied, a mark
PLACE, ABOVE, TIED, MARK = range(4)
# by place: the code of the tree and its nodes; of two operands; scratch
CODE, NODES, CODE_A, NODES_A, CODE_B, NODES_B, UP, END_A, END_B, MATCH, LANE, SPOT = range(4, 16)
SIZE = 16  # one integer: how many places the tree's code has
FORWARD, BACKWARD = 1, 2  # added to a node's name: its directions. Names are multiples of 8

Arrays = Any  # a list of 17 lists, or a table of int32


def untie(T: Table, J: Journal, W: Table, A: Arrays) -> None:
    """Forget all ties, for the tree as it is."""
    nodes = A[NODES]
    size = encode(T, W, T[ROOT], A[CODE], nodes, 0)
    for at in range(size):
        x = nodes[at]
        A[PLACE][x] = at
        A[TIED][x] = 0
        for element in range(x, x + 3):
            A[ABOVE][element] = element
            A[MARK][element] = -1
    A[SIZE][0] = size


def find(above: Table, x: int) -> int:
    """Return the representative of the elements united with x."""
    while above[x] != x:
        above[x] = above[above[x]]
        x = above[x]
    return x


def unite(above: Table, x: int, y: int) -> None:
    """Let x and y come together."""
    above[find(above, x)] = find(above, y)


def outline(code: Table, size: int, ends: Table, up: Table) -> None:
    """For each place of a code, the place after its subtree and that of its parent (the root's: -1)."""
    for at in range(size - 1, -1, -1):
        end = at + 1
        if code[at] < 0:
            for _ in range(-code[at] // 2):
                up[end] = at
                end = ends[end]
        ends[at] = end
    up[0] = -1


def tie(T: Table, J: Journal, W: Table, A: Arrays, S: Table, a: int, b: int, lanes: int) -> bool:
    """Order the nodes below the operands S[a:a + lanes] and S[b:b + lanes] alike. False: of other shape."""
    code, other, nodes, match, up = A[CODE_A], A[CODE_B], A[NODES_A], A[MATCH], A[UP]
    size = encode_row(T, J, W, S, a, a + lanes, code, nodes)
    if encode_row(T, J, W, S, b, b + lanes, other, A[NODES_B]) != size:
        return False
    lane, spot, ends = A[LANE], A[SPOT], A[END_A]
    outline(code, size, ends, up)
    outline(other, size, A[END_B], up)
    for i in range(lanes):
        lane[S[b + i]] = i
    for at in range(size):
        if other[at] >= 0:
            spot[lane[other[at]]] = at
    for i in range(lanes):
        lane[S[a + i]] = i
    for at in range(size - 1, -1, -1):  # children before their parents
        if code[at] >= 0:
            match[at] = spot[lane[code[at]]]
            continue
        m = up[match[at + 1]]
        if m < 0 or other[m] != code[at]:
            return False
        match[at] = m
        if not tie_nodes(A, at, m):
            return False
    return True


def tie_nodes(A: Arrays, at: int, m: int) -> bool:
    """Tie the inner nodes at two operands' places, whose children are matched. False: those differ."""
    code, nodes, others, match, place = A[CODE_A][at], A[NODES_A], A[NODES_B], A[MATCH], A[PLACE]
    first = last = at + 1
    free = code % 2 == 0 and code < -4  # a P-node whose children have an order, not only a direction
    forward = backward = True
    for i in range(-code // 2):
        child = last if i == 0 else A[END_A][last]
        if A[UP][match[child]] != m:
            return False
        forward = forward and match[child] >= match[last]
        backward = backward and match[child] <= match[last]
        if free:
            unite(A[ABOVE], nodes[child], others[match[child]])
        last = child
    x, y = nodes[at], others[m]
    A[TIED][x] = A[TIED][y] = 1
    if free:
        return True
    turned = place[nodes[first]] > place[nodes[last]]
    if turned == (place[others[match[first]]] > place[others[match[last]]]):
        unite(A[ABOVE], x + FORWARD, y + FORWARD)
        unite(A[ABOVE], x + BACKWARD, y + BACKWARD)
    else:
        unite(A[ABOVE], x + FORWARD, y + BACKWARD)
        unite(A[ABOVE], x + BACKWARD, y + FORWARD)
    return forward or backward


def consistent(T: Table, J: Journal, W: Table, A: Arrays) -> bool:
    """Whether all ties can hold at once."""
    code, nodes, above, size = A[CODE], A[NODES], A[ABOVE], A[SIZE][0]
    outline(code, size, A[END_A], A[UP])
    for at in range(size):
        x = nodes[at]
        if code[at] >= 0 or A[TIED][x] == 0:
            continue
        if code[at] % 2 == 1 or code[at] == -4:
            if find(above, x + FORWARD) == find(above, x + BACKWARD):
                return False
            continue
        child = at + 1
        for _ in range(-code[at] // 2):
            root = find(above, nodes[child])
            if A[MARK][root] == at:
                return False
            A[MARK][root] = at
            child = A[END_A][child]
    return True
