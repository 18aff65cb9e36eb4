"""Why rows cannot all be consecutive: a minimal set of them, and the pattern of Tucker that it holds.

QuickXplain (Junker 2004) finds the rows; Tucker 1972 names the five families of minimal 0/1 matrices
without the consecutive-ones property, which every contradiction contains.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

T = TypeVar("T")


class Tree(Protocol):
    """The part of a PQ-tree that is used here."""

    def reduce(self, *rows: Sequence[int]) -> bool:
        """Make rows consecutive, if that can be."""

    def checkpoint(self) -> int:
        """Remember the tree as it is."""

    def rollback(self, mark: int) -> None:
        """Take back all changes since."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """Rows that contradict each other, while any of them left out leaves the others possible.

    `rows` are the numbers of those given, `tree_rows` those of the tree's own rows that take part.
    `pattern` is Tucker's, as "M_I(1)"; it shows on the columns `leaves`.
    """

    rows: tuple[int, ...]
    tree_rows: tuple[tuple[int, ...], ...]
    pattern: str
    leaves: tuple[int, ...]

    def __str__(self) -> str:
        """In one line."""
        rows = ", ".join(str(row) for row in self.rows)
        tree = f" with {len(self.tree_rows)} of the tree's" if self.tree_rows else ""
        return f"rows {rows}{tree} form Tucker's {self.pattern} on leaves {', '.join(map(str, self.leaves))}"


def smallest(items: Sequence[T], fails: Callable[[Sequence[T]], bool]) -> list[T]:
    """A minimal sublist that fails, where all items together do, and more items never fail less.

    Of several it prefers the one of earlier items. About k log(m / k) calls for k of m items.
    """

    def explain(background: list[T], fresh: bool, candidates: list[T]) -> list[T]:
        if fresh and fails(background):
            return []
        if len(candidates) == 1:
            return candidates
        half = len(candidates) // 2
        first, second = candidates[:half], candidates[half:]
        late = explain(background + first, bool(first), second)
        return explain(background + late, bool(late), first) + late

    return explain([], False, list(items)) if items else []


def contradict(tree: Tree, rows: Sequence[Sequence[int]]) -> bool:
    """Whether the rows cannot all be added to the tree, which stays as it is."""
    return first_refused(tree, rows) is not None


def first_refused(tree: Tree, rows: Sequence[Sequence[int]]) -> int | None:
    """The number of the first row that those before it and the tree contradict; the tree stays as it is."""
    mark = tree.checkpoint()
    refused = next((i for i, row in enumerate(rows) if not tree.reduce(row)), None)
    tree.rollback(mark)
    return refused


def conflict_among(
    free: Tree, tree_rows: Sequence[Sequence[int]], rows: Sequence[Sequence[int]]
) -> Conflict | None:
    """A minimal contradiction among rows, with a tree's own, which are possible together.

    `free` is a tree of the leaves that allows all orders, and stays so.
    """
    every = [*tree_rows, *rows]
    last = first_refused(free, every)
    if last is None:
        return None
    numbers = sorted(smallest(range(last + 1), lambda some: contradict(free, [every[i] for i in some])))
    core = [set(every[i]) for i in numbers]

    def contradict_on(columns: Sequence[int]) -> bool:
        kept = set(columns)
        return contradict(free, [sorted(row & kept) for row in core])

    leaves = sorted(smallest(sorted(set().union(*core)), contradict_on))
    return Conflict(
        tuple(i - len(tree_rows) for i in numbers if i >= len(tree_rows)),
        tuple(tuple(every[i]) for i in numbers if i < len(tree_rows)),
        tucker_pattern([row & set(leaves) for row in core], len(leaves)),
        tuple(leaves),
    )


def tucker_pattern(rows: Sequence[set[int]], columns: int) -> str:
    """The name of a minimal matrix without the property: the families differ in size or in their row sums."""
    m, sums = len(rows), sorted(len(row) for row in rows)
    if m == columns:
        if sums == [2] * m:
            return f"M_I({m - 2})"
        if sums == [2] * (m - 2) + [m - 1] * 2:
            return f"M_II({m - 3})"
    if columns == m + 1 and sums == sorted([2] * (m - 1) + [m - 1]):
        return f"M_III({m - 2})"
    if (m, columns, sums) == (4, 6, [2, 2, 2, 3]):
        return "M_IV"
    if (m, columns, sums) == (4, 5, [2, 2, 3, 4]):
        return "M_V"
    raise AssertionError(f"not minimal: {rows}")
