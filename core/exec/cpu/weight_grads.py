"""Weight gradients: products of rows summed over all rows, on one thread or several."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.cpu.llvm.compiled import compile_ir
from abw.core.exec.cpu.llvm.emit import Module
from abw.core.exec.cpu.llvm.weight_grads import JOB, SUMS, emit_sums
from abw.core.exec.cpu.target import Target
from abw.core.exec.cpu.team import Team
from abw.core.jit.decorators import njit
from abw.core.jit.pointers import address

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

_N, _M, _C = (JOB.index(name) for name in ("n", "m", "c"))

# So many products for each thread are shared as they are; of fewer each is done in parts, at some cost.
MANY = 6


class RowSums:
    """Sums over rows that lie anywhere, by their numbers: what a table of jobs (k, JOB) says.

    A job is a product summed over n rows, dw (m, c) += z[z_rows, :m]^T @ x[x_rows, :c], at 70 to 90 % of the
    peak. What is added up is in the order of the rows, in chunks of `llvm.weight_grads.CHUNK`: the same bits
    on however many threads. Rows of `z` and `x` are read in whole vectors: behind the last float that is
    asked for there must be room for one (`Target.lanes`), as there is in arenas.
    """

    def __init__(self, target: Target, team: Team | None = None, threads: int = 1) -> None:
        """Compile, or find on disk. A team shares the jobs, and where they are few the rows of each."""
        module = Module(target)
        emit_sums(module)
        self._code = compile_ir(module.text(), target)
        pointer, number = ctypes.c_void_p, ctypes.c_int64
        self._sums = ctypes.CFUNCTYPE(None, pointer, number, number, pointer)(self._code.address(SUMS))
        self._team, self._threads = team, threads

    def add(self, jobs: Longs, meanwhile: Callable[[], object] | None = None) -> None:
        """Do all jobs that have a row. What they name must be there until then.

        A team's first thread calls `meanwhile` before it helps the others; without a team it is called first.
        """
        jobs = np.ascontiguousarray(jobs[(jobs[:, _N] > 0) & (jobs[:, _M] > 0) & (jobs[:, _C] > 0)])
        parts = 1 if (jobs[:, _M] > 1).sum() >= MANY * self._threads else self._threads
        taken = np.zeros(1, np.int64)

        def part(thread: int) -> None:
            if meanwhile and thread == 0:
                meanwhile()
            self._sums(address(jobs), len(jobs), parts, address(taken))

        if self._team is None or not len(jobs):
            part(0)
        else:
            flops = 2 * int(jobs[:, [_N, _M, _C]].prod(axis=1).sum())
            self._team.do(part, lambda: part(0), flops, ("sums", meanwhile is None))


class TableSums:
    """Sums of rows by a number that each has: the gradient of a table, of which few rows are read.

    `rows` (k,) are those that were met, in the order in which they first were; `values` (k, floats) their
    sums, each in the order of its addends, and compensated (Kahan): a word that is read a million times loses
    no digits.
    """

    def __init__(self, rows: int, floats: int) -> None:
        """`rows`, `floats`: the table's shape. Memory: the rows met, and 4 bytes a row of the table."""
        self._place = np.full(rows, -1, np.int32)
        self._rows = np.empty(0, np.int32)
        self._values = np.empty((0, floats), np.float32)
        self._lost = np.empty((0, floats), np.float32)  # what the last addition added too much
        self._count = 0

    @property
    def rows(self) -> Ints:
        """The rows met since the last `clear` (k,)."""
        return self._rows[: self._count]

    @property
    def values(self) -> Floats:
        """Their sums (k, floats)."""
        return self._values[: self._count]

    def clear(self) -> None:
        """Begin again. Cost: that of the rows met."""
        self._place[self.rows] = -1
        self._count = 0

    def add(self, number: Ints, z: Floats, z_rows: Ints) -> None:
        """Add z[z_rows[i], :floats] to the sum of row `number[i]` of the table, for all i in order."""
        most = min(self._count + len(number), len(self._place))
        if len(self._rows) < most:
            grown = min(len(self._place), max(most, 2 * len(self._rows)))
            self._rows, self._values, self._lost = (
                _longer(kept[: self._count], grown) for kept in (self._rows, self._values, self._lost)
            )
        sums = self._values, self._lost
        self._count = _sum_rows(number, z, z_rows, self._place, self._rows, sums, self._count)


def _longer(kept: NDArray[Any], rows: int) -> NDArray[Any]:
    """An array with room for so many rows that begins with those kept."""
    made = np.empty((rows, *kept.shape[1:]), kept.dtype)
    made[: len(kept)] = kept
    return made


@njit
def _sum_rows(
    number: Ints, z: Floats, z_rows: Ints, place: Ints, rows: Ints, sums: tuple[Floats, Floats], count: int
) -> int:
    """Add rows to the sums of their numbers; how many sums there are then."""
    values, lost = sums
    floats = values.shape[1]
    for i in range(len(number)):
        at, row = place[number[i]], z_rows[i]
        if at < 0:
            at = count
            place[number[i]], rows[at] = at, number[i]
            count += 1
            for j in range(floats):
                values[at, j], lost[at, j] = z[row, j], 0
        else:
            for j in range(floats):
                addend = z[row, j] - lost[at, j]
                total = values[at, j] + addend
                change = (total - values[at, j]) - addend
                lost[at, j] = change if change == change else 0  # of an infinite sum nothing is lost
                values[at, j] = total
    return count
