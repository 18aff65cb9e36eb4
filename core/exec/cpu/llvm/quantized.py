"""Products of rows and weights of less than 32 bits.

The rows that a stage multiplies are rounded once a tile, and lie in scratch memory, those of an operand one
behind the other. Sums are in registers as those of float32: of bfloat16 they are floats, of int8 whole
numbers, which are multiplied with both scales and added to the floats once an operand is through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from abw.core.exec.cpu.llvm.emit import Function, Module, number, splat
from abw.core.exec.cpu.llvm.functions import ROUNDER
from abw.core.exec.cpu.llvm.products import Prefetch, Sums, emit_block
from abw.core.exec.cpu.llvm.singles import masked, over
from abw.core.exec.cpu.quantized import LEAST, Narrow, NarrowRows, NarrowWeights
from abw.core.exec.cpu.tiling import CellTiling, RowPlace, StageLayout
from abw.core.exec.lower.rows import padded
from abw.core.exec.lower.stages import Part
from abw.core.exec.memory import LINE

# Bits of a float32: all but the sign's; those of infinity; of what is not a number; those bfloat16 has.
MAGNITUDE, INFINITE, NO_NUMBER, UPPER = 0x7FFFFFFF, 0x7F800000, 0x7FC00000, -0x10000
# What int8's rows have added, so that none is negative.
ZERO = 128
# Words of weights of a turn of the loop.
TOGETHER = 2


def round_rows(
    f: Function, layout: CellTiling, stage: StageLayout, count: str, address: Callable[[RowPlace, str], str]
) -> None:
    """Write the narrow rows of all that a stage multiplies, for `count` rows of a tile."""
    assert layout.narrow
    narrow = _round if layout.narrow.precision == "bf16" else _quantise
    for rows in stage.narrow:
        place = layout.place_part(rows.part.value, rows.part.start)
        base = f.at("%scratch", 4 * layout.narrow_at + layout.tile * rows.offset)

        def row(r: str, rows: NarrowRows = rows, place: RowPlace = place, base: str = base) -> None:
            source, out = address(place, r), f.at(base, f.i64("mul", r, rows.pitch))
            narrow(f, source, out, rows)

        with f.several(padded(rows.part.length, f.target.lanes)):
            f.repeat(count, row)


def _round(f: Function, source: str, out: str, rows: NarrowRows) -> None:
    """One row in bfloat16, as floats."""
    kind, floats = f.target.integers, f.target.vector

    def some(place: str | int, mask: str | None, _: list[str]) -> list[str]:
        x = masked(f, f.load(source, place), mask, 0.0)
        bits = f.let(f"bitcast {floats} {x} to {kind}")
        odd = f.let(f"and {kind} {f.let(f'lshr {kind} {bits}, splat (i32 16)')}, splat (i32 1)")
        up = f.let(f"add {kind} {f.let(f'add {kind} {bits}, splat (i32 {0x7FFF})')}, {odd}")
        none = f.let(f"fcmp uno {floats} {x}, {x}")
        flags = f"<{f.target.lanes} x i1>"
        bits = f.let(f"select {flags} {none}, {kind} splat (i32 {NO_NUMBER}), {kind} {up}")
        upper = f.let(f"and {kind} {bits}, splat (i32 {UPPER})")
        f.store(f.let(f"bitcast {kind} {upper} to {floats}"), out, place)
        return []

    over(f, rows.part.length, some, [])


def _quantise(f: Function, source: str, out: str, rows: NarrowRows) -> None:
    """One row in int8, with ZERO added, and its scale."""
    kind, floats, chars = f.target.integers, f.target.vector, f"<{f.target.lanes} x i8>"
    suffix = f"v{f.target.lanes}i32"

    def larger(place: str | int, mask: str | None, found: list[str]) -> list[str]:
        # as whole numbers: what is not a number is larger than infinity
        x = f.let(f"bitcast {floats} {masked(f, f.load(source, place), mask, 0.0)} to {kind}")
        size = f.let(f"and {kind} {x}, splat (i32 {MAGNITUDE})")
        return [f.call(kind, f"llvm.umax.{suffix}", (kind, found[0]), (kind, size))]

    (best,) = over(f, rows.part.length, larger, [(kind, "zeroinitializer")])
    bits = f.call("i32", f"llvm.vector.reduce.umax.{suffix}", (kind, best))
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
        at = place >> 2 if isinstance(place, int) else f.i64("lshr", place, 2)
        f.do(f"store {chars} {small}, ptr {f.at(out, at)}, align 1")
        return []

    over(f, rows.part.length, shrink, [])


def emit_narrow_block(
    module: Module, name: str, layout: CellTiling, stage: StageLayout, weights: NarrowWeights, rows: int
) -> None:
    """A block of sums of the narrow rows from `%begin` on."""

    def added(f: Function, part: Part, sums: Sums, at: int, ahead: Prefetch | None) -> Sums:
        laid = next(found for found in stage.narrow if found.part == part)
        first = f.i64("add", f.i64("mul", "%begin", laid.pitch), layout.tile * laid.offset)
        products = _Products(f, weights.narrow, rows, f.at("%narrow", first), laid.pitch, part.length, ahead)
        return products.added(sums, f.at("%weights", at))

    emit_block(module, name, "ptr %narrow, i64 %begin", stage, weights, rows, added)


class _Products:
    """The products of some rows of one operand with a block of weights, while they are written."""

    def __init__(
        self,
        f: Function,
        narrow: Narrow,
        rows: int,
        base: str,
        pitch: int,
        length: int,
        ahead: Prefetch | None,
    ) -> None:
        self.f, self.narrow, self.base, self.ahead = f, narrow, base, ahead
        self.rows = [pitch * r for r in range(rows)]
        self.scale = pitch - LINE
        self.words = narrow.words(length)
        self.word_bytes = narrow.per * narrow.element
        self.integers = f.target.integers

    def added(self, sums: Sequence[Sequence[str]], weights: str) -> list[list[str]]:
        """The sums with these products."""
        f, width = self.f, len(sums[0])
        if self.narrow.precision == "bf16":
            return self._contract(f.target.vector, sums, weights, self._widened)
        step = 4 * f.target.lanes
        begin = [
            f.let(f"load {self.integers}, ptr {f.at(weights, step * (width + v))}, align 4")
            for v in range(width)
        ]
        whole = self._contract(
            self.integers, [begin] * len(sums), f.at(weights, 2 * step * width), self._fours
        )
        scales = [f.load(weights, step * v) for v in range(width)]
        result = []
        for at, row, found in zip(self.rows, sums, whole, strict=True):
            scale = f.spread(f.item("float", f.at(self.base, at + self.scale), 0))
            factors = [f.vec("fmul", scale, other) for other in scales]
            floats = [f.let(f"sitofp {self.integers} {x} to {f.target.vector}") for x in found]
            # a product and a sum, each rounded: the same on all processors
            result.append(
                [
                    f.vec("fadd", total, f.vec("fmul", x, factor))
                    for total, x, factor in zip(row, floats, factors, strict=True)
                ]
            )
        return result

    def _contract(
        self,
        kind: str,
        sums: Sequence[Sequence[str]],
        weights: str,
        take: Callable[[list[str], list[str], list[str]], list[str]],
    ) -> list[list[str]]:
        """`take(rows, weights, values)` for word after word: the addresses of both, and the new values."""
        f, width = self.f, len(sums[0])
        vector = 4 * f.target.lanes

        def some(index: str, count: int, values: list[str]) -> list[str]:
            place = f.at(weights, f.i64("mul", index, vector * width))
            row = f.at(self.base, f.i64("mul", index, self.word_bytes))
            for u in range(count):
                own = [f.at(row, at + u * self.word_bytes) for at in self.rows]
                values = take(own, [f.at(place, vector * (u * width + v)) for v in range(width)], values)
            return values

        def turn(number: str, values: list[str]) -> list[str]:
            lines = self.ahead.lines(f, number) if self.ahead else ()
            values = some(f.i64("mul", number, TOGETHER), TOGETHER, values)
            for line in lines:
                f.prefetch(line)
            return values

        turns, rest = divmod(self.words, TOGETHER)
        values = [value for row in sums for value in row]
        if turns:
            values = f.loop(turns, turn, [(kind, value) for value in values])
        if rest:
            values = some(str(turns * TOGETHER), rest, values)
        return [values[r * width : (r + 1) * width] for r in range(len(sums))]

    def _fours(self, rows: list[str], weights: list[str], values: list[str]) -> list[str]:
        """Four products of bytes added to each of the sums."""
        f, kind = self.f, self.integers
        words = [self._load(place) for place in weights]
        if not f.target.fours:
            return self._bytewise(rows, words, values)
        name = f"llvm.x86.avx512.vpdpbusd.{32 * f.target.lanes}"
        return [
            f.call(kind, name, (kind, value), (kind, own), (kind, word))
            for r, own in enumerate(self._words_of_rows(rows))
            for value, word in zip(values[r * len(words) :], words, strict=False)
        ]

    def _bytewise(self, rows: list[str], words: list[str], values: list[str]) -> list[str]:
        """Add the products byte by byte, where a processor has no instruction for four."""
        f, kind = self.f, self.integers
        own = list(self._words_of_rows(rows))
        for byte in range(4):
            signed = [
                f.let(
                    f"ashr {kind} {f.let(f'shl {kind} {word}, splat (i32 {24 - 8 * byte})')}, splat (i32 24)"
                )
                for word in words
            ]
            result = []
            for r, row in enumerate(own):
                x = f.let(
                    f"and {kind} {f.let(f'lshr {kind} {row}, splat (i32 {8 * byte})')}, splat (i32 255)"
                )
                for value, word in zip(values[r * len(words) :], signed, strict=False):
                    result.append(f.let(f"add {kind} {value}, {f.let(f'mul {kind} {x}, {word}')}"))
            values = result
        return values

    def _widened(self, rows: list[str], weights: list[str], values: list[str]) -> list[str]:
        """Add the products of rows and weights widened to floats: products are exact, sums rounded."""
        f, lanes = self.f, self.f.target.lanes
        doubled = f"<{lanes // 2} x i64>"

        def upper(place: str) -> str:
            # of another type than `lower` loads: else one load would have to stay in a register for both
            word = f.let(f"load {doubled}, ptr {place}, align 4")
            kept = f.let(f"and {doubled} {word}, splat (i64 {UPPER << 32 | UPPER & 0xFFFFFFFF})")
            return f.let(f"bitcast {doubled} {kept} to {f.target.vector}")

        def lower(place: str) -> str:
            word = f.let(f"shl {self.integers} {self._load(place)}, splat (i32 16)")
            return f.let(f"bitcast {self.integers} {word} to {f.target.vector}")

        for half, made in ((1, upper), (0, lower)):
            words = list(map(made, weights))
            values = [
                f.fma(f.spread(f.item("float", row, half)), word, value)
                for r, row in enumerate(rows)
                for value, word in zip(values[r * len(words) :], words, strict=False)
            ]
        return values

    def _load(self, place: str) -> str:
        return self.f.let(f"load {self.integers}, ptr {place}, align 4")

    def _words_of_rows(self, rows: list[str]) -> Iterator[str]:
        """A word of each row in every lane, loaded when it is needed: all at once take too many registers."""
        for row in rows:
            yield self.f.spread(self.f.item("i32", row, 0), "i32")
