"""Products of rows with packed weights, summed in registers: the inner loop, and blocks of rows.

Where a cell's weights do not fit the second-level cache they are prefetched. A block of the result's columns
is computed for all rows of a tile, a few rows at a time: the first of them would wait for the block's
weights, the others find them in the second-level cache. So while these compute, each prefetches its part of
the next block's weights, evenly over its products: prefetched in a burst, or from the loop that needs them,
they only take the places of other loads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from abw.core.exec.cpu.llvm.emit import Function, Module
from abw.core.exec.cpu.tiling import StageLayout
from abw.core.exec.lower.packing import PackedWeights
from abw.core.exec.lower.stages import Part
from abw.core.exec.memory import LINE

# The sums of each row, before or after products are added.
Sums = Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Prefetch:
    """Turn t of a loop prefetches the lines at `begin + t * step` and `apart` behind that, all in bytes."""

    begin: str
    step: str
    apart: str

    def lines(self, f: Function, turn: str) -> tuple[str, str]:
        """The two lines' addresses."""
        first = f.at(self.begin, f.i64("mul", turn, self.step))
        return first, f.at(first, self.apart)

    def after(self, f: Function, turns: int) -> Prefetch:
        """The prefetches of later turns."""
        return Prefetch(f.at(self.begin, f.i64("mul", self.step, turns)), self.step, self.apart)


def prefetch_arguments(
    f: Function, weights: PackedWeights, after: str, own: str, block: str, blocks: str
) -> str:
    """The arguments `begin, step, apart` of block number `block` of `blocks` that a tile's rows are.

    `after` is the number of the columns whose weights come next, `own` the address of those in use. Many
    blocks prefetch a line a turn, fewer two; one alone, and those for which nothing is left, the first of
    their own again.
    """
    lines = -(-4 * weights.block_floats // LINE)
    turns = max(1, sum(weights.turns(part) for part, _ in weights.group.segments))
    many, few = -(-lines // turns), -(-lines // (2 * turns))
    slowly = f.let(f"icmp sge i64 {blocks}, {many}")
    apart = f.let(f"select i1 {slowly}, i64 0, i64 {LINE}")
    step = f.i64("add", apart, LINE)
    needed = f.let(f"select i1 {slowly}, i64 {many}, i64 {few}")
    some = f.let(f"icmp slt i64 {block}, {needed}")
    wanted = f.let(f"and i1 {some}, {f.let(f'icmp sgt i64 {blocks}, 1')}")
    start = f.i64("add", f.i64("mul", after, 4 * weights.block_floats), 4 * weights.offset)
    start = f.i64("add", start, f.i64("mul", f.i64("mul", block, step), turns))
    begin = f.let(f"select i1 {wanted}, ptr {f.at('%constants', start)}, ptr {own}")
    return f", ptr {begin}, i64 {f.let(f'select i1 {wanted}, i64 {step}, i64 0')}, i64 {apart}"


def contract(
    f: Function,
    sums: Sequence[Sequence[str]],
    rows: Sequence[str],
    weights: str,
    step: int,
    count: int,
    ahead: Prefetch | None = None,
) -> list[list[str]]:
    """`sums[r][v] += rows[r][k] * weights[k][v]` for `count` k; the new sums, all in registers.

    `rows` are addresses of floats, `weights` that of vectors side by side, `step` bytes from k to k + 1. With
    `ahead` each turn takes two k, one after the other as without.
    """
    width = len(sums[0])

    def add(place: str, operands: Sequence[str], values: list[str]) -> list[str]:
        columns = [f.load(place, 4 * f.target.lanes * v) for v in range(width)]
        return [
            f.fma(operand, column, values[r * width + v])
            for r, operand in enumerate(map(f.spread, operands))
            for v, column in enumerate(columns)
        ]

    def one(k: str, values: list[str]) -> list[str]:
        return add(f.at(weights, f.i64("mul", k, step)), [f.item("float", row, k) for row in rows], values)

    def two(turn: str, values: list[str]) -> list[str]:
        assert ahead
        place, k = f.at(weights, f.i64("mul", turn, 2 * step)), f.i64("shl", turn, 1)
        lines = ahead.lines(f, turn)
        pairs = [f.let(f"getelementptr float, ptr {row}, i64 {k}") for row in rows]
        for half in range(2):
            operands = [f.item("float", pair, half) for pair in pairs]
            values = add(f.at(place, step * half), operands, values)
            f.prefetch(lines[half])
        return values

    flat = [(f.target.vector, value) for row in sums for value in row]
    if ahead is None:
        result = f.loop(count, one, flat)
    else:
        result = f.loop(count // 2, two, flat) if count > 1 else [value for _, value in flat]
        result = one(str(count - 1), result) if count % 2 else result
    return [result[r * width : (r + 1) * width] for r in range(len(rows))]


# Writes the products of a part with its weights, which lie that many bytes into `%weights`: the new sums.
Added = Callable[[Function, Part, Sums, int, Prefetch | None], Sums]


def emit_block(
    module: Module,
    name: str,
    operands: str,
    stage: StageLayout,
    weights: PackedWeights,
    rows: int,
    added: Added,
) -> None:
    """Write the sums of a group's gates for `rows` rows and one block of the result.

    `operands`: the parameters that say where the rows lie.
    """
    ahead = Prefetch("%ahead", "%step", "%apart") if stage.streamed else None
    more = ", ptr %ahead, i64 %step, i64 %apart" if ahead else ""
    f = Function(module, name, f"ptr %weights, {operands}, ptr %sums{more}")
    bytes_of_vector = 4 * module.target.lanes
    vectors = len(weights.group.gates) * stage.units
    bias = [f.load("%weights", bytes_of_vector * v) for v in range(vectors)]
    sums = [list(bias) for _ in range(rows)]
    at = bytes_of_vector * vectors
    for part, fed in weights.group.segments:
        places = [number * stage.units + unit for number in fed for unit in range(stage.units)]
        found = added(f, part, [[row[p] for p in places] for row in sums], at, ahead)
        ahead = ahead and ahead.after(f, weights.turns(part))
        for row, values in zip(sums, found, strict=True):
            for p, value in zip(places, values, strict=True):
                row[p] = value
        at += bytes_of_vector * len(places) * weights.depth(part)
    # the sums of all groups lie side by side
    pitch = bytes_of_vector * stage.sums
    for r, row in enumerate(sums):
        for v, value in enumerate(row):
            f.store(value, "%sums", pitch * r + bytes_of_vector * v)
    module.add(f)
