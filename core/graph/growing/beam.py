"""Beam search: the best continuations of each instance's hypotheses, round after round.

All continuations of an instance's vertices that came to be in the same round are compared, and with them the
hypotheses that have ended; the `width` best are kept. A hypothesis ends where its pick adds no vertex of its
kind, or nothing is allowed. No continuation makes a log-probability larger: where the best of an instance has
ended, nothing can come before it, and the others are not continued either.

Here in NumPy, for `--verify` and programs; rounds do it in compiled code (`choices.py`), to the same bits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.data.instances import Ints
from abw.core.data.vertices import Columns
from abw.core.graph.growing.choices import IN_UNITS, LEAST, LOG2_E, NEAREST, POWERS, UNIT
from abw.core.graph.growing.decide import Read, Scores, among, masked, relative
from abw.core.ir.growth import Decision

Totals = NDArray[np.float64]
Places = NDArray[np.integer[Any]]
# So many scores are worked on together.
_AT_ONCE = 1 << 14


@dataclass(frozen=True, slots=True)
class Candidates:
    """Continuations (n,): at which of some vertices, with which number (-1: it ends there), and how likely.

    Of each vertex the likeliest, which come first.
    """

    row: Ints
    number: Ints
    total: Totals


def log_shares(scores: Scores, row: Places, number: Places) -> Totals:
    """The logarithm of the share of some of the scores (n, choices): the log softmax, in double precision.

    Of m of them: number `number` of row `row`. Equal rows, in whatever order, have equal sums. In whole UNITs
    down to -2048, so that what hypotheses add up is exact, and as likely in whatever order it was chosen.
    """
    shifted = relative(scores)
    found: Totals = (shifted[row, number] - _wholes(shifted)[row] + IN_UNITS) - IN_UNITS
    return found


def log_softmax(scores: Scores) -> Totals:
    """Log-softmax of all scores (n, choices), in units that add exactly."""
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
