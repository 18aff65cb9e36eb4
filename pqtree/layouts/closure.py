"""Which operands can be free of copies at once: decided exactly.

A set of operands is possible if and only if (1) their adjacency, closed under broadcast, leaves a PQ-tree,
and (2) the lane orders that operands of one batch must share do not contradict each other. Closed means
that the trees below the operands of a batch have one shape, lane by lane: whatever one of them demands, all
demand. As every reduction made for this holds in any layout with these operands, a rejection proves that
there is none. `broadcast.py` closes the tree, `ties.py` compares lane orders.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import accumulate

from abw.pqtree.layouts import broadcast
from abw.pqtree.layouts.align import Alignment
from abw.pqtree.layouts.problem import Item
from abw.pqtree.tree import PQTree

# Planning reduces few rows: with fewer variables plain Python is done before a compiled kernel is loaded.
COMPILED_FROM = 1000


def planning_tree(n: int) -> PQTree:
    """The tree of all orders of n variables, compiled only where that pays."""
    return PQTree(n, use_compiled=None if n >= COMPILED_FROM else False)


class Closure:
    """Operands of n variables that are made adjacent one after the other, and closed under broadcast.

    Adding is a stack: `feasible` keeps what two calls in a row have in common at their beginning.
    """

    def __init__(self, n: int, items: Sequence[Item], tree: PQTree | None = None) -> None:
        """Nothing is added yet; `items` are named by their numbers. `tree` is of all orders."""
        self.items = items
        self.tree = planning_tree(n) if tree is None else tree
        self.tree.checkpoint()
        self._kernel = self.tree.kernel_of(broadcast)
        self._state = self.tree.rows_of(_state(n, items))
        self._alignment: Alignment | None = None

    def feasible(self, some: Sequence[int], *, at_once: bool = False) -> bool:
        """Whether a layout exists in which all these items are free of copies. Exact.

        `at_once` is faster where they are, but the next call can keep all of them or none.
        """
        return self.hold(some, at_once=at_once) == len(some) and self.agrees()

    def hold(self, some: Sequence[int], *, at_once: bool = False) -> int:
        """Let these items be the ones added, up to the first that adjacency forbids; how many are."""
        group = len(some) if at_once and some else 1
        return self.tree.run(self._kernel.hold, self._state, self.tree.row(some), len(some), group)

    def fill(self, kept: Sequence[int], others: Sequence[int]) -> list[int]:
        """Add to the items kept, which adjacency allows, each of the others that it allows; all of them."""
        row = self.tree.row([*kept, *others])
        added = self.tree.run(self._kernel.hold, self._state, row, len(kept), 1)
        return [int(number) for number in self._state[broadcast.ORDER][:added]]

    def weight_without(self, kept: Collection[int]) -> int:
        """The weight of all items but these."""
        return sum(item.weight for i, item in enumerate(self.items) if i not in kept)

    def agrees(self) -> bool:
        """Whether the items of each batch can have one order of lanes."""
        if self._alignment is None or self._alignment.room < self.tree.room:
            self._alignment = Alignment(self.tree)
        return bool(self.tree.run(self._kernel.agree, self._state, self._alignment.arrays))

    def alignment(self) -> Alignment | None:
        """The lane orders the added items agree on, as long as no others are added; None if they do not."""
        return self._alignment if self.agrees() else None


def _state(n: int, items: Sequence[Item]) -> list[list[int]]:
    """The arrays that `broadcast.py` names, with nothing added."""
    batches: dict[int, int] = {}
    batch = [batches.setdefault(item.key[0], len(batches)) for item in items]
    readers: list[list[int]] = [[] for _ in range(n)]
    for number, item in enumerate(items):
        for variable in item.lanes if len(item.lanes) > 2 else ():
            readers[variable].append(number)

    def zeros(size: int) -> list[int]:
        return [0] * size

    state = [zeros(len(items)) for _ in range(broadcast.HEAD)]
    state[broadcast.BEGIN] = [0, *accumulate(len(item.lanes) for item in items)]
    state[broadcast.LANES] = [variable for item in items for variable in item.lanes]
    state[broadcast.BATCH] = batch
    state[broadcast.READ_BEGIN] = [0, *accumulate(map(len, readers))]
    state[broadcast.READERS] = [number for some in readers for number in some]
    state[broadcast.TOP] = [-1] * len(batches)
    for by_place in range(broadcast.CODE, broadcast.HEAD):
        state[by_place] = zeros(2 * n + 2)
    return [*state, zeros(4)]
