"""The invariants of a PQ-tree's table, each under its name."""

from __future__ import annotations

from abw.pqtree import table as k
from abw.pqtree.tree import PQTree


class InvariantError(AssertionError):
    """A PQ-tree is broken; `name` is the invariant's."""

    def __init__(self, name: str, detail: str) -> None:
        """The invariant `name` does not hold: what was found instead."""
        super().__init__(f"{name}: {detail}")
        self.name = name


def _require(holds: bool, name: str, detail: str) -> None:
    if not holds:
        raise InvariantError(name, detail)


def check_tree(tree: PQTree) -> None:
    """Raise InvariantError where the tree's table is broken. Linear, in plain Python.

    The invariants: `header` (counts and size), `rows` (a node is where a row begins), `root`, `kinds`,
    `arity` (a P-node has two children or more, a Q-node three), `p-links` (children linked both ways, in
    order), `p-parents`, `q-links` (neighbours name each other, two ends), `q-parents` (union-find leads
    from a Q-child to its Q-node, and ends), `count` (as many children as said), `once` (each node has one
    place), `leaves` (all of them are there).
    """
    T: list[int] = [int(value) for value in tree._table]
    first = k.WIDTH + (tree.n * k.HALF + k.WIDTH - 1) // k.WIDTH * k.WIDTH
    _require(T[k.LEAVES] == tree.n, "header", f"{T[k.LEAVES]} leaves of {tree.n}")
    _require(first <= T[k.END] <= len(T) and T[k.END] % k.WIDTH == 0, "header", f"the end is {T[k.END]}")
    _require(T[k.UNION] == 0, "header", "'no node' has an absorber")
    leaf_rows = {k.WIDTH + leaf * k.HALF for leaf in range(tree.n)}
    root = T[k.ROOT]
    if tree.n == 0:
        _require(root == 0, "root", "a tree without leaves has one")
        return
    seen: set[int] = set()
    pending = [root]
    while pending:
        x = pending.pop()
        inner = first <= x < T[k.END] and x % k.WIDTH == 0
        _require(inner or x in leaf_rows, "rows", f"{x} is no node")
        _require(x not in seen, "once", f"node {x} has two places")
        seen.add(x)
        if not inner:
            _require(T[x + k.KIND] == k.LEAF, "kinds", f"leaf {x}")
            continue
        _require(T[x + k.KIND] in (k.P, k.Q), "kinds", f"node {x} is of kind {T[x + k.KIND]}")
        pending += _check_p(T, x) if T[x + k.KIND] == k.P else _check_q(T, x)
    _require(T[root + k.PARENT] == 0, "root", "it has a parent")
    _require(leaf_rows <= seen, "leaves", f"{len(leaf_rows - seen)} are missing")


def _check_p(T: list[int], x: int) -> list[int]:
    """The children of a sound P-node."""
    _require(T[x + k.UNION] == x, "p-parents", f"P-node {x} is absorbed")
    children: list[int] = []
    before, child = 0, T[x + k.FIRST]
    while child:
        _require(0 < child < T[k.END], "rows", f"{child} is no node")
        _require(T[child + k.LEFT] == before, "p-links", f"{child} does not know its left neighbour {before}")
        _require(T[child + k.PARENT] == x, "p-parents", f"{child} is not told its parent {x}")
        children.append(child)
        _require(len(children) <= T[x + k.COUNT], "count", f"{x} has more than {T[x + k.COUNT]} children")
        before, child = child, T[child + k.RIGHT]
    _require(T[x + k.LAST] == before, "p-links", f"the last child of {x} is not {before}")
    _require(len(children) == T[x + k.COUNT], "count", f"{x} has {len(children)}, not {T[x + k.COUNT]}")
    _require(len(children) >= 2, "arity", f"P-node {x} has {len(children)}")
    return children


def _check_q(T: list[int], x: int) -> list[int]:
    """The children of a sound Q-node."""
    _require(T[x + k.UNION] == x, "q-parents", f"Q-node {x} in the tree is absorbed")
    children: list[int] = []
    before, child = 0, T[x + k.FIRST]
    while child:
        _require(0 < child < T[k.END], "rows", f"{child} is no node")
        sides = (T[child + k.LEFT], T[child + k.RIGHT])
        _require(before in sides, "q-links", f"{child} does not know its neighbour {before}")
        absorber, steps = T[child + k.PARENT], 0
        while T[absorber + k.UNION] != absorber and steps < len(T):
            absorber, steps = T[absorber + k.UNION], steps + 1
        _require(absorber == x, "q-parents", f"union-find leads from {child} to {absorber}, not {x}")
        children.append(child)
        _require(len(children) <= T[x + k.COUNT], "count", f"{x} has more than {T[x + k.COUNT]} children")
        before, child = child, sides[1] if sides[0] == before else sides[0]
    _require(T[x + k.LAST] == before, "q-links", f"the other end of {x} is not {before}")
    _require(len(children) == T[x + k.COUNT], "count", f"{x} has {len(children)}, not {T[x + k.COUNT]}")
    _require(len(children) >= 3, "arity", f"Q-node {x} has {len(children)}")
    return children
