"""Which operands can be free of copies at once: decided exactly.

A set of operands is possible if and only if (1) their adjacency, closed under broadcast, leaves a PQ-tree,
and (2) the lane orders that operands of one batch must share do not contradict each other. Closed means
that the trees below the operands of a batch have one shape, lane by lane: whatever one of them demands, all
demand (BroadcastConstraint of ED-Batch's Algorithm 2). As every reduction made here holds in any layout
with these operands, a rejection proves that there is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from abw.pqtree import shape
from abw.pqtree.align import Alignment, View
from abw.pqtree.program import Item
from abw.pqtree.tree import PQTree

COMPILED_FROM = 1000
"""Planning reduces few rows: with fewer variables plain Python is done before a compiled kernel is loaded."""


def planning_tree(n: int) -> PQTree:
    """The tree of all orders of n variables, compiled only where that pays."""
    return PQTree(n, use_compiled=None if n >= COMPILED_FROM else False)


@dataclass(slots=True)
class _Level:
    """Items that were added together: where they begin among the added, and the tree before them."""

    begin: int
    mark: int
    alignment: Alignment | None = None
    known: bool = False  # whether `alignment` has been worked out


class Closure:
    """Operands of n variables that are made adjacent one after the other, and closed under broadcast.

    Adding is a stack: `feasible` keeps what two calls in a row have in common at their beginning.
    """

    def __init__(self, n: int, items: Sequence[Item]) -> None:
        """Nothing is added yet; `items` are named by their numbers."""
        self.items = items
        self.tree = planning_tree(n)
        self._added: list[int] = []
        self._levels: list[_Level] = []
        self._batch: dict[int, list[int]] = {}
        self._readers: list[list[int]] = [[] for _ in range(n)]  # the added items of more than two lanes

    def feasible(self, some: Sequence[int], *, at_once: bool = False) -> bool:
        """Whether a layout exists in which all these items are free of copies. Exact.

        `at_once` is faster where they are, but the next call can keep all of them or none.
        """
        common = 0
        while common < min(len(some), len(self._added)) and some[common] == self._added[common]:
            common += 1
        self.back(common)
        new = some[len(self._added) :]
        groups = [new] if at_once and new else [[number] for number in new]
        return all(self.push(group) for group in groups) and self.alignment() is not None

    def holds(self, some: Sequence[int]) -> bool:
        """Whether these items are the ones added, in whatever order."""
        return len(some) == len(self._added) and set(some) == set(self._added)

    @property
    def added(self) -> int:
        """The number of items added."""
        return len(self._added)

    def push(self, numbers: Sequence[int]) -> bool:
        """Add items, all or none, if adjacency allows. Says nothing of alignment."""
        self._levels.append(_Level(len(self._added), self.tree.checkpoint()))
        for number in numbers:
            item = self.items[number]
            self._added.append(number)
            self._batch.setdefault(item.key[0], []).append(number)
            if len(item.lanes) > 2:
                for variable in item.lanes:
                    self._readers[variable].append(number)
        rows = [self.items[number].lanes for number in numbers]
        if self._narrow(rows, {self.items[number].key[0] for number in numbers}):
            return True
        self.back(len(self._added) - 1)
        return False

    def back(self, size: int) -> None:
        """Take back all but the first `size` items, and those added together with one taken back."""
        while len(self._added) > size:
            level = self._levels.pop()
            self.tree.rollback(level.mark)
            while len(self._added) > level.begin:
                item = self.items[self._added.pop()]
                self._batch[item.key[0]].pop()
                if len(item.lanes) > 2:
                    for variable in item.lanes:
                        self._readers[variable].pop()

    def alignment(self) -> Alignment | None:
        """The lane orders the added items agree on; None if they do not."""
        if not self._levels:
            return Alignment(self.tree)
        top = self._levels[-1]
        if not top.known:
            top.alignment, top.known = self._align(), True
        return top.alignment

    def _align(self) -> Alignment | None:
        alignment = Alignment(self.tree)
        for numbers in self._batch.values():
            if len(numbers) > 1:
                first, *others = [View.of(self.tree, self.items[number].lanes) for number in numbers]
                if not all(alignment.tie(first, other) for other in others):
                    return None
        return alignment if alignment.consistent() else None

    def _narrow(self, rows: Iterable[Sequence[int]], pending: set[int]) -> bool:
        """Reduce the rows; then broadcast within the batches pending, and those it reaches, to a fixpoint."""
        done: set[frozenset[int]] = set()
        codes: dict[int, shape.Code] = {}  # the shapes below added items, as far as they are known
        while True:
            for row in rows:
                members = frozenset(row)
                if members in done:
                    continue
                done.add(members)
                changed = self.tree.narrow(list(row))
                if changed is None:
                    return False
                for number in self._affected(row) if changed else ():
                    pending.add(self.items[number].key[0])
                    codes.pop(number, None)
            if not pending:
                return True
            demands = self._demands(pending.pop(), codes)
            if demands is None:
                return False
            rows = demands

    def _affected(self, row: Sequence[int]) -> list[int]:
        """The added items whose tree below may have changed shape by reducing the row.

        An operand outside the row, or wholly inside, keeps its shape: its part of the tree is empty or full.
        """
        hits: dict[int, int] = {}
        for variable in row:
            for number in self._readers[variable]:
                hits[number] = hits.get(number, 0) + 1
        return [number for number, count in hits.items() if count < len(self.items[number].lanes)]

    def _demands(self, batch: int, codes: dict[int, shape.Code]) -> list[list[int]] | None:
        """The rows that give all added operands of a batch one shape; None if no shape fits them all."""
        numbers = self._batch[batch]
        operands = [self.items[number].lanes for number in numbers]
        lanes = len(operands[0])
        if len(operands) < 2 or lanes < 3:
            return []
        for number, operand in zip(numbers, operands, strict=True):
            if number not in codes:
                codes[number] = View.of(self.tree, operand).code
        shapes = [codes[number] for number in numbers]
        if all(code == shapes[0] for code in shapes):
            return []
        target = _meet(lanes, set(shapes))
        if target is None:
            return None
        rows = shape.rows(target)
        return [
            [operand[lane] for lane in row]
            for operand, code in zip(operands, shapes, strict=True)
            if code != target
            for row in rows
        ]


def _meet(lanes: int, shapes: Iterable[shape.Code]) -> shape.Code | None:
    """The canonical shape of the lane orders that all these canonical shapes have; None if there is none."""
    proper = [code for code in shapes if len(code) > lanes + 1 or shape.is_q(code[0])]  # not one P-node
    if len(proper) == 1:
        return proper[0]
    common = planning_tree(lanes)
    rows = {frozenset(row): row for code in proper for row in shape.rows(code)}
    if not all(common.reduce(row) for row in rows.values()):
        return None
    return shape.canonical(common.code())
