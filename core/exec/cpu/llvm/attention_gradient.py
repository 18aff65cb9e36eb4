"""The gradients of attention over lists of edges: of a query, or of a value or key that several nodes read.

Each edge forms its weight again, from its node's state (`AttentionGradient`), blocks of edges at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from abw.core.exec.cpu.llvm.attention import BLOCK_ROWS, ZEROS, AttentionKernel, Columns
from abw.core.exec.cpu.llvm.emit import Function, Module, double, splat
from abw.core.exec.cpu.llvm.functions import exp
from abw.core.exec.cpu.llvm.kernel import PARAMS
from abw.core.exec.cpu.llvm.singles import masked, over
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
        """Some heads of one lane: the edges of one block are summed as they are."""
        f = self.f

        def short() -> None:
            self._edges(group, begin, count)
            self.write(group, begin, count, out)

        one = f.let(f"icmp sle i64 {count}, {BLOCK_ROWS}")
        f.when(one, short, lambda: self._blocks_of(group, begin, count, out))

    def _edges(self, group: str, first: str, count: str) -> None:
        """The weights of a block's edges, four at a time; behind the last what is no number of theirs."""
        f = self.f
        final = f.i64("sub", count, 1)

        def four(turn: str) -> None:
            k = f.i64("mul", turn, 4)
            places = [f.least(f.i64("add", k, r), final) for r in range(4)]
            self._four(group, [f.i64("add", first, place) for place in places], f.i64("mul", k, 4))

        f.repeat(f.i64("sdiv", f.i64("add", count, 3), 4), four)
        f.repeat(self.filled(count), lambda j: self._weigh(j, count))

    def _blocks_of(self, group: str, begin: str, count: str, out: str) -> None:
        f = self.f
        self.clear()
        one = f.spread(double(1.0), "double")

        def block(turn: str) -> None:
            done = f.i64("mul", turn, BLOCK_ROWS)
            first, some = f.i64("add", begin, done), f.least(f.i64("sub", count, done), BLOCK_ROWS)
            self._edges(group, first, some)
            self.add(group, first, some, [one] * self.together)

        f.repeat(f.i64("sdiv", f.i64("add", count, BLOCK_ROWS - 1), BLOCK_ROWS), block)
        self.write_sums(group, out)

    def _state(self, edge: str, group: str, part: int, floats: int) -> list[str]:
        """Where the heads' floats of a part of an edge's state begin."""
        return self.of_heads(self.f.at(self.row(QUERY, edge), 4 * self.parts[part]), group, floats)

    def _four(self, group: str, edges: list[str], place: str) -> None:
        """Write what four edges' scores are above the logarithms, and the slopes of their weights."""
        f = self.f

        def floats(slot: int, size: int) -> list[list[str]]:
            return [self.of_heads(self.row(slot, edge), group, size) for edge in edges]

        def states(part: int, size: int) -> list[list[str]]:
            return [self._state(edge, group, part, size) for edge in edges]

        def four(operation: str, a: str, b: str) -> str:
            return f.let(f"{operation} <4 x float> {a}, {b}")

        def keep(found: str, out: str) -> None:
            f.do(f"store <4 x float> {found}, ptr {f.at(out, place)}, align 4")

        factor = splat(self.factor)
        keys, queries, logs = floats(KEYS, self.part), states(0, self.part), states(2, 1)
        for h in range(self.together):
            scores = self._dots([x[h] for x in keys], [x[h] for x in queries], self.part, self.added)
            above = self._together([f.item("float", x[h], 0) for x in logs])
            keep(four("fsub", four("fmul", scores, factor), above), self.weights[h])
        if self.of == VALUES:
            return
        values, gradients, levels = floats(VALUES, self.wide), states(1, self.wide), states(3, 1)
        for h in range(self.together):
            slopes = self._dots([x[h] for x in values], [x[h] for x in gradients], self.wide, False)
            level = self._together([f.item("float", x[h], 0) for x in levels])
            keep(four("fmul", four("fsub", slopes, level), factor), self.slopes[h])

    def _together(self, four: Sequence[str]) -> str:
        made = "poison"
        for r, x in enumerate(four):
            made = self.f.let(f"insertelement <4 x float> {made}, float {x}, i64 {r}")
        return made

    def _dots(self, a: list[str], b: list[str], floats: int, added: bool) -> str:
        """Four sums of products, or where `added` of what `take` makes of sums."""
        f = self.f
        if floats == 1 and added:
            return self._together([self._single(x, y) for x, y in zip(a, b, strict=True)])

        def step(place: str | int, mask: str | None, totals: list[str]) -> list[str]:
            found = []
            for x, y, total in zip(a, b, totals, strict=True):
                p, q = (masked(f, f.load(row, place), mask, 0.0) for row in (x, y))
                found.append(self.take(p, q, total) if added else f.fma(p, q, total))
            return found

        return self._four_sums(over(f, floats, step, [(self.vector, ZEROS)] * 4))

    def _weigh(self, j: str, count: str) -> None:
        """Make a vector of scores weights, or of weights what they are times their slopes."""
        f = self.f
        for weights, slopes in zip(self.weights, self.slopes, strict=True):
            found = exp(f, self._scored(weights, j, count, 0.0))
            if self.of != VALUES:
                found = f.vec("fmul", found, self._scored(slopes, j, count, 0.0))
            f.store(found, weights, f.i64("mul", j, 4 * self.lanes))

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
