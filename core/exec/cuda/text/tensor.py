"""The text of a step whose sums of products are computed on tensor cores, to about float32's own accuracy.

Tensor cores multiply numbers of TF32, with mantissas of 10 bits. Each float is split into two of them, and of
the four products of two floats all but the smallest are added up (3xTF32; Markidis et al., NVIDIA Tensor Core
Programmability, Performance & Precision, 2018). Sums that stay in a tensor core are cut off at each step, not
rounded; so only those of a slab do, and slabs are added outside, as in Ootomo and Yokota, Recovering single
precision accuracy from Tensor Cores, 2022. An infinite operand gives sums that are not numbers.

The operands' elements go by in slabs of 16, two steps of the instruction: three are in shared memory, one
being multiplied and two on their way there by asynchronous copies. A warp sums 16 units of every gate for 16
lanes, `each` times. Which element is which column of a fragment, and which unit which, is ours to choose:
thread 4 g + t of a warp takes elements 4 t to 4 t + 3 and units 2 g and 2 g + 1, so that it loads them at
once and ends up with units 4 t to 4 t + 3 of its lanes. No two threads of a load meet in a bank: rows have 16
floats, and the weights of every four elements begin 8 banks after those before.
"""

from __future__ import annotations

from abw.core.exec.cuda.steps import CellSteps, Step
from abw.core.exec.cuda.text.rowwise import SIGNATURE, ZERO, epilogue_call, open_step, operand_rows
from abw.core.exec.cuda.text.text import Text, plus, times, u
from abw.core.exec.cuda.tiles import FRAGMENT, SLABS, VECTOR, WARP, TensorTile
from abw.core.exec.lower.rows import padded
from abw.core.exec.lower.stages import Segment, consecutive

# Steps of the instruction that a slab's elements are, and instructions that a warp's units are.
STEPS = FRAGMENT // 8


def tensor_text(cell: CellSteps, step: Step, tile: TensorTile) -> tuple[str, int]:
    """The function of a step with gates, and the floats of shared memory that it needs.

    Every operand's rows begin at a whole vector (`Packed.aligned`). It calls `epilogue`, the function of
    `epilogue_text`.
    """
    tensor = _Tensor(cell, step, tile)
    return tensor.text(), SLABS * tensor.slab


class _Tensor:
    def __init__(self, cell: CellSteps, step: Step, tile: TensorTile) -> None:
        self.cell, self.step, self.tile = cell, step, tile
        self.weights = step.packed
        self.segments = self.weights.group.segments
        self.gates = len(self.weights.group.gates)
        self.units = padded(self.weights.rows, VECTOR)
        self.slab = tile.slab_floats(max(len(fed) for _, fed in self.segments))
        self.t = Text()

    def text(self) -> str:
        t, tile = self.t, self.tile
        with t.block(f"def step{SIGNATURE}"):
            open_step(t)
            t.let(f"lane0 = {times(f'tile // {u(tile.columns(self.units))}', tile.lanes)}")
            t.let(f"column = tile % {u(tile.columns(self.units))}")
            t.let(f"block = first + {times('column', self.weights.block_floats)}")
            t.let(f"across = thread // {u(WARP)} % {u(tile.across)} * {u(FRAGMENT)}")
            t.let(f"down = thread // {u(WARP * tile.across)} * {u(FRAGMENT * tile.each)}")
            # of the fragments: the rows of the first operand, the columns of the second
            t.let(f"group = thread % {u(WARP)} // U4", "member = thread % U4")
            sums = 8 * self.gates * tile.each
            t.add(f"sums = cuda.local.array({sums}, float32)")
            t.add(f"a = cuda.local.array({16 * tile.each}, float32)", "b = cuda.local.array(16, float32)")
            with t.block(f"for i in range({sums})"):
                t.add(f"sums[i] = {ZERO}")
            for segment, begin in zip(self.segments, self.weights.begins, strict=False):
                self._segment(segment, begin)
            self._epilogue()
        return str(t)

    def _segment(self, segment: Segment, begin: int) -> None:
        """All slabs of one operand; its weights begin at float `begin` of the block's."""
        t, tile, length = self.t, self.tile, self.weights.depth(segment.part)
        chunks = -(-tile.lanes * FRAGMENT // VECTOR // tile.threads)
        t.let(f"piece = thread % U4 * {u(VECTOR)}", "line = thread // U4")
        lines = [plus("line", i * tile.threads // 4) for i in range(chunks)]
        places = operand_rows(t, self.cell, segment.part, lines)
        t.let(f"source = {plus('block', begin)} + {times('thread', VECTOR)}")
        t.let(f"target = line * {u(FRAGMENT)} + piece")

        if segment is not self.segments[0]:
            t.add("cuda.syncthreads()  # the operand before is used up")
        for number in range(SLABS - 1):
            if number * FRAGMENT < length:
                self._copy(segment, places, u(number * FRAGMENT), u(number * self.slab))
            t.add("end_copies()")
        t.let(f"now = {u(0)}", f"next = {u((SLABS - 1) * self.slab)}")
        with t.count("element", u(0), u(length), u(FRAGMENT)):
            t.add("few_copies_left()")
            t.add("cuda.syncthreads()  # this slab is there, and the one before used up")
            if length > (SLABS - 1) * FRAGMENT:
                t.let(f"ahead = element + {u((SLABS - 1) * FRAGMENT)}")
                with t.block(f"if ahead < {u(length)}"):
                    self._copy(segment, places, "ahead", "next")
            t.add("end_copies()")
            self._multiply(segment)
            for name in ("now", "next"):
                last = f"{name} == {u((SLABS - 1) * self.slab)}"
                t.let(f"{name} = {u(0)} if {last} else {name} + {u(self.slab)}")

    def _copy(self, segment: Segment, places: list[str], at: str, to: str) -> None:
        """Begin to copy the slab from element `at` on to float `to`; zeros beyond the operand's end, where
        something else may lie."""
        t, tile, threads = self.t, self.tile, self.tile.threads
        length, fed = segment.part.length, len(segment.fed)
        floats = u(VECTOR)
        if length % FRAGMENT:
            t.let(f"left = {u(length)} - {at} - piece if {at} + piece < {u(length)} else {u(0)}")
            t.let(f"left = left if left < {u(VECTOR)} else {u(VECTOR)}")
            floats = "left"
        for i, place in enumerate(places):
            line = plus("line", i * threads // 4)
            fits = (i + 1) * threads // 4 <= tile.lanes
            with t.when(None if fits else f"{line} < {u(tile.lanes)}"):
                target = plus(f"{to} + target", i * threads * VECTOR)
                t.add(f"copy4(shared, {target}, floats, {place} + {at}, {floats})")
        line_floats = fed * tile.units
        vectors = FRAGMENT * line_floats // VECTOR
        depth = self.weights.depth(segment.part)
        end = depth * line_floats
        for i in range(-(-vectors // threads)):
            vector = plus("thread", i * threads)
            with t.when(None if (i + 1) * threads <= vectors else f"{vector} < {u(vectors)}"):
                source = plus(f"{times(at, line_floats)}", i * threads * VECTOR)
                floats = u(VECTOR)
                if depth % FRAGMENT:
                    floats = f"{u(VECTOR)} if {source} + {times('thread', VECTOR)} < {u(end)} else {u(0)}"
                # the weights of four elements, then 8 banks that nothing lies in
                skipped = f"({vector}) // {u(line_floats)} * U8"
                target = plus(f"{to} + {times('thread', VECTOR)}", i * threads * VECTOR + tile.row_floats)
                t.add(f"copy4(shared, {target} + {skipped}, weights, source + {source}, uint32({floats}))")

    def _multiply(self, segment: Segment) -> None:
        """The warp's share of a slab: gate by gate, and of each the small products first."""
        t, tile = self.t, self.tile
        line = len(segment.fed) * tile.units
        t.let(f"at_row = now + (down + group) * {u(FRAGMENT)} + member * {u(VECTOR)}")
        with t.block(f"for r in range({tile.each})"):
            place = f"at_row + uint32(r) * {u(FRAGMENT * FRAGMENT)}"
            t.add(f"x0, x1, x2, x3 = ld4(shared, {place})")
            t.add(f"y0, y1, y2, y3 = ld4(shared, {place} + {u(8 * FRAGMENT)})")
            for i, name in enumerate(("x0", "y0", "x1", "y1", "x2", "y2", "x3", "y3")):
                t.add(f"a[16 * r + {i}], a[16 * r + {8 + i}] = split({name})")
        weights = plus("now + across + group * U2", tile.row_floats)
        t.let(f"at_weight = {weights} + member * {u(4 * line + 8)}")
        for begin, count in consecutive(segment.fed):
            first = segment.fed[begin]
            with t.block(f"for g in range({count})"):
                for e in range(4):
                    place = f"at_weight + uint32(g) * {u(tile.units)}"
                    t.add(f"m0, m1 = ld2(shared, {plus(place, begin * tile.units + e * line)})")
                    for n in range(2):
                        i = 4 * n + e
                        t.add(f"b[{i}], b[{8 + i}] = split(m{n})")
                with t.block(f"for r in range({tile.each})"), t.block("for n in range(2)"):
                    t.add(f"c0 = c1 = c2 = c3 = {ZERO}")
                    small = [(s, a, b) for s in range(STEPS) for a, b in ((8, 0), (0, 8))]
                    for s, a, b in (*small, *((s, 0, 0) for s in range(STEPS))):
                        left = ", ".join(f"a[16 * r + {a + 4 * s + i}]" for i in range(4))
                        right = ", ".join(f"b[4 * n + {b + 2 * s + i}]" for i in range(2))
                        t.add(f"c0, c1, c2, c3 = mma({left}, {right}, c0, c1, c2, c3)")
                    t.add(f"i = 8 * ({tile.each} * (g + {first}) + r) + n")
                    t.add(*(f"sums[i + {2 * i}] += c{i}" for i in range(4)))

    def _epilogue(self) -> None:
        """What is done to a thread's sums: of two lanes of each fragment, four units of every gate."""
        t, tile = self.t, self.tile
        t.let("place = across + member * U4", f"unit = {times('column', tile.units)} + place")
        t.let("at_bias = block + place")
        with t.block(f"if unit < {u(self.units)}"):
            for half in range(2 * tile.each):
                t.let(f"lane = lane0 + down + group + {u(8 * half)}")
                with t.block("if lane < lanes"):
                    first = [8 * tile.each * g + 4 * half for g in range(self.gates)]
                    names = [f"sums[{i + e}]" for i in first for e in range(VECTOR)]
                    t.add(epilogue_call("at_bias", names))
