"""What `best` has picked in a mini-batch, compared with what it would pick by the reference's values."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.data.instances import Ints
from abw.core.data.vertices import INSTANCE, Columns
from abw.core.graph.growing.beam import continuations, log_shares, ranked
from abw.core.graph.growing.decide import Bools, Read, masked
from abw.core.graph.growing.picks import Picks
from abw.core.ir.growth import Decision

Totals = NDArray[np.float64]


def recheck_beam(
    decision: Decision, columns: Columns, read: Read, picks: Picks, unit: float
) -> tuple[Ints, int]:
    """The vertices at which picks are wrong, and how many came out otherwise but as well.

    `unit` is what a score may be wrong by. The r-th of those kept in a round must be as likely as the r-th
    best by the values read, within four units a step: two for each of both, one of them for the sum of the
    softmax. So must the best of those that have ended in the end. Raises ScoreError.
    """
    again = _Again(decision, columns, read, picks)
    apart = [again.round(at, now) for at, now in picks.rounds]
    apart.append((picks.best, again.last()))
    wrong = [pick[~(far <= 4 * unit * step)] for step, (pick, far) in enumerate(apart, 1)]
    close = sum(int((far > 0).sum()) for _, far in apart)
    return picks.vertex[np.concatenate(wrong)], close


class _Again:
    """A mini-batch's rounds once more: its own picks, with the log-probabilities of other values."""

    def __init__(self, decision: Decision, columns: Columns, read: Read, picks: Picks) -> None:
        self.decision, self.columns, self.read, self.picks = decision, columns, read, picks
        self.whose = columns[INSTANCE][picks.vertex]
        self.total = np.zeros(len(picks.vertex))
        self.kept = np.zeros(0, np.int32)

    def round(self, at: Ints, now: Ints) -> tuple[Ints, Totals]:
        """The picks kept, and by how much each is less likely than what should stand in its place."""
        instance, by = self.columns[INSTANCE][at], self.picks.by[at]
        before = np.where(by >= 0, np.append(self.total, 0.0)[by], 0.0)
        here = np.isin(self.whose[self.kept], instance)
        old = self.kept[here & self.picks.ended[self.kept]]
        new = now[~np.isin(now, old)]
        self._note(at, new, before)
        found = continuations(self.decision, self.columns, at, self.read, before)
        whose = np.concatenate([self.whose[old], instance[found.row]])
        total = np.concatenate([self.total[old], found.total])
        order, rank = ranked(whose, total, self.decision.width)
        best = np.full((int(whose.max()) + 1, self.decision.width), -np.inf)
        best[whose[order], rank] = total[order]
        own = self.whose[now]
        place = np.arange(len(now)) - np.searchsorted(own, own, side="left")
        apart = np.maximum(best[own, place] - self.total[now], 0.0)
        # where an ended hypothesis is the best, there is nothing behind it; else as many as there can be
        alone = np.isin(now, old) & (place == 0)
        many = (best > -np.inf).sum(axis=1)[own]
        apart[~alone & (place == 0) & (np.bincount(own)[own] < many)] = np.inf
        self.kept = np.concatenate([self.kept[~here], now])
        return now, apart

    def _note(self, at: Ints, new: Ints, before: Totals) -> None:
        """How likely new picks are by the values read; impossible ones are not at all."""
        row = np.full(self.columns.count, -1, np.int32)
        row[at] = np.arange(len(at))
        rows, number = row[self.picks.vertex[new]], self.picks.number[new]
        scores, may = masked(self.decision, self.columns, at, self.read)
        can = np.ones((len(at), 1), np.bool_) if may is None else may
        nothing: Bools = np.logical_not(can.any(axis=1))
        share = np.where(number >= 0, log_shares(scores, rows, number), 0.0)
        there = np.logical_and(rows >= 0, nothing[rows] == (number < 0))
        if may is not None:
            there = np.logical_and(there, (number < 0) | may[rows, number])
        self.total[new] = np.where(there, before[rows] + share, -np.inf)

    def last(self) -> Totals:
        """The total of the best hypothesis of each instance in the end."""
        picks = self.picks
        ended = self.kept[picks.ended[self.kept]]
        most = np.full(int(self.whose.max(initial=0)) + 1, -np.inf)
        np.maximum.at(most, self.whose[ended], self.total[ended])
        apart: Totals = np.maximum(most[self.whose[picks.best]] - self.total[picks.best], 0.0)
        return apart
