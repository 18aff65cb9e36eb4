"""Memory at cache lines and on huge pages, and the arenas of a network in it."""

from __future__ import annotations

import mmap
from collections.abc import Mapping
from contextlib import suppress

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.lower.rows import matrix_view, row_floats
from abw.core.exec.params import Params
from abw.core.exec.values import fill_constants
from abw.core.ir.network import Network
from abw.core.jit.pointers import Table, address
from abw.core.plan.arenas import Arenas
from abw.core.plan.plan import Plan

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]

# Bytes that rows and weights are aligned to.
LINE = 64
# Bytes of a huge page.
HUGE = 1 << 21


def aligned(floats: int) -> Floats:
    """Uninitialised memory that begins at a cache line."""
    memory = np.empty(floats + LINE // 4, np.float32)
    begin = -address(memory) // 4 % (LINE // 4)
    return memory[begin : begin + floats]


def on_huge_pages(floats: int) -> Floats:
    """Memory, zeros, on pages of 2 MiB as far as it fills them and Linux gives them; elsewhere as `aligned`.

    What is read from first to last, and is larger than the second-level cache, spares the processor looking
    up a page every 4 KiB.
    """
    whole = 4 * floats // HUGE * HUGE
    if not whole or not hasattr(mmap, "MADV_HUGEPAGE"):
        return aligned(floats)
    pages = mmap.mmap(-1, 4 * floats + HUGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory = np.frombuffer(pages, np.float32)
    begin = -address(memory) % HUGE
    with suppress(OSError):  # a kernel without them
        pages.madvise(mmap.MADV_HUGEPAGE, begin, whole)
    return memory[begin // 4 : begin // 4 + floats]


class ArenaMemory:
    """Arenas that are kept from run to run, and grow.

    `memory[a]` are arena a's floats, `views[a]` (rows, *shape) its values; `table` (A,) where each lies,
    `pitch` (A,) its rows' bytes, `held` (A,) how many rows there are.
    """

    def __init__(self, network: Network, arenas: Arenas, params: Params, lanes: int) -> None:
        """No rows yet. `lanes`: floats of a vector."""
        self._network, self._arenas, self._params, self.lanes = network, arenas, params, lanes
        self._floats = [row_floats(shape, lanes) for shape in arenas.shape]
        self.memory: list[Floats] = [aligned(0) for _ in self._floats]
        self.views: list[Floats] = list(self.memory)
        self.table = Table(np.zeros(len(self._floats), np.int64))
        self.pitch = np.array([4 * floats for floats in self._floats], np.int64)
        self.held = np.zeros(len(self._floats), np.int64)

    def update(self, params: Params, changed: Mapping[int, Ints] | None = None) -> None:
        """Write other parameters and tables; of tables only the rows `changed` where that is given."""
        self._params = params
        for a, values in enumerate(self.views):
            if len(values):
                fill_constants(values, a, self._arenas, self._network, params, changed)

    def rowwise(self, a: int) -> Floats:
        """Arena a as rows, padding included: (rows, floats)."""
        floats = self._floats[a]
        return self.memory[a][: len(self.views[a]) * floats].reshape(-1, floats)

    def reserve_for(self, plan: Plan) -> bool:
        """Have the rows of a plan; those of the runs that it goes on from stay as they are.

        The result: whether some arena is another now.
        """
        return self.reserve(plan.rows, plan.earlier.rows if plan.earlier else None)

    def reserve(self, rows: Ints, held: Ints | None = None) -> bool:
        """Have so many rows of each arena, of which the first `held` stay; whether some arena is another."""
        moved = False
        for a, wanted in enumerate(rows.tolist()):
            if len(self.views[a]) < wanted:
                moved = True
                shape, floats = self._arenas.shape[a], self._floats[a]
                # room to grow costs nothing until it is used, and spares filling in the tables again;
                # part of a row is read in whole vectors: beyond the last row, too
                wanted += wanted // 2
                # what an earlier run left there and is not read any more goes before its place is taken
                kept = 0 if held is None else min(int(held[a]), len(self.views[a])) * floats
                before = self.memory[a][:kept] if kept else aligned(0)
                self.held[a] = 0
                self.memory[a] = self.views[a] = aligned(0)
                self.table.point(a, self.memory[a])
                self.memory[a] = aligned(wanted * floats + self.lanes)
                self.memory[a][:kept] = before
                rowwise = self.memory[a][: wanted * floats].reshape(wanted, floats)
                self.views[a] = matrix_view(rowwise, shape, self.lanes)
                fill_constants(self.views[a], a, self._arenas, self._network, self._params)
                self.table.point(a, self.memory[a])
                self.held[a] = wanted
        return moved
