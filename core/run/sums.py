"""What a run counts, over its mini-batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

from abw.core.plan.counts import Counts
from abw.core.run.footprint import Footprint
from abw.core.run.growing.grow import Grown

COMPARED = ("depth", "agenda")
"""The policies that a run's summary stands beside its own."""
KEPT = 32
"""Of so many mini-batches a run keeps graph and schedule, and compares policies on them."""


@dataclass(slots=True)
class Executed:
    """What the executor took, as `Counts`; and what it did not take that one would which wants every operand
    contiguous.
    """

    launches: int = 0
    memory_kernels: int = 0
    bytes_moved: int = 0
    memory_kernels_avoided: int = 0
    bytes_avoided: int = 0

    def add(self, taken: Counts) -> None:
        """Count a mini-batch."""
        self.launches += taken.launches
        self.memory_kernels += taken.memory_kernels
        self.bytes_moved += taken.bytes_moved

    def avoid(self, taken: Counts, contiguous: Counts) -> None:
        """Count what a mini-batch did not take, by the counts of its plan."""
        self.memory_kernels_avoided += contiguous.memory_kernels - taken.memory_kernels
        self.bytes_avoided += contiguous.bytes_moved - taken.bytes_moved


@dataclass(slots=True)
class Kept:
    """On the mini-batches kept: the run's own batches, the lower bound, the batches of other policies."""

    batches: int = 0
    lower_bound: int = 0
    compared: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COMPARED, 0))


@dataclass(slots=True)
class Growth:
    """Of instances that grow: rounds of all mini-batches, and why Python drove them, if it did; vertices that
    came to be by kind, instances that had `most` of a kind and wanted more; decisions made again by `verify`,
    and those that differed within the tolerance.
    """

    rounds: int = 0
    driven: str | None = None
    vertices: Counter[str] = field(default_factory=Counter)
    cut: Counter[str] = field(default_factory=Counter)
    decisions: int = 0
    close: int = 0

    def add(self, grown: Grown, kinds: Collection[str]) -> None:
        """Count a mini-batch whose `kinds` grew."""
        self.rounds += grown.rounds
        self.driven = self.driven or grown.driven
        self.cut.update(grown.cut)
        self.vertices.update({kind: grown.vertices.get(kind, 0) for kind in kinds})


@dataclass(slots=True)
class Sums:
    """What a run counts, over its mini-batches.

    `needed`: the memory of the mini-batch that takes most. `whole`: mini-batches whose graph was looked at
    as a whole, for its lower bound and what was avoided: all, but of those that grow only the ones kept.
    `not_finite`: values of the outputs that are none, or infinite. `abreast`: so many mini-batches ran at
    once, if several did; what was looked at in them afterwards is not in `seconds`.
    """

    seconds: float = 0.0
    instances: int = 0
    skipped: int = 0
    complaints: list[str] = field(default_factory=list)
    mini_batches: int = 0
    whole: int = 0
    in_pieces: int = 0
    nodes: int = 0
    batches: int = 0
    lower_bound: int = 0
    executed: Executed = field(default_factory=Executed)
    of_kept: Kept = field(default_factory=Kept)
    unseen_states: int = 0
    max_error: float = 0.0
    needed: Footprint | None = None
    not_finite: int = 0
    abreast: int = 0
    grown: Growth = field(default_factory=Growth)

    def keeps(self, number: int) -> bool:
        """Whether the mini-batch of this number is kept."""
        return number < KEPT

    @property
    def kept(self) -> int:
        """How many mini-batches are kept."""
        return min(self.mini_batches, KEPT)
