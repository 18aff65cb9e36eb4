"""PQ-trees: all the orders of n leaves in which each of some sets of leaves is consecutive."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from abw.pqtree import compiled, kernel, shape, table

Row = Iterable[int]


class PQTree:
    """The orders of the leaves 0 to n - 1 that the rows reduced so far allow; at first all n! of them.

    A row is a set of leaves. Reducing it keeps the orders in which it is consecutive, or, where there is
    none, refuses and changes nothing. Amortised, a reduction takes time in proportion to its row.
    Trees below 64 leaves run in plain Python, larger ones compiled (`use_compiled` decides otherwise); the
    results are the same.
    """

    __slots__ = ("_compiled", "_journal", "_kernel", "_marks", "_table", "_work", "n")

    def __init__(self, n: int, *, use_compiled: bool | None = None) -> None:
        """All orders of n leaves. Raises ValueError for n < 0."""
        if n < 0:
            raise ValueError(f"a tree of {n} leaves")
        self.n = n
        self._compiled = compiled.wanted(n) if use_compiled is None else use_compiled
        self._kernel: ModuleType | SimpleNamespace = compiled.compiled() if self._compiled else kernel
        self._table: Any = self.array(table.table_size(n, 2 * n + 8))
        self._work: Any = self.array(8 * n + 64)
        self._journal: Any = self.array(1)
        self._marks: list[int] = []
        self._kernel.start(self._table, self._journal, n)

    # --- for kernels that build on the tree's

    def kernel_of(self, module: ModuleType) -> ModuleType | SimpleNamespace:
        """The module, or its entries compiled, as this tree's own kernel is."""
        return compiled.compiled(module) if self._compiled else module

    def array(self, size: int) -> Any:  # noqa: ANN401 - a list or an array
        """Zeros, as the kernel takes them."""
        if not self._compiled:
            return [0] * size
        raw = np.zeros(size + 16, np.int32)
        begin = -raw.ctypes.data % 64 // 4  # rows are to lie in one cache line each
        return raw[begin : begin + size]

    def row(self, row: Row) -> Any:  # noqa: ANN401
        """Integers, as the kernel takes them."""
        if not self._compiled:
            return row if isinstance(row, list) else list(row)
        if not isinstance(row, np.ndarray | list | tuple):
            row = list(row)
        return np.asarray(row, np.int32)

    def rows_of(self, rows: Sequence[Sequence[int]]) -> Any:  # noqa: ANN401
        """Several rows of integers, as the kernel takes them; compiled, zeros fill them up to one length."""
        if not self._compiled:
            return [list(row) for row in rows]
        filled = np.zeros((len(rows), max(map(len, rows))), np.int32)
        for kept, row in zip(filled, rows, strict=True):
            kept[: len(row)] = row
        return filled

    @property
    def room(self) -> int:
        """No node's name is larger than this, until `run` has made more room."""
        return len(self._table)

    def run(self, entry: Callable[..., int], *arguments: Any) -> int:  # noqa: ANN401
        """Call an entry of a kernel on this tree, again with more room while it finds none; its answer."""
        answer = entry(self._table, self._journal, self._work, *arguments)
        while answer in (table.TABLE_FULL, table.JOURNAL_FULL):
            if answer == table.JOURNAL_FULL:
                self._journal = self._doubled(self._journal)
            else:
                self._table, self._work = self._doubled(self._table), self._doubled(self._work)
            answer = entry(self._table, self._journal, self._work, *arguments)
        return answer

    def _doubled(self, old: Any) -> Any:  # noqa: ANN401
        grown = self.array(2 * len(old) + 1024)
        grown[: len(old)] = old
        return grown

    def _reduce(self, row: Row) -> int:
        leaves = self.row(row)
        answer = self.run(self._kernel.reduce_row, leaves, 0, len(leaves))
        if answer == table.NOT_A_LEAF:
            raise ValueError(f"a row has a leaf that is not in 0..{self.n - 1}")
        return int(answer)

    # --- reducing

    def reduce(self, *rows: Row) -> bool:
        """Make each row consecutive. If that cannot be, False, and the tree is as it was: all rows or none.

        Raises ValueError where a row has something that is no leaf.
        """
        if len(rows) == 1:
            return self._reduce(rows[0]) != table.REJECTED
        mark = self.checkpoint()
        try:
            done = all(self._reduce(row) != table.REJECTED for row in rows)
        except ValueError:
            self.rollback(mark)
            raise
        if done:
            self.release(mark)
        else:
            self.rollback(mark)
        return done

    def narrow(self, row: Row) -> bool | None:
        """Reduce one row; whether the tree changed, None where the row is rejected."""
        answer = self._reduce(row)
        return None if answer == table.REJECTED else answer == table.CHANGED

    # --- going back

    def checkpoint(self) -> int:
        """Remember the tree as it is, for `rollback`; `release` forgets it. Checkpoints may be nested.

        Costs nothing at once, and little at each change after it.
        """
        if not self._marks:
            self._journal[0] = 1
        self._marks.append(int(self._journal[0]))
        return len(self._marks) - 1

    def rollback(self, mark: int) -> None:
        """Take back all changes since the checkpoint; it and those after it are closed."""
        self._kernel.undo(self._table, self._journal, self._marks[mark])
        self._close(mark)

    def release(self, mark: int) -> None:
        """Close the checkpoint and those after it; the changes stay."""
        self._close(mark)

    def _close(self, mark: int) -> None:
        if not 0 <= mark < len(self._marks):
            raise ValueError("the checkpoint is closed already")
        del self._marks[mark:]
        if not self._marks:
            self._journal[0] = 0

    # --- asking

    def code(self) -> shape.Code:
        """The tree as it lies, in the prefix form of `shape.py`. Linear."""
        return tuple(self.places()[0])

    def below(self, row: Sequence[int]) -> tuple[list[int], list[int]]:
        """The code of what holds these leaves and nothing else, and the node at each of its places.

        That is a node, or some neighbours under a Q-node, which then stand as a node of their own under the
        Q-node's name. The names hold until the tree changes. Raises ValueError if the leaves are not
        different, or not consecutive in all orders.
        """
        leaves, members = self.row(row), set(row)
        if not members or len(members) < len(leaves) or min(members) < 0 or max(members) >= self.n:
            raise ValueError(f"{sorted(members)} are not different leaves in 0..{self.n - 1}")
        code, nodes = self.array(2 * len(leaves) + 1), self.array(2 * len(leaves) + 1)
        size = self._kernel.encode_row(
            self._table, self._journal, self._work, leaves, 0, len(leaves), code, nodes
        )
        if size == 0:
            raise ValueError(f"{sorted(members)} are not always consecutive")
        if self._compiled:
            return code[:size].tolist(), nodes[:size].tolist()
        return code[:size], nodes[:size]

    def places(self) -> tuple[list[int], list[int]]:
        """The code of the whole tree and the node at each of its places, as `below` names them."""
        used = int(self._table[table.END]) // table.HALF
        code, nodes = self.array(used), self.array(used)
        size = self._kernel.encode(self._table, self._work, int(self._table[table.ROOT]), code, nodes, 0)
        if self._compiled:
            return code[:size].tolist(), nodes[:size].tolist()
        return code[:size], nodes[:size]

    def count(self) -> int:
        """The number of orders, exactly."""
        return shape.count(self.code())

    def canonical(self) -> str:
        """A text that is the same for one set of orders, and only for it; `from_text` reads it."""
        return shape.to_text(shape.canonical(self.code()))

    def rows(self) -> list[list[int]]:
        """Rows that make this tree out of a new one. May be as long as n squared in all."""
        return shape.rows(shape.canonical(self.code()))

    def to_text(self) -> str:
        """The tree as it lies: P-nodes in round, Q-nodes in square brackets."""
        return shape.to_text(self.code())

    @classmethod
    def from_text(cls, text: str) -> PQTree:
        """Read what `to_text` or `canonical` wrote. Raises ValueError."""
        return _from_code(shape.from_text(text))

    def __repr__(self) -> str:
        """For a small tree, its canonical text."""
        text = self.canonical() if self.n <= 32 else f"{self.n} leaves"
        return f"PQTree({text})"


def _from_code(code: shape.Code) -> PQTree:
    """The tree of a code. The rows go from the smallest to the largest, so that each is a cheap reduction."""
    tree = PQTree(sum(token >= 0 for token in code))
    for row in sorted(shape.rows(code), key=len):
        if not tree.reduce(row):
            raise ValueError("not the code of a tree")
    return tree
