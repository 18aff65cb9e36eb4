"""The text of a step with sums of products: a tile of lanes by units, through shared memory, to its results.

The elements of the products' operands go by in slabs: a slab of the lanes' rows and one of the weights are
loaded while the slab before is multiplied, and put into shared memory when that is done. Each thread sums
`each` lanes by four units of every gate in registers. In tiles that split the elements among groups of
threads, the groups' sums are added through shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from abw.core.exec.cuda.steps import CellSteps, Step
from abw.core.exec.cuda.text.rowwise import (
    SIGNATURE,
    ZERO,
    block_of,
    epilogue_call,
    guarded,
    load_part,
    open_step,
    operand_rows,
)
from abw.core.exec.cuda.text.text import Text, plus, times, u
from abw.core.exec.cuda.tiles import VECTOR, Sizes, Tile
from abw.core.exec.lower.rows import padded
from abw.core.exec.lower.stages import Segment, consecutive

# Sums of so many groups of threads are added where they are needed; those of more are added up before.
GROUPS = 4


@dataclass(frozen=True, slots=True)
class Slab:
    """How a segment goes through shared memory: `elements` at a time, rows from `rows` on, weights from 0."""

    elements: int
    rows: int
    pitch: int
    floats: int


def gate_text(cell: CellSteps, step: Step, sizes: Sizes, tile: Tile) -> tuple[str, int]:
    """The function of a step with gates, and the floats of shared memory that it needs.

    It calls `epilogue`, the function of `epilogue_text`.
    """
    gates = _Gates(cell, step, sizes, tile)
    return gates.text(), gates.shared


class _Gates:
    def __init__(self, cell: CellSteps, step: Step, sizes: Sizes, tile: Tile) -> None:
        self.cell, self.step, self.sizes, self.tile = cell, step, sizes, tile
        self.weights = step.packed
        self.segments = self.weights.group.segments
        self.gates = len(self.weights.group.gates)
        self.units = padded(self.weights.rows, VECTOR)
        self.slabs = [self._slab(segment) for segment in self.segments]
        partial = tile.sums(self.gates) if tile.split > 1 else 0
        self.shared = max([partial, *(slab.floats for slab in self.slabs)])
        self.t = Text()

    def text(self) -> str:
        t, tile = self.t, self.tile
        with t.block(f"def step{SIGNATURE}"):
            open_step(t)
            t.let(f"across = thread % {u(tile.across)}")
            t.let(f"down = thread // {u(tile.across)} % {u(tile.down)}")
            t.let(f"group = thread // {u(tile.across * tile.down)}")
            t.let(f"column = tile % {u(tile.columns(self.units))}")
            t.let(f"lane0 = {times(f'tile // {u(tile.columns(self.units))}', tile.lanes)}")
            t.let(f"unit0 = {times('column', tile.units)}")
            t.let(f"block = {block_of(self.weights, 'unit0')}")
            # arrays, since numba's time grows with the square of a function's variables; the loops over them
            # have constant bounds and are unrolled, so that they end up in registers
            t.add(f"sums = cuda.local.array({self.gates * tile.each * VECTOR}, float32)")
            t.add(f"near = cuda.local.array({tile.each * VECTOR}, float32)")
            with t.block(f"for i in range({self.gates * tile.each * VECTOR})"):
                t.add(f"sums[i] = {ZERO}")
            segments = zip(self.segments, self.slabs, self.weights.begins, strict=False)
            for number, (segment, slab, begin) in enumerate(segments):
                if number:
                    t.add("cuda.syncthreads()  # the operand before is used up")
                self._segment(segment, slab, begin)
            if tile.split == 1:
                self._epilogue()
            else:
                self._epilogue_of_groups()
        return str(t)

    # products

    def _slab(self, segment: Segment) -> Slab:
        """The elements in shared memory at a time: as many as it holds and the threads can load together."""
        tile, sizes, length = self.tile, self.sizes, self.weights.depth(segment.part)
        least = VECTOR * tile.split
        elements = max(least, min(sizes.slab, sizes.threads * VECTOR))
        while elements > least and (
            elements >= 2 * length or self._slab_floats(segment, elements) > sizes.shared
        ):
            elements //= 2
        weights = elements * len(segment.fed) * tile.units
        # rows a vector apart from each other lie in different banks
        return Slab(elements, weights, elements + VECTOR, self._slab_floats(segment, elements))

    def _slab_floats(self, segment: Segment, elements: int) -> int:
        tile = self.tile
        return elements * len(segment.fed) * tile.units + tile.lanes * (elements + VECTOR)

    def _segment(self, segment: Segment, slab: Slab, begin: int) -> None:
        """All slabs of one operand; its weights begin at float `begin` of the block's."""
        t, tile, threads = self.t, self.tile, self.tile.threads
        pieces, length = slab.elements // VECTOR, self.weights.depth(segment.part)
        whole = length % slab.elements == 0
        chunks = -(-tile.lanes * pieces // threads)
        rows_at_once = threads // pieces
        t.let(f"piece = thread % {u(pieces)} * {u(VECTOR)}", f"line = thread // {u(pieces)}")
        lines = [plus("line", i * rows_at_once) for i in range(chunks)]
        fits = None if tile.lanes * pieces % threads == 0 else f"line < {u(tile.lanes)}"
        places = operand_rows(t, self.cell, segment.part, lines)
        fed = len(segment.fed)
        vectors = slab.elements * fed * tile.across
        weight_chunks = -(-vectors // threads)
        step = threads // tile.across
        t.let(f"source = {plus('block', begin)} + {times('across', VECTOR)}")
        t.let(f"line_w = thread // {u(tile.across)}")

        def fetch(at: str) -> tuple[list[list[str]], list[list[str]]]:
            """Loads of the slab from element `at` on; the names of the floats."""
            rows: list[list[str]] = []
            weights: list[list[str]] = []
            for i, name in enumerate(places):
                conditions = [c for c in (None if whole else f"{at} + piece < {u(length)}", fits) if c]
                rows.append([f"r{i}_{e}" for e in range(VECTOR)])
                with guarded(t, rows[-1], " and ".join(conditions)):
                    load_part(t, self.cell, segment.part, rows[-1], f"{name} + {at}", f"{at} + piece")
            for i in range(weight_chunks):
                line = plus("line_w", i * step)
                conditions = []
                if not whole:
                    conditions.append(f"{times(at, fed)} + {line} < {u(length * fed)}")
                if (i + 1) * threads > vectors:
                    conditions.append(f"{line} < {u(slab.elements * fed)}")
                place = f"source + ({times(at, fed)} + {line}) * {u(self.weights.block)}"
                weights.append([f"w{i}_{e}" for e in range(VECTOR)])
                with guarded(t, weights[-1], " and ".join(conditions)):
                    t.add(f"{', '.join(weights[-1])} = ld4(weights, {place})")
            return rows, weights

        rows, weights = fetch(u(0))
        with t.count("element", u(0), u(length), u(slab.elements)):
            for line, names in zip(lines, rows, strict=True):
                with t.when(fits):
                    place = f"{u(slab.rows)} + ({line}) * {u(slab.pitch)} + piece"
                    t.add(f"st4(shared, {place}, {', '.join(names)})")
            for i, names in enumerate(weights):
                line = plus("line_w", i * step)
                with t.when(f"{line} < {u(slab.elements * fed)}" if (i + 1) * threads > vectors else None):
                    place = f"({line}) * {u(tile.units)} + {times('across', VECTOR)}"
                    t.add(f"st4(shared, {place}, {', '.join(names)})")
            t.add("cuda.syncthreads()  # this slab is there")
            if length > slab.elements:
                t.let(f"ahead = element + {u(slab.elements)}")
                with t.block(f"if ahead < {u(length)}"):
                    fetch("ahead")
            self._multiply(segment, slab, whole)
            if length > slab.elements:
                with t.block(f"if ahead < {u(length)}"):
                    t.add("cuda.syncthreads()  # the slab before is used up")

    def _multiply(self, segment: Segment, slab: Slab, whole: bool) -> None:
        """Every thread's share of the slab: group by group, four elements at a time."""
        t, tile, length = self.t, self.tile, self.weights.depth(segment.part)
        with t.count("four", "group", u(slab.elements // VECTOR), u(tile.split)):
            more = f"element + four * {u(VECTOR)} < {u(length)}"
            with t.when(None if whole else more):
                t.let(f"at_row = {u(slab.rows)} + down * {u(slab.pitch)} + four * {u(VECTOR)}")
                with t.block(f"for r in range({tile.each})"):
                    t.add(f"x0, x1, x2, x3 = ld4(shared, at_row + uint32(r) * {u(tile.down * slab.pitch)})")
                    t.add(*(f"near[{VECTOR} * r + {e}] = x{e}" for e in range(VECTOR)))
                step = len(segment.fed) * tile.units
                t.let(f"at_weight = four * {u(VECTOR * step)} + {times('across', VECTOR)}")
                with t.block(f"for k in range({VECTOR})"):
                    for begin, count in consecutive(segment.fed):
                        with t.block(f"for g in range({count})"):
                            at = f"at_weight + uint32(k) * {u(step)} + uint32(g) * {u(tile.units)}"
                            t.add(f"m0, m1, m2, m3 = ld4(shared, {plus(at, begin * tile.units)})")
                            with t.block(f"for r in range({tile.each})"):
                                t.add(f"x = near[{VECTOR} * r + k]")
                                t.add(f"i = {VECTOR} * ({tile.each} * (g + {segment.fed[begin]}) + r)")
                                t.add(*(f"sums[i + {e}] += x * m{e}" for e in range(VECTOR)))

    # sums

    def _epilogue(self) -> None:
        """What is done to a thread's own sums."""
        t, tile = self.t, self.tile
        t.let(f"unit = unit0 + {times('across', VECTOR)}", f"at_bias = block + {times('across', VECTOR)}")
        with t.block(f"if unit < {u(self.units)}"):
            for r in range(tile.each):
                t.let(f"lane = lane0 + down + {u(r * tile.down)}")
                with t.block("if lane < lanes"):
                    names = [name for g in range(self.gates) for name in self._sums(g, r)]
                    t.add(epilogue_call("at_bias", names))

    def _epilogue_of_groups(self) -> None:
        """The groups' sums added, and the tile's results shared among all threads."""
        t, tile = self.t, self.tile
        vectors = tile.lanes * tile.across
        t.add("cuda.syncthreads()  # the last slab is used up")
        for g in range(self.gates):
            for r in range(tile.each):
                place = f"((group * {u(self.gates)} + {u(g)}) * {u(tile.lanes)} + down + {u(r * tile.down)})"
                names = ", ".join(self._sums(g, r))
                t.add(f"st4(shared, ({place} * {u(tile.across)} + across) * {u(VECTOR)}, {names})")
        t.add("cuda.syncthreads()  # all groups' sums are there")
        parts = min(tile.split, GROUPS)
        all_vectors = vectors * self.gates
        if tile.split > GROUPS:
            with t.count("q", "thread", u(parts * all_vectors), u(tile.threads)):
                t.add("s0, s1, s2, s3 = ld4(shared, q * U4)")
                with t.count("other", f"q + {u(parts * all_vectors)}", u(tile.split * all_vectors),
                             u(parts * all_vectors)):  # fmt: skip
                    t.add("m0, m1, m2, m3 = ld4(shared, other * U4)")
                    t.add(*(f"s{e} += m{e}" for e in range(VECTOR)))
                t.add("st4(shared, q * U4, s0, s1, s2, s3)")
            t.add("cuda.syncthreads()  # few groups' sums are left")
        with t.count("q", "thread", u(vectors), u(tile.threads)):
            t.let(f"lane = lane0 + q // {u(tile.across)}", f"place = q % {u(tile.across)} * {u(VECTOR)}")
            t.let("unit = unit0 + place", "at_bias = block + place")
            with t.block(f"if lane < lanes and unit < {u(self.units)}"):
                all_names: list[str] = []
                for g in range(self.gates):
                    own = [t.name("s") for _ in range(VECTOR)]
                    t.add(f"{', '.join(own)} = ld4(shared, {times(plus('q', g * vectors), VECTOR)})")
                    for p in range(1, parts):
                        place = plus("q", (p * self.gates + g) * vectors)
                        t.add(f"m0, m1, m2, m3 = ld4(shared, ({place}) * {u(VECTOR)})")
                        t.add(*(f"{name} += m{e}" for e, name in enumerate(own)))
                    all_names += own
                t.add(epilogue_call("at_bias", all_names))

    def _sums(self, gate: int, lane: int) -> list[str]:
        """A thread's sums of a gate for its lane number `lane`."""
        first = (gate * self.tile.each + lane) * VECTOR
        return [f"sums[{first + e}]" for e in range(VECTOR)]
