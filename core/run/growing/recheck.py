"""The decisions of a mini-batch that has grown, made again from the reference executor's values."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.data.instances import Instances, Ints
from abw.core.data.vertices import INSTANCE, Columns
from abw.core.exec.interface import Array, Result
from abw.core.graph.growing.batch import GrowthData
from abw.core.graph.growing.beam import continuations, log_shares, ranked
from abw.core.graph.growing.decide import Bools, Chances, Read, ScoreError, allowed, decide, masked, shares
from abw.core.graph.growing.finished import nodes_on
from abw.core.graph.growing.history.picks import Picks
from abw.core.graph.growing.model import GrowthModel
from abw.core.ir.growth import Decision


@dataclass(frozen=True, slots=True)
class Rechecked:
    """How many decisions were made again, and how many of them came out otherwise, within the tolerance."""

    decisions: int
    close: int


def recheck(
    growth_model: GrowthModel,
    instances: Instances,
    expected: Result,
    tolerance: float,
    executor: str,
    picks: Picks | None = None,
) -> Rechecked:
    """Make all decisions of finished instances again from `expected`, the values of their graph.

    One may differ where both choices are as good within `tolerance` of the scores' root mean square, twice:
    once for each of the two. `picks`: what a decision `best` picked (`recheck_beam`). Errors: AbwError for
    one that differs by more.
    """
    growing = GrowthData(growth_model, instances)
    columns = growing.columns(0, len(instances))
    chances = Chances(growth_model.model.data.seed, instances.numbers)
    names = instances.schema.kinds
    total, close = 0, 0

    def read(t: int, output: int, vertices: Ints) -> Array:
        return expected.values(nodes_on(expected.nodes, t, vertices) * expected.nodes.network.width + output)

    for kind in growth_model.growth.kinds:
        numbers = [number for number, name in enumerate(names) if name in kind.kinds]
        at = np.flatnonzero(np.isin(instances.kind, numbers)).astype(np.int32)
        for decision in kind.decisions if len(at) else ():
            made = instances.fields[decision.name][at]
            try:
                if decision.how == "best":
                    assert picks is not None
                    unit = tolerance * _scale(read(decision.type, decision.output, at))
                    wrong, others = recheck_beam(decision, columns, read, picks, unit)
                    wrong = np.concatenate([wrong, at[made != picks.chosen()[at]]])
                    if len(wrong):
                        raise AbwError(_wrong(executor, decision, instances, int(wrong[0])), hint=_HINT)
                    total, close = total + len(picks.vertex), close + others
                    continue
                again = decide(decision, columns, at, read, chances)
            except ScoreError:
                raise AbwError(_wrong(executor, decision, instances, int(at[0])), hint=_HINT) from None
            other = made != again
            total += len(at)
            close += int(other.sum())
            if not other.any():
                continue
            here = at[other]
            apart = _apart(decision, columns, here, read, chances, made[other], again[other])
            scores = read(decision.type, decision.output, at)
            scale = _scale(scores)
            if decision.how == "sample":
                scale = max(scale, 1.0)
            far = ~(apart <= 2 * tolerance * scale)
            if far.any():
                vertex = int(here[np.argmax(far)])
                raise AbwError(_wrong(executor, decision, instances, vertex), hint=_HINT)
    return Rechecked(total, close)


_HINT = "this is a defect of abw, not of your model: please report it with the spec and the data"


def _wrong(executor: str, decision: Decision, instances: Instances, vertex: int) -> str:
    number = int(np.searchsorted(instances.start, vertex, side="right")) - 1
    return (
        f"executor '{executor}' is wrong: decision '{decision.name}' of instance "
        f"{int(instances.numbers[number])} ({instances.source}:{int(instances.lines[number])}) "
        "is not the reference's"
    )


def _scale(scores: Array) -> float:
    """The root mean square of the scores that are finite; 1 where there are none, or all are 0."""
    finite = scores[np.isfinite(scores)]
    return float(np.sqrt(np.mean(np.square(finite)))) if finite.any() else 1.0


def _apart(
    decision: Decision,
    columns: Columns,
    at: Ints,
    read: Read,
    chances: Chances,
    made: Ints,
    again: Ints,
) -> NDArray[np.float64]:
    """By how much two choices differ at each vertex, in the scores' unit; infinite where one cannot be."""
    if decision.how == "chance":
        return np.full(len(at), np.inf)
    scores = np.asarray(read(decision.type, decision.output, at), np.float64).reshape(len(at), -1)
    row = np.arange(len(at))
    if decision.how == "over":
        return np.abs(scores[:, 0] - decision.limit)
    may = allowed(decision, columns, at)
    if may is not None:
        scores = np.where(may, scores, -np.inf)
    if decision.how == "argmax":
        with np.errstate(invalid="ignore"):
            found = np.abs(scores[row, made] - scores[row, again])
    else:  # the chance lies between the ends of shares that are next to each other
        ends, drawn = shares(scores), chances.drawn(decision, columns, at)
        found = np.abs(ends[row, np.minimum(made, again)] - drawn)
        between = np.maximum(made, again) - np.minimum(made, again)
        found = np.where(
            between >= 1, np.maximum(found, np.abs(ends[row, np.maximum(made, again) - 1] - drawn)), found
        )
    return np.where((made >= 0) & (again >= 0) & ~np.isnan(found), found, np.inf)


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
