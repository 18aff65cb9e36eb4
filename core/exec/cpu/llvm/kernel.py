"""The kernel of a cell: tiles of rows through the stages, sums in registers, results where they belong.

A kernel is `void kernel(ptr frame, ptr scratch, ptr constants, i64 first, i64 last, i64 part, i64 parts)`: it
computes its part of the rows `first` to `last - 1` of one batch: of a cell with one stage a part of each row
(so that each core reads a part of the weights), of others a part of the rows.

The frame is an array of 64-bit words: for each slot the address of its arena, that of its index array (0:
none is needed), the first row and the step of an operand without one, and the address of its lists' ends (0:
each lane reads one row); then for each output the address of its row 0. A stamped kernel finds its
row of the clock (`clock.py`) in the word before the frame.
"""

from __future__ import annotations

from abw.core.exec.cpu.llvm.clock import charge_reason, restart
from abw.core.exec.cpu.llvm.elementwise import Elementwise
from abw.core.exec.cpu.llvm.emit import Function, Module
from abw.core.exec.cpu.llvm.products import Prefetch, Sums, contract, emit_block, prefetch_arguments
from abw.core.exec.cpu.llvm.quantized import emit_narrow_block, round_rows
from abw.core.exec.cpu.llvm.singles import emit_single
from abw.core.exec.cpu.quantized import NarrowWeights
from abw.core.exec.cpu.tiling import CellTiling, RowPlace, StageLayout
from abw.core.exec.lower.packing import PackedWeights
from abw.core.exec.lower.stages import Part, Single
from abw.core.ir.operations import OPERATIONS

PARAMS = "ptr %frame, ptr %scratch, ptr %constants, i64 %first, i64 %last, i64 %part, i64 %parts"
SLOT_WORDS = 5


# What the time of an operation that stands alone is charged to, by its kind.
SINGLE_REASON = {"product": "product", "row": "elementwise", "copy": "gather"}


def emit_cell(module: Module, name: str, layout: CellTiling, *, stamped: bool = False) -> None:
    """Write a cell's kernel and the blocks of rows that it calls; a stamped one tells its time by reason."""
    for number, stage in enumerate(layout.stages):
        if isinstance(stage, StageLayout):
            for group, weights in enumerate(stage.weights):
                for rows in range(1, stage.block_rows + 1):
                    block = f"{name}_{number}_{group}_{rows}"
                    if isinstance(weights, NarrowWeights):
                        emit_narrow_block(module, block, layout, stage, weights, rows)
                    else:
                        _emit_block(module, block, layout, stage, weights, rows)
    _Kernel(module, name, layout, stamped).emit()


def emit_fill(module: Module) -> None:
    """Write `fill`: the addresses of the rows `first` to `first + count - 1` of an operand."""
    params = "ptr %out, ptr %base, i64 %pitch, ptr %index, i64 %start, i64 %step, i64 %first, i64 %count"
    f = Function(module, "fill", params)

    def gathered(i: str) -> None:
        row = f.int_item("%index", f.i64("add", "%first", i))
        f.put("ptr", f.at("%base", f.i64("mul", row, "%pitch")), "%out", i)

    def spaced(i: str) -> None:
        row = f.i64("add", "%start", f.i64("mul", f.i64("add", "%first", i), "%step"))
        f.put("ptr", f.at("%base", f.i64("mul", row, "%pitch")), "%out", i)

    f.when(
        f.let("icmp eq ptr %index, null"),
        lambda: f.repeat("%count", spaced),
        lambda: f.repeat("%count", gathered),
    )
    module.add(f)


class _Kernel:
    def __init__(self, module: Module, name: str, layout: CellTiling, stamped: bool) -> None:
        self.module, self.name, self.layout, self.stamped = module, name, layout, stamped
        self.f = Function(module, name, PARAMS, public=True)
        self.lanes = module.target.lanes
        self.elementwise = Elementwise(self.f, layout, self.address)

    def emit(self) -> None:
        f, layout = self.f, self.layout
        f.do(f"%table = alloca ptr, i64 {max(1, layout.table * layout.tile)}, align 64")
        stages = [s for s in layout.stages if isinstance(s, StageLayout)]
        sums = max((s.sums * s.block_rows for s in stages), default=0)
        f.do(f"%sums = alloca float, i64 {max(1, sums) * self.lanes}, align 64")
        if self.stamped:
            f.do(f"%clock = load ptr, ptr {f.at('%frame', -8)}")
            restart(f, "%clock")
        self._tiles("%first", "%last")
        self.module.add(f)

    def _charge(self, reason: str) -> None:
        """What has passed since the last stamp was for this reason."""
        if self.stamped:
            charge_reason(self.f, "%clock", reason)

    def _tiles(self, first: str, last: str) -> None:
        """All stages, tile by tile."""
        f, layout = self.f, self.layout
        self._fill_own(f.least(f.i64("sub", last, first), layout.tile))
        tiles = _blocks(f, f.i64("sub", last, first), layout.tile)

        def tile(number: str, carried: list[str]) -> list[str]:
            begin = carried[0]
            count = _balanced(f, f.i64("sub", last, begin), f.i64("sub", tiles, number))
            self._fill_lanes(begin, count)
            self._charge("gather")
            for at, stage in enumerate(layout.stages):
                if isinstance(stage, Single):
                    emit_single(f, layout, stage, count, self.address)
                    self._charge(SINGLE_REASON[OPERATIONS[layout.normal.op(stage.value).name].kind])
                elif stage.stage.gates:
                    self._gates(at, stage, count)
                else:
                    self.elementwise.run(stage, count)
                    self._charge("elementwise")
            return [f.i64("add", begin, count)]

        f.loop(tiles, tile, [("i64", first)])

    # addresses

    def address(self, place: RowPlace, row: str) -> str:
        """The address of a value at a row of the tile."""
        f = self.f
        base = f.pointer_item("%table", f.i64("add", row, place.entry * self.layout.tile))
        return f.at(base, 4 * place.column)

    def _fill_own(self, most: str) -> None:
        """The addresses of scratch and static values: those of every tile, which has `most` rows at most."""
        f, layout = self.f, self.layout
        for value, offset in layout.scratch:
            base = f.at("%scratch", 4 * offset * layout.tile)
            self._fill(layout.entries[value], base, 4 * layout.floats(value), ("0", most))
        for number, fixed in enumerate(layout.fixed):
            base = f.at("%constants", 4 * fixed.offset)
            self._fill(len(layout.entries) + number, base, 0, ("0", most))

    def _fill_lanes(self, begin: str, count: str) -> None:
        """The addresses of inputs and outputs."""
        f, cell = self.f, self.layout.normal.cell
        for i in range(len(cell.inputs)):
            self._fill_input(i, begin, count)
        for word, (_, value) in enumerate(cell.outputs, SLOT_WORDS * len(cell.inputs)):
            base = f.pointer_item("%frame", word)
            entry = self.layout.entries[value]
            self._fill(entry, base, 4 * self.layout.floats(value), (begin, count))

    def _fill_input(self, i: int, begin: str, count: str) -> None:
        f, layout = self.f, self.layout
        base, index, lists = (f.pointer_item("%frame", SLOT_WORDS * i + k) for k in (0, 1, 4))
        start, step = (f.item("i64", "%frame", SLOT_WORDS * i + k) for k in (2, 3))

        def one_row_each() -> None:
            self._fill(i, base, 4 * layout.floats(i), (begin, count), (index, start, step))

        if (found := layout.lists[i]) is None:
            one_row_each()
            return
        out, sums = f.at("%table", 8 * i * layout.tile), f.at("%scratch", 4 * found.offset * layout.tile)
        collect = (
            f"call void @{found.collector}(ptr {out}, ptr {base}, ptr {index}, ptr {lists}, ptr {sums}, "
            f"i64 {begin}, i64 {count})"
        )

        def reduced() -> None:
            self._charge("gather")
            f.do(collect)
            self._charge("elementwise")

        f.when(f.let(f"icmp eq ptr {lists}, null"), one_row_each, reduced)

    def _fill(
        self,
        entry: int,
        base: str,
        pitch: int,
        lanes: tuple[str, str],
        rows: tuple[str, str, str] = ("null", "0", "1"),
    ) -> None:
        """Call `fill` for an entry of the table. `lanes`: first and count; `rows`: index, start and step."""
        (first, count), (index, start, step) = lanes, rows
        out = self.f.at("%table", 8 * entry * self.layout.tile)
        self.f.do(
            f"call void @fill(ptr {out}, ptr {base}, i64 {pitch}, ptr {index}, i64 {start}, i64 {step}, "
            f"i64 {first}, i64 {count})"
        )

    # stages

    def _gates(self, at: int, stage: StageLayout, count: str) -> None:
        """Block of weights by block of weights, over all rows of the tile."""
        f = self.f
        blocks = _blocks(f, count, stage.block_rows)
        if stage.narrow:
            round_rows(f, self.layout, stage, count, self.address)
            narrow = f.at("%scratch", 4 * self.layout.narrow_at)

        def rows(block: str, carried: list[str], column: str, after: str) -> list[str]:
            begin = carried[0]
            size = _balanced(f, f.i64("sub", count, begin), f.i64("sub", blocks, block))
            table = f.at("%table", f.i64("shl", begin, 3))

            def call(number: int) -> None:
                done = 0
                for group, weights in enumerate(stage.weights):
                    place = f.i64("mul", column, 4 * weights.block_floats)
                    w = f.at("%constants", f.i64("add", place, 4 * weights.offset))
                    out = f.at("%sums", 4 * self.lanes * done)
                    done += len(weights.group.gates) * stage.units
                    operands = f"ptr {narrow}, i64 {begin}" if stage.narrow else f"ptr {table}"
                    arguments = f"ptr {w}, {operands}, ptr {out}"
                    if stage.streamed:
                        arguments += prefetch_arguments(f, weights, after, w, block, blocks)
                    f.do(f"call void @{self.name}_{at}_{group}_{number}({arguments})")

            self.elementwise.prefetch(stage, column, begin, size, blocks)
            f.cases(size, range(1, stage.block_rows + 1), call)
            self._charge("product")

            self.elementwise.finish(stage, column, begin, size)
            self._charge("elementwise")
            return [f.i64("add", begin, size)]

        columns = stage.weights[0].blocks

        def block(column: str) -> None:
            after = f.i64("urem", f.i64("add", column, 1), columns)
            f.loop(blocks, lambda number, carried: rows(number, carried, column, after), [("i64", "0")])

        if self.layout.by_column:
            first, last = share(f, str(columns))
            f.when(f.let(f"icmp slt i64 {first}, {last}"), lambda: f.repeat(last, block, first=first))
        else:
            f.repeat(columns, block)


def _emit_block(
    module: Module, name: str, layout: CellTiling, stage: StageLayout, weights: PackedWeights, rows: int
) -> None:
    """A block of sums of rows that are found by `%table`."""

    def added(f: Function, part: Part, sums: Sums, at: int, ahead: Prefetch | None) -> Sums:
        place = layout.place_part(part.value, part.start)
        operands = [
            f.at(f.pointer_item("%table", place.entry * layout.tile + r), 4 * place.column)
            for r in range(rows)
        ]
        step = 4 * f.target.lanes * len(sums[0])
        return contract(f, sums, operands, f.at("%weights", at), step, part.length, ahead)

    emit_block(module, name, "ptr %table", stage, weights, rows, added)


def share(f: Function, size: str) -> tuple[str, str]:
    """The part of a range of this size that is part `%part` of `%parts`."""
    begin = f.i64("udiv", f.i64("mul", size, "%part"), "%parts")
    end = f.i64("udiv", f.i64("mul", size, f.i64("add", "%part", 1)), "%parts")
    return begin, end


def _blocks(f: Function, count: str, most: int) -> str:
    """How many blocks of at most `most` rows there are in `count`."""
    return f.i64("udiv", f.i64("add", count, most - 1), most)


def _balanced(f: Function, left: str, blocks: str) -> str:
    """The size of the next of `blocks` nearly equal blocks of the rows that are left."""
    return f.i64("udiv", f.i64("add", left, f.i64("sub", blocks, 1)), blocks)
