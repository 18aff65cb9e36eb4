"""Attention over lists of rows, a few heads of a lane at a time: scores, their softmax, the weighted sum.

A list is read in blocks of BLOCK_ROWS. A list of one block is summed as it is; of a list that fits one vector
the weights stay in it, and are divided by their sum before they are used. The sums of longer lists are kept
in double precision, and BLOCK rows at a time are added to them, as `reduction` does; weights are relative to
a level that rises with the scores (RISE), and what was summed before is scaled to it, so that no list is too
long and no exponential too large. For each head, one buffer on the stack holds a block's weights and another
the sums, both whole vectors. Heads that are computed together wait for nothing of each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from abw.core.exec.cpu.llvm.emit import Function, Module, double, number, splat
from abw.core.exec.cpu.llvm.functions import exp, log
from abw.core.exec.cpu.llvm.kernel import PARAMS, SLOT_WORDS
from abw.core.exec.cpu.llvm.singles import across, copy, first_lanes, masked, over
from abw.core.exec.lower.rows import BLOCK, RISE, columns, padded, row_floats
from abw.core.ir.cell import Shape
from abw.core.ir.model import KEYS, QUERY, SLOPE, VALUES, Attention

BLOCK_ROWS = 64
# So many vectors of heads' sums are in registers at once.
MOST_VECTORS = 8
HEADS_AT_ONCE = 4
# So many vectors of heads' queries are in registers at once; of longer ones none are.
HELD_VECTORS = 8
INFINITE = number(-float("inf"))
ZEROS = splat(0.0)

# Vectors of heads' sums: head, place in bytes.
Columns = list[tuple[int, int]]


def emit_attention(module: Module, name: str, attention: Attention, shapes: tuple[Shape, ...]) -> None:
    """Write the kernel of an attention whose slots have these shapes."""
    f = Function(module, name, PARAMS, public=True)
    AttentionKernel(f, attention, shapes).emit()
    module.add(f)


class AttentionKernel:
    """One kernel while it is written. `summed`: the slot that has rows of the result's size."""

    def __init__(
        self, f: Function, attention: Attention, shapes: tuple[Shape, ...], summed: int = VALUES
    ) -> None:
        self.f, self.heads, self.added = f, attention.heads, attention.added
        self.log_sums, self.summed = attention.log_sums, summed
        self.lanes, self.vector = f.target.lanes, f.target.vector
        self.pitch = [4 * row_floats(shape, self.lanes) for shape in shapes]
        self.part, self.share = (columns(shapes[s]) // self.heads for s in (KEYS, summed))
        self.factor = attention.factor(columns(shapes[KEYS]))
        self.vectors = [4 * self.lanes * v for v in range(padded(self.share, self.lanes) // self.lanes)]
        most = max(1, MOST_VECTORS // len(self.vectors))
        self.together = max(n for n in range(1, min(most, HEADS_AT_ONCE) + 1) if self.heads % n == 0)
        # buffers, and what lies where: known once the kernel begins
        self.weights: list[str] = []
        self.sums: list[str] = []
        self.base: list[str] = []
        self.index: list[str] = []
        self.logs = ""

    def buffers(self, count: int, kind: str) -> list[str]:
        """Room on the stack for each of the heads that are computed together."""
        return [self.f.let(f"alloca [{count} x {kind}], align 64") for _ in range(self.together)]

    def lanes_of(self, each: Callable[[str, str, str, str], None]) -> None:
        """All lanes of one batch: `each(lane, begin, count, out)` of its list and its row of the result."""
        f, slots = self.f, len(self.pitch)
        self.weights = self.buffers(BLOCK_ROWS, "float")
        self.sums = self.buffers(len(self.vectors) * self.lanes, "double")
        self.base, self.index = (
            [f.pointer_item("%frame", SLOT_WORDS * s + word) for s in range(slots)] for word in (0, 1)
        )
        lists = f.pointer_item("%frame", SLOT_WORDS * VALUES + 4)
        outputs = f.pointer_item("%frame", SLOT_WORDS * slots)

        def lane(i: str) -> None:
            begin, end = f.int_item(lists, i), f.int_item(lists, f.i64("add", i, 1))
            out = f.at(outputs, f.i64("mul", i, self.pitch[self.summed]))
            each(i, begin, f.i64("sub", end, begin), out)

        f.repeat("%last", lane, first="%first")

    def emit(self) -> None:
        """Write it."""
        f = self.f

        def lane(i: str, begin: str, count: str, out: str) -> None:
            query = self.row(QUERY, begin)
            if self.log_sums:
                logs = f.pointer_item("%frame", SLOT_WORDS * len(self.pitch) + 1)
                self.logs = f.at(logs, f.i64("mul", i, 4 * row_floats((self.heads,), self.lanes)))

            def each(heads: Callable[[str, str, str, str, str], None]) -> None:
                f.repeat(self.heads // self.together, lambda g: heads(g, begin, count, query, out))

            def longer() -> None:
                one = f.let(f"icmp sle i64 {count}, {BLOCK_ROWS}")
                f.when(one, lambda: each(self._one_block), lambda: each(self._blocks))

            f.when(f.let(f"icmp sle i64 {count}, {self.lanes}"), lambda: each(self._short), longer)

        self.lanes_of(lane)

    def row(self, slot: int, place: str) -> str:
        """The address of the row that a place of an index names."""
        f = self.f
        return f.at(self.base[slot], f.i64("mul", f.int_item(self.index[slot], place), self.pitch[slot]))

    def of_heads(self, first: str, group: str, floats: int) -> list[str]:
        """Where each head's floats begin in a row."""
        f = self.f
        start = f.at(first, f.i64("mul", group, 4 * floats * self.together))
        return [f.at(start, 4 * floats * h) for h in range(self.together)]

    def _short(self, group: str, begin: str, count: str, query: str, out: str) -> None:
        """A group of heads of one lane whose list has at most a vector of rows."""
        f = self.f
        self._score_rows(group, begin, count, self.of_heads(query, group, self.part))
        levels, totals = [], []
        for weights in self.weights:
            scores = self._scored(weights, 0, count)
            levels.append(self._level(across(f, "fmax", scores)))
            powers = exp(f, f.vec("fsub", scores, levels[-1]))
            totals.append(f.spread(across(f, "fadd", powers)))
            f.store(f.vec("fdiv", powers, totals[-1]), weights)
        self._write_logs(group, levels, totals)
        self.write(group, begin, count, out)

    def _one_block(self, group: str, begin: str, count: str, query: str, out: str) -> None:
        """A group of heads of one lane whose list is one block."""
        start = [INFINITE] * self.together
        largest = self._scores(group, begin, count, self.of_heads(query, group, self.part), start)
        levels = [self._level(x) for x in largest]
        totals = [self.f.spread(total) for total in self._powers(count, levels)]
        self._write_logs(group, levels, totals)
        self.write(group, begin, count, out, totals)

    def _write_logs(self, group: str, levels: Sequence[str], totals: Sequence[str]) -> None:
        """Write the logarithms of sums of exponentials, from those of what scores are above `levels`."""
        f = self.f
        if self.log_sums:
            first = self.of_heads(self.logs, group, 1)[0]
            for h, (level, total) in enumerate(zip(levels, totals, strict=True)):
                f.put("float", self._first(f.vec("fadd", level, log(f, total))), first, h)

    def write(self, group: str, begin: str, count: str, out: str, totals: Sequence[str] = ()) -> None:
        """Write a block's weighted sums to the heads' place in `out`; over `totals`, where they are given."""
        f = self.f
        ragged = self.share % self.lanes > 0
        outs = self.of_heads(out, group, self.share)
        for of_heads in self.columns():
            sums = self.weighted(group, begin, count, of_heads)
            for (h, place), value in zip(of_heads, sums, strict=True):
                whole = f.vec("fdiv", value, totals[h]) if totals else value
                f.store(whole, self.sums[h] if ragged else outs[h], place)
        if ragged:
            for place_of, buffer in zip(outs, self.sums, strict=True):
                copy(f, place_of, buffer, self.share)

    def _blocks(self, group: str, begin: str, count: str, query: str, out: str) -> None:
        """A group of heads of one lane whose list is long."""
        f, n = self.f, self.together
        queries = self.of_heads(query, group, self.part)
        self.clear()

        def block(turn: str, state: list[str]) -> list[str]:
            done = f.i64("mul", turn, BLOCK_ROWS)
            first, some = f.i64("add", begin, done), f.least(f.i64("sub", count, done), BLOCK_ROWS)
            before, totals = state[:n], state[n:]
            largest = self._scores(group, first, some, queries, before)
            after = [self._risen(old, new) for old, new in zip(before, largest, strict=True)]
            # as long as all scores are -inf the weights' sum is 0, and what is divided by it not a number
            levels = [self._level(x) for x in after]
            scales = [
                self._doubled(self._first(exp(f, f.vec("fsub", f.spread(old), level))))
                for old, level in zip(before, levels, strict=True)
            ]
            added = [self._doubled(x) for x in self._powers(some, levels)]
            scaled = [f.let(f"fmul double {x}, {scale}") for x, scale in zip(totals, scales, strict=True)]
            self.add(group, first, some, [f.spread(scale, "double") for scale in scales])
            return [*after, *(f.let(f"fadd double {a}, {b}") for a, b in zip(scaled, added, strict=True))]

        blocks = f.i64("sdiv", f.i64("add", count, BLOCK_ROWS - 1), BLOCK_ROWS)
        start = [*[("float", INFINITE)] * n, *[("double", double(0.0))] * n]
        last = f.loop(blocks, block, start)
        totals = last[n:]
        if self.log_sums:
            single = [f.spread(f.let(f"fptrunc double {total} to float")) for total in totals]
            self._write_logs(group, [self._level(x) for x in last[:n]], single)
        self.write_sums(group, out, totals)

    def clear(self) -> None:
        """Let the sums be zeros."""
        for sums in self.sums:
            for place in self.vectors:
                self.keep("zeroinitializer", sums, place)

    def write_sums(self, group: str, out: str, totals: Sequence[str] = ()) -> None:
        """Write the sums to the heads' place in `out`; over `totals`, where they are given."""
        f, wide = self.f, self.f.target.wide
        for h, place_of in enumerate(self.of_heads(out, group, self.share)):
            sums, whole = self.sums[h], f.spread(totals[h], "double") if totals else ""
            for place in self.vectors:
                value = self.kept(sums, place)
                if totals:
                    value = f.let(f"fdiv {wide} {value}, {whole}")
                # a float takes half the room of its sum: it overwrites none that is still to be read
                f.store(f.let(f"fptrunc {wide} {value} to {self.vector}"), sums, place)
            copy(f, place_of, sums, self.share)

    def _risen(self, old: str, largest: str) -> str:
        """A list's level after a block: the largest score so far where that is above it by more than RISE."""
        f = self.f
        least = f.let(f"fadd float {old}, {number(RISE)}")
        above = f.let(f"fcmp ogt float {largest}, {least}")
        return f.let(f"select i1 {above}, float {largest}, float {old}")

    def _doubled(self, x: str) -> str:
        return self.f.let(f"fpext float {x} to double")

    def kept(self, sums: str, place: int) -> str:
        """The doubles of a vector that is `place` bytes into a row of floats."""
        return self.f.let(f"load {self.f.target.wide}, ptr {self.f.at(sums, 2 * place)}, align 8")

    def keep(self, value: str, sums: str, place: int) -> None:
        """Write such doubles."""
        self.f.do(f"store {self.f.target.wide} {value}, ptr {self.f.at(sums, 2 * place)}, align 8")

    def _first(self, vector: str) -> str:
        return self.f.let(f"extractelement {self.vector} {vector}, i64 0")

    def _level(self, largest: str) -> str:
        """What is subtracted from scores: the largest, but 0 for -inf."""
        f = self.f
        none = f.let(f"fcmp oeq float {largest}, {INFINITE}")
        return f.spread(f.let(f"select i1 {none}, float {number(0.0)}, float {largest}"))

    def _scores(self, group: str, first: str, count: str, queries: list[str], before: list[str]) -> list[str]:
        """Fill the weights with a block's scores; each head's largest so far."""
        f = self.f
        self._score_rows(group, first, count, queries)

        def larger(j: str, best: list[str]) -> list[str]:
            found = [self._scored(weights, j, count) for weights in self.weights]
            return [f.choose("ogt", a, b, a, b) for a, b in zip(found, best, strict=True)]

        best = f.loop(self.filled(count), larger, [(self.vector, f.spread(x)) for x in before])
        return [across(f, "fmax", x) for x in best]

    def _scored(self, scores: str, j: str | int, count: str, other: float = -float("inf")) -> str:
        """The j-th vector of a block's scores, with another number behind the last of them.

        What lies there is left of other lists, and slow to compute with where it is subnormal.
        """
        f, lanes = self.f, self.lanes
        numbers = ", ".join(f"i32 {lane}" for lane in range(lanes))
        left = f.let(f"trunc i64 {f.i64('sub', count, f.i64('mul', j, lanes))} to i32")
        ends = f.spread(left, "i32")
        there = f.let(f"icmp slt <{lanes} x i32> <{numbers}>, {ends}")
        return f.select(there, f.load(scores, f.i64("mul", j, 4 * lanes)), splat(other))

    def _score_rows(self, group: str, first: str, count: str, queries: list[str]) -> None:
        """Write the scores of `count` rows to the weights, and what is no number of theirs behind them."""
        f = self.f
        if self.part == 1 or self.together * -(-self.part // self.lanes) > HELD_VECTORS:

            def score(k: str) -> None:
                keys = self.of_heads(self.row(KEYS, f.i64("add", first, k)), group, self.part)
                for key, query, weights in zip(keys, queries, self.weights, strict=True):
                    found = self._single(key, query) if self.part == 1 else self._score(key, query)
                    f.put("float", f.let(f"fmul float {found}, {number(self.factor)}"), weights, k)

            f.repeat(count, score)
            return
        held = [[self._piece(query, v) for v in range(0, self.part, self.lanes)] for query in queries]
        final = f.i64("sub", count, 1)

        def four(turn: str) -> None:
            k = f.i64("mul", turn, 4)
            rows = [f.i64("add", first, f.least(f.i64("add", k, r), final)) for r in range(4)]
            keys = [self.of_heads(self.row(KEYS, row), group, self.part) for row in rows]
            for h, weights in enumerate(self.weights):
                found = self._four_sums([self._products(key[h], held[h]) for key in keys])
                found = f.let(f"fmul <4 x float> {found}, {splat(self.factor)}")
                f.do(f"store <4 x float> {found}, ptr {f.at(weights, f.i64('mul', k, 4))}, align 4")

        f.repeat(f.i64("sdiv", f.i64("add", count, 3), 4), four)

    def _products(self, key: str, held: list[str]) -> str:
        """A vector whose elements' sum is the score of a key, the query of which is in registers."""
        total = ZEROS
        for v, query in enumerate(held):
            total = self.take(self._piece(key, v * self.lanes), query, total)
        return total

    def take(self, a: str, b: str, total: str) -> str:
        """Add a vector of a score's terms."""
        f = self.f
        if not self.added:
            return f.fma(a, b, total)
        both = f.vec("fadd", a, b)
        low = f.vec("fmul", both, splat(SLOPE))
        return f.vec("fadd", total, f.choose("ogt", both, ZEROS, both, low))

    def _four_sums(self, vectors: list[str]) -> str:
        """The sums of four vectors' elements, added up together."""
        f, lanes = self.f, self.lanes

        def halves(a: str, b: str, wide: int, low: Sequence[int], high: Sequence[int]) -> str:
            kind, parts = f"<{wide} x float>", []
            for places in (low, high):
                mask = ", ".join(f"i32 {place}" for place in places)
                parts.append(f.let(f"shufflevector {kind} {a}, {kind} {b}, <{len(places)} x i32> <{mask}>"))
            return f.let(f"fadd <{len(low)} x float> {parts[0]}, {parts[1]}")

        def within(*of_four: int) -> list[int]:
            """Places in each run of four elements; those of the second vector are 4 and above."""
            return [q + (p if p < 4 else p - 4 + lanes) for q in range(0, lanes, 4) for p in of_four]

        low, high = within(0, 4, 1, 5), within(2, 6, 3, 7)
        a = halves(vectors[0], vectors[1], lanes, low, high)
        b = halves(vectors[2], vectors[3], lanes, low, high)
        total, wide = halves(a, b, lanes, within(0, 1, 4, 5), within(2, 3, 6, 7)), lanes
        while wide > 4:
            total = halves(total, total, wide, range(wide // 2), range(wide // 2, wide))
            wide //= 2
        return total

    def _single(self, key: str, query: str) -> str:
        """The score of one float of each."""
        f = self.f
        a, b = f.item("float", key, 0), f.item("float", query, 0)
        if not self.added:
            return f.let(f"fmul float {a}, {b}")
        both = f.let(f"fadd float {a}, {b}")
        low, up = f.let(f"fmul float {both}, {number(SLOPE)}"), f.let(f"fcmp ogt float {both}, {number(0.0)}")
        return f.let(f"select i1 {up}, float {both}, float {low}")

    def _score(self, key: str, query: str) -> str:
        """The score of many floats of each."""
        f = self.f

        def add(place: str | int, mask: str | None, total: list[str]) -> list[str]:
            a, b = (masked(f, f.load(row, place), mask, 0.0) for row in (key, query))
            return [self.take(a, b, total[0])]

        (total,) = over(f, self.part, add, [(self.vector, ZEROS)])
        return across(f, "fadd", total)

    def _piece(self, row: str, first: int) -> str:
        """A head's floats of a row from `first` on, a vector of them; zeros behind the last."""
        f, rest = self.f, min(self.lanes, self.part - first)
        mask = None if rest == self.lanes else first_lanes(f, rest)
        return masked(f, f.load(row, 4 * first), mask, 0.0)

    def filled(self, count: str) -> str:
        """So many vectors hold a block's weights."""
        return self.f.i64("sdiv", self.f.i64("add", count, self.lanes - 1), self.lanes)

    def _powers(self, count: str, levels: list[str]) -> list[str]:
        """Make the scores weights: e to what they are above `levels`; each head's sum."""
        f = self.f

        def power(j: str, totals: list[str]) -> list[str]:
            place = f.i64("mul", j, 4 * self.lanes)
            after = []
            for weights, level, total in zip(self.weights, levels, totals, strict=True):
                found = exp(f, f.vec("fsub", self._scored(weights, j, count), level))
                f.store(found, weights, place)
                after.append(f.vec("fadd", total, found))
            return after

        totals = f.loop(self.filled(count), power, [(self.vector, ZEROS)] * self.together)
        return [across(f, "fadd", total) for total in totals]

    def add(self, group: str, first: str, count: str, scales: list[str]) -> None:
        """Scale the sums, and add a block's weighted values, BLOCK rows at a time."""
        f, wide = self.f, self.f.target.wide
        pieces = f.i64("sdiv", f.i64("add", count, BLOCK - 1), BLOCK)
        for of_heads in self.columns():
            start = [
                f.let(f"fmul {wide} {self.kept(self.sums[h], place)}, {scales[h]}") for h, place in of_heads
            ]

            def piece(number: str, sums: list[str], of_heads: Columns = of_heads) -> list[str]:
                since = f.i64("mul", number, BLOCK)
                until = f.least(f.i64("add", since, BLOCK), count)
                found = self.weighted(group, first, until, of_heads, since)
                return [f.let(f"fadd {wide} {a}, {f.widened(b)}") for a, b in zip(sums, found, strict=True)]

            sums = f.loop(pieces, piece, [(wide, value) for value in start])
            for (h, place), value in zip(of_heads, sums, strict=True):
                self.keep(value, self.sums[h], place)

    def columns(self) -> Iterator[Columns]:
        """The vectors of the sums, some of them (head, place) at a time."""
        step = max(1, MOST_VECTORS // self.together)
        for begin in range(0, len(self.vectors), step):
            places = self.vectors[begin : begin + step]
            yield [(h, place) for h in range(self.together) for place in places]

    def weighted(
        self, group: str, first: str, until: str, of_heads: Columns, since: str | int = 0
    ) -> list[str]:
        """Some vectors of the weighted values of rows `since` to `until - 1` of a block, summed."""
        f = self.f

        def add(k: str, sums: list[str]) -> list[str]:
            weights = [f.spread(f.item("float", weights, k)) for weights in self.weights]
            values = self.of_heads(self.row(VALUES, f.i64("add", first, k)), group, self.share)
            return [
                f.fma(weights[h], f.load(values[h], place), total)
                for (h, place), total in zip(of_heads, sums, strict=True)
            ]

        return f.loop(until, add, [(self.vector, ZEROS)] * len(of_heads), first=since)
