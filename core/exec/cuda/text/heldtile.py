"""The text of a step whose weights the block holds: a tile of lanes by the units of the block's column.

All threads read the weights from shared memory, each those of its quad (four units of a gate) and of its
share of the elements; the lanes' rows go through shared memory in slabs. Then the shares' sums are added up.
A warp reads its weights of an element in one piece, without bank conflicts (see `hold`), and the lanes' four
elements from as many places as it has shares: both for `each` lanes, 4 * each multiply-adds an element.
"""

from __future__ import annotations

from dataclasses import dataclass

from abw.core.exec.cuda.ondevice.tilewalk import STAGING
from abw.core.exec.cuda.stationary_weights import HeldColumn
from abw.core.exec.cuda.steps import CellSteps, Segment, Step
from abw.core.exec.cuda.text.epilogue import epilogue_call, load_ahead
from abw.core.exec.cuda.text.rowwise import ZERO, block_of, frame_length, guarded, load_part, row_of
from abw.core.exec.cuda.text.text import Text, plus, times, u
from abw.core.exec.cuda.tiles import VECTOR, WARP, Sizes
from abw.core.exec.lower.rows import padded

# What a held step's function takes: what is laid ready, the tile's number, the memories.
HELD_SIGNATURE = "(staging, tile, floats, weights, shared)"

# Of a thread: so many lanes share the weights that it reads.
MOST_LANES = 8


@dataclass(frozen=True, slots=True)
class HeldTile:
    """`down` times a block's warps have `each` lanes; those of the same lanes share the elements."""

    each: int
    down: int

    @property
    def lanes(self) -> int:
        """Lanes of a tile."""
        return self.each * self.down


def held_tiles(column: HeldColumn, sizes: Sizes, most: int) -> tuple[tuple[HeldTile, int], ...]:
    """Tiles for few, some and many lanes, each with the most lanes that it is right for; of the last `most`.

    Few lanes are as many tiles as there are blocks to share them; many lanes are summed side by side.
    """
    down = min(2, sizes.threads // WARP)
    each = MOST_LANES
    while each > 1 and _shared(column, sizes, HeldTile(each, down)) > sizes.shared:
        each //= 2
    largest = HeldTile(each, down)
    tiles = dict.fromkeys((HeldTile(max(1, each // 2), 1), HeldTile(each, 1), largest))
    limits = {tile: sizes.blocks // column.columns * tile.lanes for tile in tiles}
    limits[largest] = max(most, limits[largest])
    return tuple(limits.items())


def held_text(cell: CellSteps, step: Step, column: HeldColumn, sizes: Sizes, tile: HeldTile) -> str:
    """The function of a held step; it calls `epilogue`, of `epilogue_text` with all laid ready."""
    return _HeldTile(cell, step, column, sizes, tile).text()


def staging_words(cell: CellSteps, tile: HeldTile) -> int:
    """The words of the staging buffer that a tile needs."""
    return STAGING + frame_length(cell) + len(cell.normal.cell.inputs) * tile.lanes


def _parts(column: HeldColumn, sizes: Sizes, tile: HeldTile) -> int:
    """How many sums of each lane and unit there are to add."""
    return sizes.threads // WARP // tile.down * column.split


def _pitch(column: HeldColumn, tile: HeldTile) -> int:
    """The floats from a part's sums to the next one's.

    A few more than they are: parts that a warp stores at once lie in other banks.
    """
    count = tile.lanes * column.quads
    return (count + (column.quads - count) % 8) * VECTOR


def _shared(column: HeldColumn, sizes: Sizes, tile: HeldTile) -> int:
    """The floats of shared memory that a tile needs at least: for the parts' sums, or for a round's rows."""
    one = HeldTile(tile.each, 1)
    parts = max(_parts(column, sizes, t) * _pitch(column, t) for t in (one, tile))
    return max(parts, tile.lanes * VECTOR * column.split)


class _HeldTile:
    def __init__(self, cell: CellSteps, step: Step, column: HeldColumn, sizes: Sizes, tile: HeldTile) -> None:
        self.cell, self.step, self.column, self.sizes, self.tile = cell, step, column, sizes, tile
        self.parts, self.pitch = _parts(column, sizes, tile), _pitch(column, tile)
        self.gates = len(column.weights.gates)
        most = sizes.shared // (tile.lanes * VECTOR * column.split)
        self.slab = min(column.rounds, most)
        self.t = Text()

    def text(self) -> str:
        t, tile, column = self.t, self.tile, self.column
        warps = self.sizes.threads // WARP
        with t.block(f"def step{HELD_SIGNATURE}"):
            t.let("thread = cuda.threadIdx.x", f"first = staging[{u(0)}]", f"held = staging[{u(1)}]")
            t.add("words = staging")
            t.let(f"frame = {u(STAGING)}", "lanes = words[frame]", f"lane0 = {times('tile', tile.lanes)}")
            t.let(f"place = thread % {u(WARP)}", f"share = place // {u(column.quads)}")
            t.let(f"warp = thread // {u(WARP)}", f"line0 = {times(f'warp % {u(tile.down)}', tile.each)}")
            t.let(f"part = warp // {u(tile.down)}")
            t.add(f"sums = cuda.local.array({tile.each * VECTOR}, float32)")
            t.add(f"near = cuda.local.array({tile.each * VECTOR}, float32)")
            with t.block(f"for i in range({tile.each * VECTOR})"):
                t.add(f"sums[i] = {ZERO}")
            slabs = [(r, min(r + self.slab, column.rounds)) for r in range(0, column.rounds, self.slab)]
            fetched = self._fetch(*slabs[0])
            kept = self._ahead()
            for number, (begin, end) in enumerate(slabs):
                if number:
                    t.add("cuda.syncthreads()  # the slab before is used up")
                self._store(fetched)
                t.add("cuda.syncthreads()  # this slab is there")
                if number + 1 < len(slabs):
                    fetched = self._fetch(*slabs[number + 1])
                self._multiply(begin, end, warps // tile.down)
            self._epilogue(kept)
        return str(t)

    def _ahead(self) -> list[str]:
        """Load what is added to sums and operated with, for the lane and units that will be the thread's."""
        t, column = self.t, self.column
        units = padded(column.weights.units, VECTOR)
        t.let(f"line = thread // {u(column.across)}", "lane = lane0 + line")
        t.let(f"beside = thread % {u(column.across)}")
        t.let(f"unit = cuda.blockIdx.x % {u(column.columns)} * {u(column.units)} + beside * {u(VECTOR)}")
        t.let(f"block = {block_of(column.weights, 'unit')}")
        self.mine = f"thread < {u(self.tile.lanes * column.across)} and lane < lanes and unit < {u(units)}"
        return load_ahead(t, self.cell, self.step, self.mine)

    def _fetch(self, begin: int, end: int) -> list[tuple[str, str | None, list[str]]]:
        """Load the lanes' elements of these rounds: of each vector its place in the slab, the condition under
        which it is one, and the names of its floats."""
        t, tile, split, threads = self.t, self.tile, self.column.split, self.sizes.threads
        first, last = begin * split, min(end * split, self.column.fours)
        pitch = (end - begin) * split
        loads: list[tuple[str, str | None, list[str]]] = []
        before = 0
        for segment in self.column.weights.segments:
            low, high = max(first, before), min(last, before + segment.length // VECTOR)
            fours = high - low
            for i in range(-(-tile.lanes * fours // threads) if fours > 0 else 0):
                line, four, names = t.name("line"), t.name("four"), [t.name("x") for _ in range(VECTOR)]
                t.let(f"{line} = {plus('thread', i * threads)}")
                condition = f"{line} < {u(tile.lanes)}" if (i + 1) * threads > tile.lanes * fours else None
                t.let(f"{four} = {line} % {u(fours)}", f"{line} = {line} // {u(fours)}")
                self._load(segment, line, plus(four, low - before), names, condition)
                loads.append((f"({line} * {u(pitch)} + {plus(four, low - first)})", condition, names))
            before += segment.length // VECTOR
        return loads

    def _load(self, segment: Segment, line: str, four: str, names: list[str], condition: str | None) -> None:
        """Four elements of a lane; lanes there are not read the last one's row, for nobody."""
        t = self.t
        with guarded(t, names, condition):
            lane, place = t.name("lane"), t.name("p")
            t.let(f"{lane} = lane0 + {line}", f"{lane} = {lane} if {lane} < lanes else lanes - {u(1)}")
            row = row_of(self.cell, segment.part.value, lane, line)
            t.let(f"{place} = {plus(row, segment.column)} + ({four}) * {u(VECTOR)}")
            load_part(t, segment, names, place, f"({four}) * {u(VECTOR)}")

    def _store(self, fetched: list[tuple[str, str | None, list[str]]]) -> None:
        for place, condition, names in fetched:
            with self.t.when(condition):
                self.t.add(f"st4(shared, {times(place, VECTOR)}, {', '.join(names)})")

    def _multiply(self, begin: int, end: int, warps: int) -> None:
        """A thread's share of the rounds `begin` to `end`."""
        t, tile, column = self.t, self.tile, self.column
        split, quads = column.split, column.quads
        pitch = (end - begin) * split * VECTOR
        conditions = [] if split * quads == WARP else [f"share < {u(split)}"]
        if end * split > column.fours:
            conditions.append(f"round * {u(split)} + share < {u(column.fours)}")
        with (
            t.count("round", plus("part", begin), u(end), u(warps)),
            t.when(" and ".join(conditions) or None),
        ):
            at = f"(round * {u(split)} + share - {u(begin * split)}) * {u(VECTOR)}"
            t.let(f"at_row = {times('line0', pitch)} + {at}")
            with t.block(f"for r in range({tile.each})"):
                t.add(f"x0, x1, x2, x3 = ld4(shared, at_row + uint32(r) * {u(pitch)})")
                t.add(*(f"near[{VECTOR} * r + {e}] = x{e}" for e in range(VECTOR)))
            t.let(f"at_weight = held + {times('round', column.round_floats)} + place * {u(VECTOR)}")
            with t.block(f"for k in range({VECTOR})"):
                t.add(f"m0, m1, m2, m3 = ld4(shared, at_weight + uint32(k) * {u(split * quads * VECTOR)})")
                with t.block(f"for r in range({tile.each})"):
                    t.add(f"x = near[{VECTOR} * r + k]")
                    t.add(*(f"sums[{VECTOR} * r + {e}] += x * m{e}" for e in range(VECTOR)))

    def _epilogue(self, kept: list[str]) -> None:
        """The parts' sums added, and what is done to a lane's of four units of all gates."""
        t, tile, column = self.t, self.tile, self.column
        quads, across = column.quads, column.across
        t.add("cuda.syncthreads()  # the last slab is used up")
        with t.when(None if column.split * quads == WARP else f"share < {u(column.split)}"):
            t.let(f"at = (part * {u(column.split)} + share) * {u(self.pitch)}")
            t.let(f"at = at + ({times('line0', quads)} + place % {u(quads)}) * {u(VECTOR)}")
            for r in range(tile.each):
                mine = ", ".join(f"sums[{VECTOR * r + e}]" for e in range(VECTOR))
                t.add(f"st4(shared, {plus('at', r * quads * VECTOR)}, {mine})")
        t.add("cuda.syncthreads()  # all parts' sums are there")
        with t.count("q", "thread", u(tile.lanes * quads * VECTOR), u(self.sizes.threads)):
            # four sums, since one would be a chain as long as there are parts
            chains = [f"s{e}" for e in range(min(VECTOR, self.parts))]
            t.add(*(f"{s} = shared[{plus('q', e * self.pitch)}]" for e, s in enumerate(chains)))
            whole = self.parts // VECTOR * VECTOR
            if whole > VECTOR:
                with t.block(f"for i in range(1, {whole // VECTOR})"):
                    t.let(f"at = q + uint32(i) * {u(VECTOR * self.pitch)}")
                    t.add(*(f"{s} += shared[{plus('at', e * self.pitch)}]" for e, s in enumerate(chains)))
            if self.parts > VECTOR:
                for e in range(self.parts - whole):
                    t.add(f"s{e} += shared[{plus('q', (whole + e) * self.pitch)}]")
            t.add(f"shared[q] = {' + '.join(chains)}")
        t.add("cuda.syncthreads()  # all sums are there")
        with t.block(f"if {self.mine}"):
            names: list[str] = []
            for g in range(self.gates):
                own = [t.name("s") for _ in range(VECTOR)]
                place = plus(f"line * {u(quads)} + beside", g * across)
                t.add(f"{', '.join(own)} = ld4(shared, ({place}) * {u(VECTOR)})")
                names += own
            t.add(epilogue_call("block", names + kept))
