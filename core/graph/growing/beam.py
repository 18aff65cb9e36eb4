"""Beam search: the best continuations of each instance's hypotheses, round after round.

All continuations of an instance's vertices that came to be in the same round are compared, and with them the
hypotheses that have ended; the `width` best are kept. A hypothesis ends where its pick adds no vertex of its
kind, or nothing is allowed. No continuation makes a log-probability larger: where the best of an instance has
ended, nothing can come before it, and the others are not continued either.

Rounds that are compiled do the same (`abw.core.exec.cpu.rounds.beams`), step by step and bit by bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.data.instances import Ints
from abw.core.data.vertices import INSTANCE, Columns, FieldColumn, Order
from abw.core.graph.growing.decide import Added, Bools, Read, Scores, among, masked, relative
from abw.core.ir.growth import Decision, GrowingKind

Totals = NDArray[np.float64]
Places = NDArray[np.integer[Any]]
# The column of the pick by which a vertex came to be, or the one that it came from; -1 for none.
PICK = "pick"

LEAST, LOG2_E, NEAREST = -40.0, 1 / math.log(2), 1.5 * 2.0**52
POWERS = tuple(math.log(2) ** i / math.factorial(i) for i in range(8))
# How `exponentials` are found: the least number that counts, what makes powers of 2 of those of e, what
# leaves the nearest whole number in the last bits of a sum, the coefficients of a power of 2 as a polynomial;
# what is counted, and what leaves the number of these in the last bits of a sum.
UNIT, IN_UNITS = 2.0**-40, 1.5 * 2.0**12
_AT_ONCE = 1 << 14


@dataclass(frozen=True, slots=True)
class Candidates:
    """Continuations (n,): at which of some vertices, with which number (-1: it ends there), and how likely.

    Of each vertex the likeliest, which come first.
    """

    row: Ints
    number: Ints
    total: Totals


@dataclass(frozen=True, slots=True)
class Picks:
    """What was picked in a mini-batch, n times: at a `vertex` the `number` (-1: it ended there), by which the
    hypothesis has the log-probability `total`.

    `ended` (n,): whether it added no vertex of its kind. `by` (vertices,): the pick by which each came to be,
    or the one that it came from, -1 for none. `rounds`: of each the vertices compared,
    and the picks kept, also earlier ones that have ended: instance by instance, the best first. `best`: by
    instance the pick with which its best hypothesis ends.
    """

    vertex: Ints
    number: Ints
    total: Totals
    ended: Bools
    by: Ints
    rounds: tuple[tuple[Ints, Ints], ...]
    best: Ints

    def chosen(self) -> Ints:
        """What the best hypotheses chose at each vertex (vertices,); -1 where none comes by, or none did."""
        found = np.full(len(self.by), -1, np.int32)
        way = self.best
        while len(way):
            found[self.vertex[way]] = self.number[way]
            way = self.by[self.vertex[way]]
            way = way[way >= 0]
        return found


def log_shares(scores: Scores, row: Places, number: Places) -> Totals:
    """The logarithm of the share of some of the scores (n, choices): the log softmax, in double precision.

    Of m of them: number `number` of row `row`. Equal rows, in whatever order, have equal sums. In whole UNITs
    down to -2048, so that what hypotheses add up is exact, and as likely in whatever order it was chosen.
    """
    shifted = relative(scores)
    found: Totals = (shifted[row, number] - _wholes(shifted)[row] + IN_UNITS) - IN_UNITS
    return found


def log_softmax(scores: Scores) -> Totals:
    """The same of all of the scores (n, choices)."""
    shifted = relative(scores)
    found: Totals = (shifted - _wholes(shifted)[:, None] + IN_UNITS) - IN_UNITS
    return found


def _wholes(shifted: Totals) -> Totals:
    """The logarithms of the sums (n,) of exponentials of scores less the largest of their row."""
    rows = max(1, _AT_ONCE // max(1, shifted.shape[1]))  # what they take on the way stays in the cache
    parts = [exponentials(shifted[i : i + rows]).sum(axis=1) for i in range(0, len(shifted), rows)]
    sums = np.concatenate([np.zeros(0, np.int64), *parts]).astype(np.float64) * UNIT
    return np.array([math.log(total) for total in sums.tolist()])  # as compiled code does, to the bit


def exponentials(x: Totals) -> NDArray[np.int64]:
    """exp(x) of numbers of 0 or less, as the nearest whole number of UNITs: to 5e-9, exact at 0.

    By sums and products alone, each rounded, so that whoever does them has the same; whole numbers, so that
    they add up to the same in whatever order.
    """
    turned = np.maximum(x, LEAST)
    turned *= LOG2_E
    nearest = turned + NEAREST
    turned -= nearest - NEAREST
    power = np.full_like(turned, POWERS[-1])
    for coefficient in POWERS[-2::-1]:
        power *= turned
        power += coefficient
    scaled = (power.view(np.int64) + (nearest.view(np.int64) << 52)).view(np.float64)
    return (scaled + IN_UNITS).view(np.int64) - np.float64(IN_UNITS).view(np.int64)


def continuations(decision: Decision, columns: Columns, at: Ints, read: Read, before: Totals) -> Candidates:
    """The `width` best of each vertex, whose hypotheses are as likely as `before` (n,); of equals the first.

    What has no share at all is none, unless all have none: then the first. Raises ScoreError. Cost: `width`
    passes over the scores.
    """
    scores, may = masked(decision, columns, at, read)
    row = np.arange(len(at))
    possible = np.ones(len(at), np.bool_) if may is None else may.any(axis=1)
    left = scores.copy()
    numbers, there = [], []
    for n in range(min(decision.width, scores.shape[1])):
        chosen = left.argmax(axis=1)
        some = left[row, chosen] > -np.inf
        if n == 0:
            if may is not None:
                chosen = among(chosen, left, may)
            some = np.ones(len(at), np.bool_)  # where nothing is possible, it ends
        left[row, chosen] = -np.inf
        numbers.append(np.where(possible, chosen, -1))
        there.append(some & (possible if n else True))
    inside = np.stack(there, axis=1)
    number = np.stack(numbers, axis=1)[inside].astype(np.int32)
    rows = np.repeat(row, inside.sum(axis=1)).astype(np.int32)
    total = before[rows] + np.where(number >= 0, log_shares(scores, rows, number), 0.0)
    return Candidates(rows, number, total)


def ranked(instance: Ints, total: Totals, width: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The `width` best of each instance, of equals the first, and the rank of each: instance by instance."""
    order = np.lexsort((-total, instance))
    ordered = instance[order]
    rank = np.arange(len(order)) - np.searchsorted(ordered, ordered, side="left")
    return order[rank < width], rank[rank < width]


class Beam:
    """The hypotheses of a mini-batch under way."""

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self._picks = Candidates(np.zeros(0, np.int32), np.zeros(0, np.int32), np.zeros(0))
        self._instance = np.zeros(0, np.int32)
        self._ended = np.zeros(0, np.bool_)
        self._kept = np.zeros(0, np.int32)
        self._rounds: list[tuple[Ints, Ints]] = []

    def pick(self, columns: Columns, at: Ints, read: Read) -> tuple[Ints, Ints]:
        """Compare the hypotheses at vertices of one round; the vertices and numbers of the picks that go on.

        Raises ScoreError.
        """
        by, instance = columns[PICK][at], columns[INSTANCE][at]
        before = np.where(by >= 0, np.append(self._picks.total, 0.0)[by], 0.0)
        found = continuations(self.decision, columns, at, read, before)
        here = np.isin(self._instance[self._kept], instance)
        ended, others = self._kept[here & self._ended[self._kept]], self._kept[~here]
        old = len(ended)
        whose = np.concatenate([self._instance[ended], instance[found.row]])
        total = np.concatenate([self._picks.total[ended], found.total])
        order, rank = ranked(whose, total, self.decision.width)
        over = whose[order[(rank == 0) & (order < old)]]
        order = order[(rank == 0) | ~np.isin(whose[order], over)]
        new = order[order >= old]
        first = len(self._picks.row)
        numbers = np.empty(len(order), np.int32)
        numbers[order >= old] = np.arange(first, first + len(new))
        numbers[order < old] = ended[order[order < old]]
        self._rounds.append((at, numbers))
        new -= old
        self._picks = Candidates(
            np.concatenate([self._picks.row, at[found.row[new]]]),
            np.concatenate([self._picks.number, found.number[new]]),
            np.concatenate([self._picks.total, found.total[new]]),
        )
        self._instance = np.concatenate([self._instance, instance[found.row[new]]])
        self._ended = np.append(self._ended, np.zeros(len(new), np.bool_))
        self._kept = np.concatenate([others, numbers])
        return at[found.row[new]], found.number[new]

    def follow(self, columns: Columns, kind: GrowingKind, at: Ints, added: Sequence[Added]) -> None:
        """Note by which picks vertices came to be, and which hypotheses have ended.

        `added[i]` are those of the kind's clause i, `at` where it was done: for the kind that picks, at its
        last picks.
        """
        count = len(self._picks.row)
        picks = np.arange(count - len(at), count) if kind.best else columns[PICK][at]
        ends = np.full(len(picks), kind.best is not None)
        for clause, (rows, new) in zip(kind.clauses, added, strict=True):
            there = new >= 0
            columns[PICK][new[there]] = picks[rows[there]]
            if clause.adds == kind.name:
                ends[rows[there]] = False
        self._ended[picks[ends]] = True

    def take(
        self,
        columns: Columns,
        made: Candidates,
        ended: Bools,
        kept: Ints,
        rounds: list[tuple[Ints, Ints]],
    ) -> None:
        """All at once, what `pick` and `follow` note round after round; `made.row` are vertices."""
        self._picks, self._ended, self._kept, self._rounds = made, ended, kept, rounds
        self._instance = columns[INSTANCE][made.row]

    def close(self, columns: Columns, finished: Order) -> Picks:
        """Give vertices what the best hypotheses chose there; all that was picked.

        In what is returned vertices are numbered as `finished` says.
        """
        made, ended = self._picks, self._kept[self._ended[self._kept]]
        order, _ = ranked(self._instance[ended], made.total[ended], 1)
        by, place = columns[PICK][finished.vertex], finished.place
        rounds = tuple((place[at], kept) for at, kept in self._rounds)
        picks = Picks(place[made.row], made.number, made.total, self._ended, by, rounds, ended[order])
        columns[FieldColumn(self.decision.name)][finished.vertex] = picks.chosen()
        return picks
