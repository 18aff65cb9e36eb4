"""The rows that a stage multiplies, rounded once a tile, and laid where its blocks of sums read them."""

from __future__ import annotations

from collections.abc import Callable

from abw.core.exec.cpu.llvm.emit import Function, number, splat
from abw.core.exec.cpu.llvm.functions import ROUNDER
from abw.core.exec.cpu.llvm.singles import masked, over
from abw.core.exec.cpu.memory import LINE
from abw.core.exec.cpu.quantized import LEAST, NarrowRows
from abw.core.exec.cpu.tiling import CellTiling, RowPlace, StageLayout
from abw.core.exec.lower.rows import padded

# Bits of a float32: all but the sign's; those of infinity; of what is not a number; those bfloat16 has.
MAGNITUDE, INFINITE, NO_NUMBER, UPPER = 0x7FFFFFFF, 0x7F800000, 0x7FC00000, -0x10000
# What int8's rows have added, so that none is negative.
ZERO = 128


def round_rows(
    f: Function, layout: CellTiling, stage: StageLayout, count: str, address: Callable[[RowPlace, str], str]
) -> None:
    """Write the narrow rows of all that a stage multiplies, for `count` rows of a tile."""
    assert layout.narrow
    element = layout.narrow.element
    for rows in stage.narrow:
        place = layout.place_part(rows.part.value, rows.part.start)
        base = f.at("%scratch", 4 * layout.narrow_at + layout.tile * rows.offset)

        def row(r: str, rows: NarrowRows = rows, place: RowPlace = place, base: str = base) -> None:
            source, out = address(place, r), f.at(base, f.i64("mul", r, rows.pitch))
            if element == 1:
                _quantise(f, source, out, rows)
            else:
                _round(f, source, out, rows, element)

        with f.several(padded(rows.part.length, f.target.lanes)):
            f.repeat(count, row)


def _round(f: Function, source: str, out: str, rows: NarrowRows, element: int) -> None:
    """One row in bfloat16: as that, or, with elements of 4 bytes, as floats."""
    kind, floats, shorts = f.target.integers, f.target.vector, f"<{f.target.lanes} x i16>"

    def some(place: str | int, mask: str | None, _: list[str]) -> list[str]:
        x = masked(f, f.load(source, place), mask, 0.0)
        bits = f.let(f"bitcast {floats} {x} to {kind}")
        odd = f.let(f"and {kind} {f.let(f'lshr {kind} {bits}, splat (i32 16)')}, splat (i32 1)")
        up = f.let(f"add {kind} {f.let(f'add {kind} {bits}, splat (i32 {0x7FFF})')}, {odd}")
        none = f.let(f"fcmp uno {floats} {x}, {x}")
        flags = f"<{f.target.lanes} x i1>"
        bits = f.let(f"select {flags} {none}, {kind} splat (i32 {NO_NUMBER}), {kind} {up}")
        if element == 4:
            upper = f.let(f"and {kind} {bits}, splat (i32 {UPPER})")
            f.store(f.let(f"bitcast {kind} {upper} to {floats}"), out, place)
        else:
            upper = f.let(f"trunc {kind} {f.let(f'lshr {kind} {bits}, splat (i32 16)')} to {shorts}")
            f.do(f"store {shorts} {upper}, ptr {_shrunk(f, out, place, 1)}, align 2")
        return []

    over(f, rows.part.length, some, [])


def _quantise(f: Function, source: str, out: str, rows: NarrowRows) -> None:
    """One row in int8, with ZERO added, and its scale."""
    kind, floats, chars = f.target.integers, f.target.vector, f"<{f.target.lanes} x i8>"
    suffix = f"v{f.target.lanes}i32"
    f.module.declare(f"{kind} @llvm.umax.{suffix}({kind}, {kind})")
    f.module.declare(f"i32 @llvm.vector.reduce.umax.{suffix}({kind})")

    def larger(place: str | int, mask: str | None, found: list[str]) -> list[str]:
        # as whole numbers: what is not a number is larger than infinity
        x = f.let(f"bitcast {floats} {masked(f, f.load(source, place), mask, 0.0)} to {kind}")
        size = f.let(f"and {kind} {x}, splat (i32 {MAGNITUDE})")
        return [f.let(f"call {kind} @llvm.umax.{suffix}({kind} {found[0]}, {kind} {size})")]

    (best,) = over(f, rows.part.length, larger, [(kind, "zeroinitializer")])
    bits = f.let(f"call i32 @llvm.vector.reduce.umax.{suffix}({kind} {best})")
    largest = f.let(f"bitcast i32 {bits} to float")
    finite = f.let(f"icmp ult i32 {bits}, {INFINITE}")
    some = f.let(f"fcmp oge float {largest}, {number(LEAST)}")
    zero, seven = number(0.0), number(127.0)
    inverse = f.let(f"fdiv float {seven}, {largest}")
    inverse = f.let(f"select i1 {f.let(f'and i1 {finite}, {some}')}, float {inverse}, float {zero}")
    scale = f.let(f"select i1 {some}, float {f.let(f'fdiv float {largest}, {seven}')}, float {zero}")
    scale = f.let(f"select i1 {finite}, float {scale}, float {number(float('nan'))}")
    f.put("float", scale, f.at(out, rows.pitch - LINE), 0)
    factor = f.spread(inverse)

    def shrink(place: str | int, mask: str | None, _: list[str]) -> list[str]:
        x = f.vec("fmul", masked(f, f.load(source, place), mask, 0.0), factor)
        # the sum is a whole number, in the lowest bits of its own
        whole = f.let(f"bitcast {floats} {f.vec('fadd', x, splat(ROUNDER + ZERO))} to {kind}")
        small = f.let(f"trunc {kind} {whole} to {chars}")
        f.do(f"store {chars} {small}, ptr {_shrunk(f, out, place, 2)}, align 1")
        return []

    over(f, rows.part.length, shrink, [])


def _shrunk(f: Function, out: str, place: str | int, by: int) -> str:
    """The place among smaller elements: an offset of floats, over 2 to the power of `by`."""
    return f.at(out, place >> by if isinstance(place, int) else f.i64("lshr", place, by))
