"""Which weights the blocks of a plan's kernel hold in shared memory, and where.

Of a held step block b has the weights of column b % columns: a few units' of all gates, for the whole launch.
The blocks that have the same column share the lanes. (Persistent RNNs, Diamos et al., ICML 2016; for dynamic
networks VPPS, Khorasani et al., MICRO 2018.)

In shared memory the weights lie as warps read them. A quad is four units of a gate; the threads of a warp are
`split` times all quads of the column, and in a round multiply 4 * split elements. So do the weights lie:
round after round, in it element after element of each thread's four, then thread after thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from abw.core.exec.cuda.steps import CellSteps, Packed
from abw.core.exec.cuda.tiles import VECTOR, WARP, Sizes
from abw.core.exec.lower.rows import padded
from abw.core.ir.network import Network


@dataclass(frozen=True, slots=True)
class HeldColumn:
    """How a block's part of a step lies in shared memory: `across` vectors of units wide."""

    weights: Packed
    across: int

    @property
    def units(self) -> int:
        """Units of a column."""
        return self.across * VECTOR

    @property
    def columns(self) -> int:
        """Columns of the step."""
        return -(-padded(self.weights.units, VECTOR) // self.units)

    @property
    def quads(self) -> int:
        """Four units each, of all gates."""
        return len(self.weights.gates) * self.across

    @property
    def split(self) -> int:
        """How many groups of a warp's threads share the operands' elements."""
        return WARP // self.quads

    @property
    def fours(self) -> int:
        """Four elements each, of all operands, one behind the other."""
        return sum(segment.length for segment in self.weights.segments) // VECTOR

    @property
    def rounds(self) -> int:
        """So often does a warp multiply."""
        return -(-self.fours // self.split)

    @property
    def round_floats(self) -> int:
        """The weights of a round."""
        return VECTOR * self.split * self.quads * VECTOR

    @property
    def floats(self) -> int:
        """All weights of a column."""
        return self.rounds * self.round_floats

    @property
    def fits(self) -> bool:
        """Whether a warp has a thread for every quad, and every operand feeds all gates."""
        gates = len(self.weights.gates)
        return self.quads <= WARP and all(len(s.fed) == gates for s in self.weights.segments)


@dataclass(frozen=True, slots=True)
class Held:
    """A held step: of type `type`, its number there, and where in shared memory its column begins."""

    type: int
    step: int
    column: HeldColumn
    place: int


def choose_held(network: Network, cells: Sequence[CellSteps | None], sizes: Sizes) -> tuple[Held, ...]:
    """The steps whose weights stay on chip: of types that follow themselves, the largest first.

    Others run once or a few times a plan: to load their weights before would cost what it saves. Columns are
    two vectors wide, or one if more of the weights fit then.
    """
    wanted = [
        (t, s, step.weights)
        for t in sorted(recurrent(network))
        if (cell := cells[t]) is not None
        for s, step in enumerate(cell.steps)
        if step.weights is not None and not step.hoisted
    ]
    wanted.sort(key=lambda one: -one[2].floats)
    best: tuple[int, tuple[Held, ...]] = (0, ())
    for across in (2, 1):
        place, kept, found = sizes.shared, 0, []
        for t, s, weights in wanted:
            column = HeldColumn(weights, across)
            there = place + column.floats <= sizes.shared + sizes.held
            if column.fits and column.columns <= sizes.blocks and there:
                found.append(Held(t, s, column, place))
                place += column.floats
                kept += weights.floats
        if kept > best[0]:
            best = kept, tuple(found)
    return best[1]


def recurrent(network: Network) -> frozenset[int]:
    """The types whose nodes can come after others of the same type."""
    producers = [{p for slot in t.slots for p, _ in slot.producers} for t in network.types]
    loops = set()
    for start, direct in enumerate(producers):
        reached: set[int] = set()
        ahead = list(direct)
        while ahead:
            t = ahead.pop()
            if t not in reached:
                reached.add(t)
                ahead += producers[t]
        if start in reached:
            loops.add(start)
    return frozenset(loops)
