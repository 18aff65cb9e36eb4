"""Weights asked for before they are needed, where a cell's do not fit the second-level cache.

A block of the result's columns is computed for all rows of a tile, a few rows at a time: the first of them
would wait for the block's weights, the others find them in the second-level cache. So while these compute,
each asks for its part of the next block's weights, evenly over its products: asked for in a burst, or from
the loop that needs them, they only take the places of other loads.
"""

from __future__ import annotations

from dataclasses import dataclass

from abw.core.exec.cpu.llvm.emit import Function
from abw.core.exec.cpu.memory import LINE
from abw.core.exec.lower.packing import PackedWeights


@dataclass(frozen=True, slots=True)
class Ahead:
    """Turn t of a loop asks for the lines at `begin + t * step` and `apart` behind that, all in bytes."""

    begin: str
    step: str
    apart: str

    def ask(self, f: Function, turn: str) -> tuple[str, str]:
        """The two lines' addresses."""
        first = f.at(self.begin, f.i64("mul", turn, self.step))
        return first, f.at(first, self.apart)

    def after(self, f: Function, turns: int) -> Ahead:
        """What later turns ask for."""
        return Ahead(f.at(self.begin, f.i64("mul", self.step, turns)), self.step, self.apart)


def asked(f: Function, weights: PackedWeights, after: str, own: str, block: str, blocks: str) -> str:
    """The arguments `begin, step, apart` of block number `block` of `blocks` that a tile's rows are.

    `after` is the number of the columns whose weights come next, `own` the address of those in use. Many
    blocks ask for a line a turn, fewer for two; one alone, and those for which nothing is left, for the
    first of their own again.
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
