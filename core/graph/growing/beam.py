"""Beam search: the best continuations of each instance's hypotheses, round after round.

All continuations of an instance's vertices that came to be in the same round are compared, and with them the
hypotheses that have ended; the `width` best are kept. A hypothesis ends where its pick adds no vertex of its
kind, or nothing is allowed. No continuation makes a log-probability larger: where the best of an instance has
ended, nothing can come before it, and the others are not continued either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.data.instances import Ints
from abw.core.data.vertices import INSTANCE, Columns, FieldColumn
from abw.core.graph.growing.decide import Added, Bools, Read, Scores, among, masked, relative
from abw.core.ir.growth import Decision, GrowingKind

Totals = NDArray[np.float64]
PICK = "pick"
"""The column of the pick by which a vertex came to be, or the one that it came from; -1 for none."""


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


def log_shares(scores: Scores, row: Ints, number: Ints) -> Totals:
    """The logarithm of the share of some of the scores (n, choices): the log softmax, in double precision.

    Of m of them: number `number` of row `row`.
    """
    shifted = relative(scores)
    chosen = shifted[row, number]
    whole = np.log(np.exp(shifted, out=shifted).sum(axis=1))
    found: Totals = chosen - whole[row]
    return found


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

    def pick(self, columns: Columns, at: Ints, read: Read) -> tuple[Ints, Ints, Ints]:
        """Compare the hypotheses at vertices of one round; the vertices, numbers and picks that go on.

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
        return at[found.row[new]], found.number[new], np.arange(first, first + len(new), dtype=np.int32)

    def follow(self, columns: Columns, kind: GrowingKind, picks: Ints, added: Sequence[Added]) -> None:
        """Note by which of n picks vertices came to be, and which hypotheses have ended.

        `added[i]` are those of the kind's clause i.
        """
        ends = np.full(len(picks), kind.best is not None)
        for clause, (rows, new) in zip(kind.clauses, added, strict=True):
            there = new >= 0
            columns[PICK][new[there]] = picks[rows[there]]
            if clause.adds == kind.name:
                ends[rows[there]] = False
        self._ended[picks[ends]] = True

    def close(self, columns: Columns, place: Ints) -> Picks:
        """Give vertices what the best hypotheses chose there; all that was picked.

        `place` says how vertices are numbered in what is returned.
        """
        made, ended = self._picks, self._kept[self._ended[self._kept]]
        order, _ = ranked(self._instance[ended], made.total[ended], 1)
        by = np.empty(columns.count, np.int32)
        by[place] = columns[PICK][: columns.count]
        rounds = tuple((place[at], kept) for at, kept in self._rounds)
        picks = Picks(place[made.row], made.number, made.total, self._ended, by, rounds, ended[order])
        columns[FieldColumn(self.decision.name)][: columns.count] = picks.chosen()[place]
        return picks
