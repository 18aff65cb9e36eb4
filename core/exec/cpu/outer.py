"""Weight gradients: products of rows summed over all rows, on one thread or several."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from abw.core.base.jit import njit
from abw.core.exec.cpu.llvm.compiled import compile_ir
from abw.core.exec.cpu.llvm.emit import Module
from abw.core.exec.cpu.llvm.outer import COLUMNS, OUTER, block_of, emit_outer
from abw.core.exec.cpu.packing import address
from abw.core.exec.cpu.target import Target
from abw.core.exec.cpu.team import Team

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]

PANEL = 256
"""So many rows of dW are worked on at once: the chunk of z that they read stays in the second-level cache."""

_POINTER, _NUMBER = ctypes.c_void_p, ctypes.c_int64


def _begin(array: Floats) -> int:
    """Where an array begins that may be a part of another."""
    return address(array) if array.flags.c_contiguous else int(array.ctypes.data)


class RowSums:
    """Sums over rows that lie anywhere, by their numbers.

    What is added up is in the order of the rows, in chunks of `llvm.outer.CHUNK`: the same bits on however
    many threads. Rows of `z` and `x` are read in whole vectors: behind the last float that is asked for
    there must be room for one (`Target.lanes`), as there is in arenas.
    """

    def __init__(self, target: Target, team: Team | None = None, threads: int = 1) -> None:
        """Compile, or find on disk. A team shares each sum by the rows of its result."""
        module = Module(target)
        emit_outer(module)
        self._code = compile_ir(module.text(), target)
        pointers = [_POINTER, _NUMBER, *[_POINTER, _POINTER, _NUMBER] * 2, *[_NUMBER] * 3]
        self._outer = ctypes.CFUNCTYPE(None, *pointers)(self._code.address(OUTER))
        columns = [*[_POINTER] * 3, *[_NUMBER] * 3]
        self._columns = ctypes.CFUNCTYPE(None, *columns)(self._code.address(COLUMNS))
        self._block = block_of(target)[0]
        self._team, self._threads = team, threads

    def outer(self, dw: Floats, z: Floats, z_rows: Ints, x: Floats, x_rows: Ints) -> None:
        """dw (m, c) += z[z_rows, :m]^T @ x[x_rows, :c]; the rows' numbers (n,).

        The last axis of all three is contiguous. Cost: 2 m n c operations at 80 to 90 % of the peak.
        """
        (m, c), n = dw.shape, len(z_rows)
        if not n or not m or not c:
            return
        places = _begin(dw), _begin(z), _begin(x)

        def panel(first: int, last: int) -> None:
            self._outer(
                places[0] + first * dw.strides[0], dw.strides[0],
                places[1] + 4 * first, address(z_rows), z.strides[0],
                places[2], address(x_rows), x.strides[0],
                n, last - first, c,
            )  # fmt: skip

        def share(part: int, parts: int) -> None:
            blocks = -(-m // self._block)
            first, last = (self._block * (blocks * p // parts) for p in (part, part + 1))
            for begin in range(first, min(m, last), PANEL // self._block * self._block):
                panel(begin, min(m, last, begin + PANEL // self._block * self._block))

        if self._team is None:
            share(0, 1)
        else:
            team, threads = self._team, self._threads
            team.do(lambda thread: share(thread, threads), lambda: share(0, 1), 2 * m * n * c)

    def columns(self, out: Floats, z: Floats, z_rows: Ints) -> None:
        """out (c,) += the sum of z[z_rows, :c]; the rows' numbers (n,)."""
        if len(out) and len(z_rows):
            self._columns(_begin(out), _begin(z), address(z_rows), z.strides[0], len(z_rows), len(out))


class TableSums:
    """Sums of rows by a number that each has: the gradient of a table, of which few rows are read.

    `rows` (k,) are those that were met, in the order in which they first were; `values` (k, floats) their
    sums, each in the order of its addends.
    """

    def __init__(self, rows: int, floats: int) -> None:
        """Of a table with so many rows of so many floats. Memory: what is met, and 4 bytes a row."""
        self._place = np.full(rows, -1, np.int32)
        self._rows = np.empty(0, np.int32)
        self._values = np.empty((0, floats), np.float32)
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
            rows, values = self.rows, self.values
            self._rows = np.empty(grown, np.int32)
            self._values = np.empty((grown, values.shape[1]), np.float32)
            self._rows[: self._count], self._values[: self._count] = rows, values
        self._count = _sum_rows(number, z, z_rows, self._place, self._rows, self._values, self._count)


@njit
def _sum_rows(
    number: Ints, z: Floats, z_rows: Ints, place: Ints, rows: Ints, values: Floats, count: int
) -> int:
    """Add rows to the sums of their numbers; how many sums there are then."""
    floats = values.shape[1]
    for i in range(len(number)):
        at, row = place[number[i]], z_rows[i]
        if at < 0:
            at = count
            place[number[i]], rows[at] = at, number[i]
            count += 1
            for j in range(floats):
                values[at, j] = z[row, j]
        else:
            for j in range(floats):
                values[at, j] += z[row, j]
    return count
