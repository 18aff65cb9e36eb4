"""Lists of rows summed, averaged or compared in registers: by a kernel of their own, or for a cell's."""

from __future__ import annotations

from collections.abc import Callable

from abw.core.exec.cpu.llvm.emit import Function, Module
from abw.core.exec.cpu.llvm.functions import maximum
from abw.core.exec.cpu.llvm.kernel import PARAMS, SLOT_WORDS
from abw.core.exec.cpu.tiling import ListPlace
from abw.core.exec.lower.rows import BLOCK, row_floats
from abw.core.ir.cell import Shape
from abw.core.ir.model import SPREADS, Reduction

VECTORS_AT_ONCE = 8
ZEROS = "zeroinitializer"


def emit_reduction(module: Module, name: str, reduction: Reduction, shapes: tuple[Shape, ...]) -> None:
    """Write the kernel of a reduction with an output for each slot of these shapes."""
    f = Function(module, name, PARAMS, public=True)
    lanes = f.target.lanes

    def lane(i: str) -> None:
        for s, shape in enumerate(shapes):
            base, index, lists = (f.pointer_item("%frame", SLOT_WORDS * s + k) for k in (0, 1, 4))
            place = f.i64("mul", i, 4 * row_floats(shape, lanes))
            out = f.at(f.pointer_item("%frame", SLOT_WORDS * len(shapes) + s), place)
            _reduce(f, reduction, shape, base, index, _ends(f, lists, i), out)

    f.repeat("%last", lane, first="%first")
    module.add(f)


def emit_collect(module: Module, place: ListPlace) -> None:
    """Write the function that finds the rows `first` to `first + count - 1` of an operand with lists.

    A list of one is its row, where it lies; others are reduced to rows of `sums`. `out` gets the addresses.
    """
    params = "ptr %out, ptr %base, ptr %index, ptr %lists, ptr %sums, i64 %first, i64 %count"
    f = Function(module, place.collector, params)
    pitch = 4 * row_floats(place.shape, f.target.lanes)

    def lane(i: str) -> None:
        begin, end = _ends(f, "%lists", f.i64("add", "%first", i))

        def alone() -> None:
            f.put("ptr", f.at("%base", f.i64("mul", f.int_item("%index", begin), pitch)), "%out", i)

        def reduced() -> None:
            out = f.at("%sums", f.i64("mul", i, pitch))
            _reduce(f, place.reduction, place.shape, "%base", "%index", (begin, end), out)
            f.put("ptr", out, "%out", i)

        f.when(f.let(f"icmp eq i64 {f.i64('sub', end, begin)}, 1"), alone, reduced)

    f.repeat("%count", lane)
    module.add(f)


def _ends(f: Function, lists: str, lane: str) -> tuple[str, str]:
    return f.int_item(lists, lane), f.int_item(lists, f.i64("add", lane, 1))


def _reduce(
    f: Function, reduction: Reduction, shape: Shape, base: str, index: str, list_: tuple[str, str], out: str
) -> None:
    """Reduce the rows, two or more, that `index` names between two of its places to the row at `out`."""
    lanes, vector = f.target.lanes, f.target.vector
    pitch = 4 * row_floats(shape, lanes)
    vectors = pitch // (4 * lanes)
    units = max(u for u in range(1, VECTORS_AT_ONCE + 1) if vectors % u == 0)
    begin, end = list_

    def block(j: str) -> None:
        column = f.i64("mul", j, 4 * lanes * units)

        def row(k: str) -> list[str]:
            place = f.at(base, f.i64("add", f.i64("mul", f.int_item(index, k), pitch), column))
            return [f.load(place, 4 * lanes * u) for u in range(units)]

        def store(found: list[str]) -> None:
            for u, value in enumerate(found):
                f.store(value, out, f.i64("add", column, 4 * lanes * u))

        def compare(k: str, held: list[str]) -> list[str]:
            return [maximum(f, a, b) for a, b in zip(held, row(k), strict=True)]

        if reduction == "max":
            held = [(vector, value) for value in row(begin)]
            store(f.loop(end, compare, held, first=f.i64("add", begin, 1)))
            return

        def total(term: Callable[[str], list[str]], then: Callable[[list[str]], None]) -> None:
            """Sum what each row gives, and go on with that: long lists in blocks, by a wider sum."""

            def take(k: str, held: list[str]) -> list[str]:
                return [f.vec("fadd", a, b) for a, b in zip(held, term(k), strict=True)]

            held = [(vector, value) for value in term(begin)]
            behind = f.least(f.i64("add", begin, BLOCK), end)
            found = f.loop(behind, take, held, first=f.i64("add", begin, 1))

            def more() -> None:
                def add(number: str, totals: list[str]) -> list[str]:
                    first = f.i64("add", begin, f.i64("mul", number, BLOCK))
                    last = f.least(f.i64("add", first, BLOCK), end)
                    sums = f.loop(last, take, [(vector, ZEROS)] * units, first=first)
                    added = zip(totals, sums, strict=True)
                    return [f.let(f"fadd {wide} {a}, {f.widened(b)}") for a, b in added]

                blocks = f.i64("sdiv", f.i64("add", f.i64("sub", end, begin), BLOCK - 1), BLOCK)
                wide = f.target.wide
                totals = f.loop(blocks, add, [(wide, f.widened(value)) for value in found], first=1)
                then([f.let(f"fptrunc {wide} {value} to {vector}") for value in totals])

            f.when(f.let(f"icmp slt i64 {behind}, {end}"), more, lambda: then(found))

        def means(found: list[str]) -> list[str]:
            divisor = f.spread(f.let(f"sitofp i64 {f.i64('sub', end, begin)} to float"))
            return [f.vec("fdiv", a, divisor) for a in found]

        def spreads(found: list[str]) -> None:
            centers = means(found)

            def squares(k: str) -> list[str]:
                apart = [f.vec("fsub", a, b) for a, b in zip(row(k), centers, strict=True)]
                return [f.vec("fmul", a, a) for a in apart]

            root = reduction == "std"
            total(squares, lambda sums: store([f.intrinsic("sqrt", a) if root else a for a in means(sums)]))

        if reduction in SPREADS:
            total(row, spreads)
        else:
            total(row, lambda found: store(means(found) if reduction == "mean" else found))

    f.repeat(vectors // units, block)
