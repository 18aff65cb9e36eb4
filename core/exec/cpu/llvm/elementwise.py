"""What is done to sums before they are stored, and stages without sums.

Quotients that only a product reads are divided by that product, which often has a division of its own:
`o * tanh(c)` divides once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from abw.core.exec.cpu.llvm.emit import Function
from abw.core.exec.cpu.llvm.functions import QUOTIENTS, Quotient, divided, element, product
from abw.core.exec.cpu.tiling import CellTiling, RowPlace, StageLayout
from abw.core.exec.lower.rows import columns, padded, row_floats
from abw.core.exec.lower.stages import Stage, spread_sizes
from abw.core.ir.cell import Op


class Elementwise:
    """Writes the element-wise operations of a cell's kernel."""

    def __init__(self, f: Function, layout: CellTiling, address: Callable[[RowPlace, str], str]) -> None:
        """`address` gives a value's address at a row of the tile."""
        self._f, self._layout, self._address = f, layout, address
        self._lanes = f.target.lanes
        self._bytes = 4 * self._lanes

    def finish(self, stage: StageLayout, column: str, begin: str, size: str) -> None:
        """All operations on the sums of a block of rows."""
        f, units = self._f, stage.units
        first = f.i64("mul", column, self._bytes * units)
        offsets = [f.i64("add", first, self._bytes * u) for u in range(units)]

        def row(r: str) -> None:
            sums = f.at("%sums", f.i64("mul", r, self._bytes * stage.sums))
            rows = self._rows(stage.stage, f.i64("add", begin, r))
            for u, offset in enumerate(offsets):
                found: dict[int, str | Quotient] = {
                    gate.value: f.load(sums, self._bytes * (g * units + u))
                    for g, gate in enumerate(stage.stage.gates)
                }
                self._operate(stage.stage, found, rows, offset)

        f.repeat(size, row)

    def run(self, stage: StageLayout, count: str) -> None:
        """A stage without sums, row by row."""
        f, shape = self._f, stage.stage.shape
        floats = row_floats(shape, self._lanes)

        def row(r: str) -> None:
            rows = self._rows(stage.stage, r)
            with f.several(padded(columns(shape), self._lanes)) as step:

                def vector(j: str) -> None:
                    self._operate(stage.stage, {}, rows, f.i64("mul", j, 4 * step))

                f.repeat(floats // step, vector)

        f.repeat(count, row)

    def _rows(self, stage: Stage, row: str) -> dict[int, str]:
        """The addresses of what the operations read and store, at a row of the tile."""
        inside = {*stage.operations, *(gate.value for gate in stage.gates)}
        read = (a for value in stage.operations for a in self._layout.normal.arguments(value))
        values = dict.fromkeys((*(a for a in read if a not in inside), *stage.stores))
        return {value: self._address(self._place(stage, value), row) for value in values}

    def _place(self, stage: Stage, value: int) -> RowPlace:
        layout = self._layout
        return layout.fixed_place(value, stage.shape) if layout.normal.static[value] else layout.place(value)

    def _operate(
        self, stage: Stage, found: dict[int, str | Quotient], rows: Mapping[int, str], at: str
    ) -> None:
        """The operations on a vector of each value, `at` bytes into its row; `found` are the sums."""
        f, normal = self._f, self._layout.normal
        late = self._divided_late(stage)
        for value in stage.operations:
            op = normal.op(value)
            if op.name == "spread":
                found[value] = self._spread(op, rows[op.args[0]], at)
                continue
            for a in op.args:
                if a not in found:
                    found[a] = f.load(rows[a], at)
            args = [found[a] for a in op.args]
            if op.name == "mul":
                found[value] = product(f, *args)
            elif value in late:
                found[value] = QUOTIENTS[op.name](f, divided(f, args[0]))
            else:
                found[value] = element(f, op.name, [divided(f, a) for a in args])
        for value in stage.stores:
            f.store(divided(f, found[value]), rows[value], at)

    def _divided_late(self, stage: Stage) -> set[int]:
        """Quotients that one product alone reads."""
        normal = self._layout.normal
        readers: dict[int, list[str]] = {}
        for op in map(normal.op, stage.operations):
            for a in op.args:
                readers.setdefault(a, []).append(op.name)
        return {
            value
            for value in stage.operations
            if normal.op(value).name in QUOTIENTS and readers.get(value) == ["mul"]
            if value not in stage.stores
        }

    def _spread(self, op: Op, base: str, offset: str) -> str:
        """A vector of a row that a smaller value is repeated to, `offset` bytes in."""
        f = self._f
        (*down, across), pitch = spread_sizes(op), 4 * padded(op.shape[-1], self._lanes)
        if across > 1:
            return f.load(base, f.i64("urem", offset, pitch))
        if down and down[0] > 1:
            base = f.at(base, f.i64("mul", f.i64("udiv", offset, pitch), 4))
        return f.spread(f.item("float", base, 0))
