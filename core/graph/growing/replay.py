"""The rounds in which a finished mini-batch grew, found once more: growth by the decisions that were made."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from abw.core.data.instances import Instances, Ints
from abw.core.data.vertices import INSTANCE, Columns
from abw.core.graph.growing.beam import Picks
from abw.core.graph.growing.decide import Grower, ranks
from abw.core.graph.growing.round_graph import Ground
from abw.core.ir.growth import Decision


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


def replay(ground: Ground, first: int, last: int, finished: Instances, picks: Picks | None) -> Replayed:
    """Grow instances `first` to `last` (exclusive) of a ground as they have `finished`; nothing is computed.

    `picks`: what a decision `best` picked. Cost: some 50 us a clause and round, and linear in the vertices.
    """
    return _Replay(ground, first, last, finished, picks).whole()


class _Replay:
    def __init__(
        self, ground: Ground, first: int, last: int, finished: Instances, picks: Picks | None
    ) -> None:
        self.whose, self.finished, self.picks = ground.whose(first, last), finished, picks
        self.columns = ground.columns(first, last)
        self.grower = Grower(ground.sprouter.kinds, finished.schema.kinds, self.whose)
        starts = ground.instances.start
        self.roots = (starts[first:last] - starts[first]).astype(np.int32)
        self.filled = finished.start[:-1].copy()  # by instance, the number of its next vertex when finished
        self.place = np.full(int(finished.start[-1]), -1, np.int32)
        self.beams = iter(picks.rounds if picks else ())
        self.seen = np.zeros(len(picks.vertex) if picks else 0, np.bool_)

    def whole(self) -> Replayed:
        columns, given = self.columns, self.columns.count
        self._placed(0)
        now = self.grower.start(columns, self.roots)
        new = self._placed(given)
        round, rounds, cut = np.zeros(len(self.place), np.int32), 0, []
        while len(now):
            self.whose.lists.note(columns, now)
            rounds += 1
            round[self.place[new]] = rounds
            before, full = columns.count, self.grower.cut.copy()
            for _ in self.grower.round(columns, now, self._decided):
                pass
            cut += [[k, i, rounds] for k, i in np.argwhere(self.grower.cut & ~full).tolist()]
            now = new = self._placed(before)
        return Replayed(columns, self.place, round, rounds, np.array(cut, np.int32).reshape(-1, 3))

    def _placed(self, first: int) -> Ints:
        """The vertices from `first` on, whose places when finished are noted."""
        new = np.arange(first, self.columns.count, dtype=np.int32)
        whose = self.columns[INSTANCE][new]
        self.place[new] = self.filled[whose] + ranks(whose)
        self.filled += np.bincount(whose, minlength=len(self.filled))
        return new

    def _decided(self, decision: Decision, at: Ints) -> Ints | tuple[Ints, Ints]:
        if decision.how == "best":
            return self._next_picks()
        return self.finished.fields[decision.name][self.place[at]]

    def _next_picks(self) -> tuple[Ints, Ints]:
        """The vertices and numbers that the next comparison of hypotheses picked."""
        assert self.picks is not None
        _, kept = next(self.beams)
        new = kept[~self.seen[kept]]
        self.seen[new] = True
        number = np.full(len(self.place), -1, np.int32)
        number[self.place[: self.columns.count]] = np.arange(self.columns.count, dtype=np.int32)
        return number[self.picks.vertex[new]], self.picks.number[new]
