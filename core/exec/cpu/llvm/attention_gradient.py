"""The gradients of attention over lists of edges: of a query, or of a value or key that several nodes read.

Each edge forms its weight again, from its node's state (`AttentionGradient`), blocks of edges at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from abw.core.exec.cpu.llvm.attention import BLOCK_ROWS, ZEROS, AttentionKernel, Columns
from abw.core.exec.cpu.llvm.emit import Function, Module, double, splat
from abw.core.exec.cpu.llvm.functions import exp
from abw.core.exec.cpu.llvm.kernel import PARAMS
from abw.core.exec.cpu.llvm.singles import across, copy, masked, over
from abw.core.exec.lower.rows import columns
from abw.core.ir.cell import Shape
from abw.core.ir.model import KEYS, QUERY, SLOPE, VALUES, AttentionGradient


def emit_attention_gradient(
    module: Module, name: str, made: AttentionGradient, shapes: tuple[Shape, ...]
) -> None:
    """Write the kernel of a gradient whose slots have these shapes."""
    f = Function(module, name, PARAMS, public=True)
    _Gradient(f, made, shapes).emit()
    module.add(f)


class _Gradient(AttentionKernel):
    """One kernel while it is written."""

    def __init__(self, f: Function, made: AttentionGradient, shapes: tuple[Shape, ...]) -> None:
        super().__init__(f, made.attention, shapes, VALUES if made.of == VALUES else KEYS)
        self.of, self.wide = made.of, columns(shapes[VALUES]) // self.heads
        deep, wide = columns(shapes[KEYS]), columns(shapes[VALUES])
        # where the parts of a state begin: query, gradient, log-sums, level
        self.parts = [0, deep, deep + wide, deep + wide + self.heads]

    def emit(self) -> None:
        """Write it."""
        f, groups = self.f, self.heads // self.together
        self.slopes = self.buffers(BLOCK_ROWS, "float")
        self.lanes_of(lambda _, *lane: f.repeat(groups, lambda group: self._group(group, *lane)))

    def _group(self, group: str, begin: str, count: str, out: str) -> None:
        """Some heads of one lane."""
        f, wide = self.f, self.f.target.wide
        for sums in self.sums:
            for place in self.vectors:
                self.keep("zeroinitializer", sums, place)
        one = f.spread(double(1.0), "double")

        def block(turn: str) -> None:
            done = f.i64("mul", turn, BLOCK_ROWS)
            first, some = f.i64("add", begin, done), f.least(f.i64("sub", count, done), BLOCK_ROWS)
            f.repeat(some, lambda k: self._edge(group, f.i64("add", first, k), k))
            f.repeat(self.filled(some), self._weigh)
            self.add(group, first, some, [one] * self.together)

        f.repeat(f.i64("sdiv", f.i64("add", count, BLOCK_ROWS - 1), BLOCK_ROWS), block)
        for place_of, sums in zip(self.of_heads(out, group, self.share), self.sums, strict=True):
            for place in self.vectors:
                # a sum in single precision takes half the room: it overwrites none that is still to be read
                f.store(f.let(f"fptrunc {wide} {self.kept(sums, place)} to {self.vector}"), sums, place)
            copy(f, place_of, sums, self.share)

    def _state(self, edge: str, group: str, part: int, floats: int) -> list[str]:
        """Where the heads' floats of a part of an edge's state begin."""
        return self.of_heads(self.f.at(self.row(QUERY, edge), 4 * self.parts[part]), group, floats)

    def _edge(self, group: str, edge: str, k: str) -> None:
        """Write what an edge's score is above the logarithm, and the slope of its weight."""
        f = self.f
        keys, values = (
            self.of_heads(self.row(s, edge), group, size)
            for s, size in ((KEYS, self.part), (VALUES, self.wide))
        )
        queries, gradients = self._state(edge, group, 0, self.part), self._state(edge, group, 1, self.wide)
        logs, levels = self._state(edge, group, 2, 1), self._state(edge, group, 3, 1)
        for h in range(self.together):
            score = self._dot(keys[h], queries[h], self.part, self.added)
            score = f.let(f"fmul float {score}, {self.number}")
            f.put("float", f.let(f"fsub float {score}, {f.item('float', logs[h], 0)}"), self.weights[h], k)
            if self.of != VALUES:
                slope = self._dot(values[h], gradients[h], self.wide, False)
                slope = f.let(f"fsub float {slope}, {f.item('float', levels[h], 0)}")
                f.put("float", f.let(f"fmul float {slope}, {self.number}"), self.slopes[h], k)

    def _dot(self, a: str, b: str, floats: int, added: bool) -> str:
        """The sum of products, or where `added` of what `take` makes of sums."""
        f = self.f

        def step(place: str | int, mask: str | None, total: list[str]) -> list[str]:
            x, y = (masked(f, f.load(row, place), mask, 0.0) for row in (a, b))
            return [self.take(x, y, total[0]) if added else f.fma(x, y, total[0])]

        (total,) = over(f, floats, step, [(self.vector, ZEROS)])
        return across(f, "fadd", total)

    def _weigh(self, j: str) -> None:
        """Make a vector of scores weights, or of weights what they are times their slopes."""
        f = self.f
        place = f.i64("mul", j, 4 * self.lanes)
        for weights, slopes in zip(self.weights, self.slopes, strict=True):
            found = exp(f, f.load(weights, place))
            f.store(
                found if self.of == VALUES else f.vec("fmul", found, f.load(slopes, place)), weights, place
            )

    def weighted(
        self, group: str, first: str, until: str, of_heads: Columns, since: str | int = 0
    ) -> list[str]:
        """Some vectors of the weighted gradients, queries or keys of edges, summed."""
        f = self.f

        def add(k: str, sums: list[str]) -> Sequence[str]:
            edge = f.i64("add", first, k)
            weights = [f.spread(f.item("float", weights, k)) for weights in self.weights]
            keys = self.of_heads(self.row(KEYS, edge), group, self.part)
            states = self._state(edge, group, 1 if self.of == VALUES else 0, self.share)

            def rows(h: int, place: int) -> str:
                if self.of != VALUES and self.added:
                    both = f.vec("fadd", f.load(keys[h], place), f.load(states[h], place))
                    return f.choose("ogt", both, ZEROS, splat(1.0), splat(SLOPE))
                return f.load(keys[h] if self.of == QUERY else states[h], place)

            return [
                f.fma(weights[h], rows(h, place), total)
                for (h, place), total in zip(of_heads, sums, strict=True)
            ]

        return f.loop(until, add, [(self.vector, ZEROS)] * len(of_heads), first=since)
