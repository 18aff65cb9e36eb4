"""What rounds take at least: products at the core's peak, or weights at the memory's bandwidth."""

from __future__ import annotations

from collections.abc import Sequence

from abw.bench.growth.growing import Growing
from abw.bench.rates import read_seconds
from abw.core.exec.cpu.profile.profile import peak_of_core


def at_least(growing: Growing, rows: Sequence[int]) -> float:
    """Seconds of rounds of so many vertices, each with a node of all types, all weights read once a round.

    The longer of the two counts in each round. Peak and bandwidth are the best that this core reaches now.
    Cost: some ms, to measure them.
    """
    flops, weights = growing.round_work()
    peak, read = peak_of_core(), read_seconds(weights)
    return sum(max(count * flops / peak, read) for count in rows)


def live(lengths: Sequence[int]) -> list[int]:
    """How many sentences of these lengths still go on in each round."""
    return [sum(length > done for length in lengths) for done in range(max(lengths))]
