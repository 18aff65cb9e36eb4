"""The rounds in which a finished mini-batch grew, found once more: growth by the decisions that were made."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abw.core.data.instances import Instances, Ints
from abw.core.data.vertices import INSTANCE, Columns, FieldColumn
from abw.core.graph.growing.batch import Batch, GrowthData
from abw.core.graph.growing.picks import Picks
from abw.core.graph.growing.rounds import Rounds


@dataclass(frozen=True, slots=True, eq=False)
class Replayed:
    """A mini-batch grown again: its `columns`, whose vertex i is number `place[i]` of the finished one (V,).

    `round` (V,), in the finished one's order: when each came to be, 0 for what is given. `cut` (C, 3): kind,
    instance and round, wherever an instance had `most` of a kind for the first time and wanted more.
    """

    columns: Columns
    place: Ints
    round: Ints
    rounds: int
    cut: Ints


def replay(growing: GrowthData, first: int, last: int, finished: Instances, picks: Picks | None) -> Replayed:
    """Grow instances `first` to `last` (exclusive) of some as they have `finished`; nothing is computed.

    `picks`: what a decision `best` picked. Cost: some 50 us a clause and round, and linear in the vertices.
    """
    return _Replay(growing, first, last, finished, picks).whole()


class _Replay:
    def __init__(
        self, growing: GrowthData, first: int, last: int, finished: Instances, picks: Picks | None
    ) -> None:
        self.batch, self.finished, self.picks = Batch(growing, first, last), finished, picks
        self.columns = self.batch.columns
        self.filled = finished.start[:-1].copy()  # by instance, the number of its next vertex when finished
        self.place = np.full(int(finished.start[-1]), -1, np.int32)
        self.beams = iter(picks.rounds if picks else ())
        self.seen = np.zeros(len(picks.vertex) if picks else 0, np.bool_)

    def whole(self) -> Replayed:
        columns, growth = self.columns, self.batch.model.growth
        self._placed(0)
        rounds, cut = Rounds(self.batch), []
        new = self._placed(self.batch.given)
        round = np.zeros(len(self.place), np.int32)
        while rounds.open():
            round[self.place[new]] = rounds.count
            before, full = columns.count, self.batch.cut.copy()
            for kind in growth.kinds:
                for decision in kind.decisions:
                    at = rounds.vertices(decision)
                    if decision.how == "best":
                        rounds.pick(*self._next_picks() if len(at) else (at, at))
                    else:
                        columns[FieldColumn(decision.name)][at] = self.finished.fields[decision.name][
                            self.place[at]
                        ]
            rounds.grow()
            cut += [[k, i, rounds.count] for k, i in np.argwhere(self.batch.cut & ~full).tolist()]
            new = self._placed(before)
        return Replayed(columns, self.place, round, rounds.count, np.array(cut, np.int32).reshape(-1, 3))

    def _placed(self, first: int) -> Ints:
        """The vertices from `first` on, whose places when finished are noted."""
        new = np.arange(first, self.columns.count, dtype=np.int32)
        whose = self.columns[INSTANCE][new]
        order = np.argsort(whose, kind="stable")
        starts = np.searchsorted(whose[order], whose[order])
        self.place[new[order]] = self.filled[whose[order]] + np.arange(len(new)) - starts
        self.filled += np.bincount(whose, minlength=len(self.filled))
        return new

    def _next_picks(self) -> tuple[Ints, Ints]:
        """The vertices and numbers that the next comparison of hypotheses picked."""
        assert self.picks is not None
        _, kept = next(self.beams)
        new = kept[~self.seen[kept]]
        self.seen[new] = True
        number = np.full(len(self.place), -1, np.int32)
        number[self.place[: self.columns.count]] = np.arange(self.columns.count, dtype=np.int32)
        return number[self.picks.vertex[new]], self.picks.number[new]
