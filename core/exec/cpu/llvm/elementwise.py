"""What is done to sums before they are stored, and stages without sums.

Functions are long chains of operations that wait for each other, and a processor looks no further ahead than
one such chain: so several vectors go through them side by side. Quotients that only a product reads are
divided by that product, which often has a division of its own: `o * tanh(c)` divides once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from abw.core.exec.cpu.llvm.emit import READ_NEAR, WRITE_NEAR, Function
from abw.core.exec.cpu.llvm.functions import QUOTIENTS, Quotient, divided, element, product
from abw.core.exec.cpu.tiling import CellTiling, RowPlace, StageLayout
from abw.core.exec.lower.rows import columns, padded, row_floats
from abw.core.exec.lower.stages import Stage, spread_sizes
from abw.core.ir.cell import Op

# Vectors of sums that are worked on side by side: more would not leave registers for constants.
BESIDE = 3
# A tile of fewer blocks of rows finds its rows in the caches.
MANY_BLOCKS = 4

# A vector of each value: the addresses of the values' rows, and how many bytes into them.
Place = tuple[dict[int, str], str]


class Elementwise:
    """Writes the element-wise operations of a cell's kernel."""

    def __init__(self, f: Function, layout: CellTiling, address: Callable[[RowPlace, str], str]) -> None:
        """`address` gives a value's address at a row of the tile."""
        self._f, self._layout, self._address = f, layout, address
        self._lanes = f.target.lanes
        self._bytes = 4 * self._lanes

    def prefetch(self, stage: StageLayout, column: str, begin: str, size: str, blocks: str) -> None:
        """Prefetch what `finish` will read and write of a block of rows, while its sums are computed.

        `blocks`: how many of them the tile has.
        """
        f, inside = self._f, {value for value, _ in self._layout.scratch}
        offsets = self._offsets(stage, column, range(stage.units))

        def row(r: str) -> None:
            for value, base in self._rows(stage.stage, f.i64("add", begin, r)).items():
                if value not in inside and not self._layout.normal.static[value]:
                    hint = WRITE_NEAR if value in stage.stage.stores else READ_NEAR
                    for offset in offsets:
                        f.prefetch(f.at(base, offset), hint)

        f.when(f.let(f"icmp sge i64 {blocks}, {MANY_BLOCKS}"), lambda: f.repeat(size, row))

    def finish(self, stage: StageLayout, column: str, begin: str, size: str) -> None:
        """All operations on the sums of a block of rows: of a row's units, or of several rows."""
        f, units = self._f, stage.units

        def vectors(rows: Sequence[str], units: range) -> None:
            sums = [f.at("%sums", f.i64("mul", r, self._bytes * stage.sums)) for r in rows]
            found: dict[int, str | Quotient] = {}
            for g, gate in enumerate(stage.stage.gates):
                first = g * stage.units
                found[gate.value] = f.join(
                    [f.load(s, self._bytes * (first + u)) for s in sums for u in units]
                )
            offsets = self._offsets(stage, column, units)
            places = [
                (row, offset)
                for row in (self._rows(stage.stage, f.i64("add", begin, r)) for r in rows)
                for offset in offsets
            ]
            self._operate(stage.stage, found, places)

        def row(r: str) -> None:
            for u in range(0, units, BESIDE):
                vectors([r], range(u, min(u + BESIDE, units)))

        def together(count: int, times: str, first: str) -> None:
            def several(i: str) -> None:
                r = f.i64("add", first, f.i64("mul", i, count))
                vectors([f.i64("add", r, k) for k in range(count)], range(1))

            f.repeat_any(times, several)

        if units > 1:
            f.repeat(size, row)
            return
        # as many threes as leave twos; one row is alone
        alone = f.let(f"icmp eq i64 {size}, 1")
        twos = f.let(f"select i1 {alone}, i64 0, i64 {f.i64('urem', f.i64('shl', size, 1), 3)}")
        left = f.i64("shl", twos, 1)
        together(3, f.i64("udiv", f.i64("sub", size, left), 3), left)
        together(2, twos, "0")
        f.when(alone, lambda: row("0"))

    def run(self, stage: StageLayout, count: str) -> None:
        """A stage without sums, row by row."""
        f, shape = self._f, stage.stage.shape
        floats = row_floats(shape, self._lanes)

        def row(r: str) -> None:
            rows = self._rows(stage.stage, r)
            with f.several(padded(columns(shape), self._lanes)) as step:

                def vector(j: str) -> None:
                    self._operate(stage.stage, {}, [(rows, f.i64("mul", j, 4 * step))])

                f.repeat(floats // step, vector)

        f.repeat(count, row)

    def _offsets(self, stage: StageLayout, column: str, units: range) -> list[str]:
        """How many bytes into their rows the vectors of a block of columns lie."""
        f = self._f
        first = f.i64("mul", column, self._bytes * stage.units)
        return [f.i64("add", first, self._bytes * u) for u in units]

    def _rows(self, stage: Stage, row: str) -> dict[int, str]:
        """The addresses of what the operations read and store, at a row of the tile."""
        inside = {*stage.operations, *(gate.value for gate in stage.gates)}
        read = (a for value in stage.operations for a in self._layout.normal.arguments(value))
        values = dict.fromkeys((*(a for a in read if a not in inside), *stage.stores))
        return {value: self._address(self._place(stage, value), row) for value in values}

    def _place(self, stage: Stage, value: int) -> RowPlace:
        layout = self._layout
        return layout.fixed_place(value, stage.shape) if layout.normal.static[value] else layout.place(value)

    def _operate(self, stage: Stage, found: dict[int, str | Quotient], places: Sequence[Place]) -> None:
        """The operations on a vector at each place, side by side; `found` are the sums."""
        f, normal = self._f, self._layout.normal
        late = self._divided_late(stage)
        for value in stage.operations:
            op = normal.op(value)
            if op.name == "spread":
                found[value] = f.join([self._spread(op, rows[op.args[0]], at) for rows, at in places])
                continue
            for a in op.args:
                if a not in found:
                    found[a] = f.join([f.load(rows[a], at) for rows, at in places])
            with f.side_by_side(len(places)):
                args = [found[a] for a in op.args]
                if op.name == "mul":
                    found[value] = product(f, *args)
                elif value in late:
                    found[value] = QUOTIENTS[op.name](f, divided(f, args[0]))
                else:
                    found[value] = element(f, op.name, [divided(f, a) for a in args])
        for value in stage.stores:
            parts = f.split(divided(f, found[value]), len(places))
            for part, (rows, at) in zip(parts, places, strict=True):
                f.store(part, rows[value], at)

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
