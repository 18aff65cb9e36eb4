"""The arenas of a network in memory."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.cpu.packing import aligned
from abw.core.exec.lower.rows import matrix_view, row_floats
from abw.core.exec.params import Params
from abw.core.exec.values import fill_constants, refill
from abw.core.ir.network import Network
from abw.core.jit.pointers import Table
from abw.core.plan.arenas import Arenas

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]


class ArenaMemory:
    """Arenas that are kept from run to run, and grow.

    `memory[a]` are arena a's floats, `views[a]` (rows, *shape) its values; `table` (A,) where each lies,
    `pitch` (A,) its rows' bytes.
    """

    def __init__(self, network: Network, arenas: Arenas, params: Params, lanes: int) -> None:
        """No rows yet. `lanes`: floats of a vector."""
        self._network, self._arenas, self._params, self._lanes = network, arenas, params, lanes
        self._floats = [row_floats(shape, lanes) for shape in arenas.shape]
        self.memory: list[Floats] = [aligned(0) for _ in self._floats]
        self.views: list[Floats] = list(self.memory)
        self.table = Table(np.zeros(len(self._floats), np.int64))
        self.pitch = np.array([4 * floats for floats in self._floats], np.int64)

    def update(self, params: Params) -> None:
        """Write other parameters and tables."""
        self._params = params
        refill(self.views, self._arenas, self._network, params)

    def rowwise(self, a: int) -> Floats:
        """Arena a as rows, padding included: (rows, floats)."""
        floats = self._floats[a]
        return self.memory[a][: len(self.views[a]) * floats].reshape(-1, floats)

    def reserve(self, rows: Ints, held: Ints | None = None) -> None:
        """Have so many rows of each arena, of which the first `held` stay as they are."""
        for a, wanted in enumerate(rows.tolist()):
            if len(self.views[a]) < wanted:
                shape, floats = self._arenas.shape[a], self._floats[a]
                # room to grow costs nothing until it is used, and spares filling in the tables again;
                # part of a row is read in whole vectors: beyond the last row, too
                wanted += wanted // 2
                # what an earlier run left there and is not read any more goes before its place is taken
                kept = 0 if held is None else min(int(held[a]), len(self.views[a])) * floats
                before = self.memory[a][:kept] if kept else aligned(0)
                self.memory[a] = self.views[a] = aligned(0)
                self.table.point(a, self.memory[a])
                self.memory[a] = aligned(wanted * floats + self._lanes)
                self.memory[a][:kept] = before
                rowwise = self.memory[a][: wanted * floats].reshape(wanted, floats)
                self.views[a] = matrix_view(rowwise, shape, self._lanes)
                fill_constants(self.views[a], a, self._arenas, self._network, self._params)
                self.table.point(a, self.memory[a])
