"""Attention over lists of rows, one lane and head after the other: scores, their softmax, the weighted sum.

A list is read in blocks of BLOCK_ROWS, each with a largest score of its own; what was summed before is scaled
to the largest so far, so that no list is too long and no exponential too large. Two buffers on the stack hold
a block's weights and a head's sums, both whole vectors.
"""

from __future__ import annotations

from abw.core.exec.cpu.llvm.emit import Function, Module, number, splat
from abw.core.exec.cpu.llvm.functions import exp
from abw.core.exec.cpu.llvm.kernel import PARAMS, SLOT_WORDS
from abw.core.exec.cpu.llvm.singles import across, copy, masked, over
from abw.core.exec.lower.rows import columns, padded, row_floats
from abw.core.ir.cell import Shape
from abw.core.ir.model import KEYS, QUERY, SLOPE, VALUES, Attention

BLOCK_ROWS = 64
MOST_VECTORS = 8
"""So many vectors of a head's sum are in registers at once."""
INFINITE = number(-float("inf"))
ZEROS = splat(0.0)


def emit_attention(module: Module, name: str, attention: Attention, shapes: tuple[Shape, ...]) -> None:
    """Write the kernel of an attention whose slots have these shapes."""
    f = Function(module, name, PARAMS, public=True)
    _Attention(f, attention, shapes).emit()
    module.add(f)


class _Attention:
    """One kernel while it is written."""

    def __init__(self, f: Function, attention: Attention, shapes: tuple[Shape, ...]) -> None:
        self.f, self.heads, self.added = f, attention.heads, attention.added
        self.lanes, self.vector = f.target.lanes, f.target.vector
        self.pitch = [4 * row_floats(shape, self.lanes) for shape in shapes]
        self.part, self.share = (columns(shapes[s]) // self.heads for s in (KEYS, VALUES))
        self.factor = attention.factor(columns(shapes[KEYS]))
        # buffers, and what lies where: known once the kernel begins
        self.weights = self.sums = ""
        self.base: list[str] = []
        self.index: list[str] = []
        self.vectors = [4 * self.lanes * v for v in range(padded(self.share, self.lanes) // self.lanes)]

    def emit(self) -> None:
        """All lanes of one batch."""
        f, slots = self.f, len(self.pitch)
        self.weights = f.let(f"alloca [{BLOCK_ROWS} x float], align 64")
        self.sums = f.let(f"alloca [{len(self.vectors) * self.lanes} x float], align 64")
        self.base, self.index = (
            [f.pointer_item("%frame", SLOT_WORDS * s + word) for s in range(slots)] for word in (0, 1)
        )
        lists = f.pointer_item("%frame", SLOT_WORDS * VALUES + 4)
        outputs = f.pointer_item("%frame", SLOT_WORDS * slots)

        def lane(i: str) -> None:
            begin, end = f.int_item(lists, i), f.int_item(lists, f.i64("add", i, 1))
            query = self._row(QUERY, begin)
            out = f.at(outputs, f.i64("mul", i, self.pitch[VALUES]))
            f.repeat(self.heads, lambda h: self._head(h, begin, end, query, out))

        f.repeat("%last", lane, first="%first")

    def _row(self, slot: int, place: str) -> str:
        """The address of the row that a place of an index names."""
        f = self.f
        return f.at(self.base[slot], f.i64("mul", f.int_item(self.index[slot], place), self.pitch[slot]))

    def _head(self, head: str, begin: str, end: str, query: str, out: str) -> None:
        f = self.f
        query = f.at(query, f.i64("mul", head, 4 * self.part))
        for place in self.vectors:
            f.store(ZEROS, self.sums, place)

        def block(turn: str, state: list[str]) -> list[str]:
            first = f.i64("add", begin, f.i64("mul", turn, BLOCK_ROWS))
            count = f.least(f.i64("sub", end, first), BLOCK_ROWS)
            largest = self._scores(head, first, count, query, state[0])
            # where all scores are -inf the weights' sum stays 0, and what is divided by it is not a number
            none = f.let(f"fcmp oeq float {largest}, {INFINITE}")
            level = f.spread(f.let(f"select i1 {none}, float {number(0.0)}, float {largest}"))
            scale = exp(f, f.vec("fsub", f.spread(state[0]), level))
            before = f.let(f"fmul float {state[1]}, {f.let(f'extractelement {self.vector} {scale}, i64 0')}")
            total = f.let(f"fadd float {before}, {self._powers(count, level)}")
            self._sum(head, first, count, scale)
            return [largest, total]

        blocks = f.i64("sdiv", f.i64("add", f.i64("sub", end, begin), BLOCK_ROWS - 1), BLOCK_ROWS)
        _, total = f.loop(blocks, block, [("float", INFINITE), ("float", number(0.0))])
        whole = f.spread(total)
        for place in self.vectors:
            f.store(f.vec("fdiv", f.load(self.sums, place), whole), self.sums, place)
        copy(f, f.at(out, f.i64("mul", head, 4 * self.share)), self.sums, self.share)

    def _scores(self, head: str, first: str, count: str, query: str, before: str) -> str:
        """Fill the weights with a block's scores, and -inf behind them; the largest of all so far."""
        f = self.f
        for v in range(BLOCK_ROWS // self.lanes):
            f.store(splat(-float("inf")), self.weights, 4 * self.lanes * v)
        column = f.i64("mul", head, 4 * self.part)

        def score(k: str) -> None:
            key = f.at(self._row(KEYS, f.i64("add", first, k)), column)

            def add(place: str | int, mask: str | None, total: list[str]) -> list[str]:
                a, b = (masked(f, f.load(row, place), mask, 0.0) for row in (key, query))
                if not self.added:
                    return [f.fma(a, b, total[0])]
                both = f.vec("fadd", a, b)
                low = f.vec("fmul", both, splat(SLOPE))
                return [f.vec("fadd", total[0], f.choose("ogt", both, ZEROS, both, low))]

            (total,) = over(f, self.part, add, [(self.vector, ZEROS)])
            product = f.let(f"fmul float {across(f, 'fadd', total)}, {number(self.factor)}")
            f.put("float", product, self.weights, k)

        f.repeat(count, score)

        def larger(j: str, best: list[str]) -> list[str]:
            found = f.load(self.weights, f.i64("mul", j, 4 * self.lanes))
            return [f.choose("ogt", found, best[0], found, best[0])]

        (best,) = f.loop(self._filled(count), larger, [(self.vector, f.spread(before))])
        return across(f, "fmax", best)

    def _filled(self, count: str) -> str:
        """So many vectors hold a block's weights."""
        return self.f.i64("sdiv", self.f.i64("add", count, self.lanes - 1), self.lanes)

    def _powers(self, count: str, level: str) -> str:
        """Make the scores weights: e to what they are above `level`; their sum."""
        f = self.f

        def power(j: str, total: list[str]) -> list[str]:
            place = f.i64("mul", j, 4 * self.lanes)
            found = exp(f, f.vec("fsub", f.load(self.weights, place), level))
            f.store(found, self.weights, place)
            return [f.vec("fadd", total[0], found)]

        (total,) = f.loop(self._filled(count), power, [(self.vector, ZEROS)])
        return across(f, "fadd", total)

    def _sum(self, head: str, first: str, count: str, scale: str) -> None:
        """Scale the sums, and add a block's weighted values."""
        f = self.f
        column = f.i64("mul", head, 4 * self.share)
        for begin in range(0, len(self.vectors), MOST_VECTORS):
            places = self.vectors[begin : begin + MOST_VECTORS]

            def add(k: str, sums: list[str], places: list[int] = places) -> list[str]:
                weight = f.spread(f.item("float", self.weights, k))
                value = f.at(self._row(VALUES, f.i64("add", first, k)), column)
                return [f.fma(weight, f.load(value, p), s) for p, s in zip(places, sums, strict=True)]

            sums = f.loop(count, add, [(self.vector, ZEROS)] * len(places))
            for place, added in zip(places, sums, strict=True):
                f.store(f.fma(f.load(self.sums, place), scale, added), self.sums, place)
