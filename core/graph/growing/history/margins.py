"""How clearly each decision was made: the score of what was chosen, and what came second with which."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.data.instances import Ints
from abw.core.data.vertices import Columns
from abw.core.graph.growing.beam import log_shares
from abw.core.graph.growing.decide import Read, Scores, masked, relative
from abw.core.graph.growing.history.picks import Picks
from abw.core.ir.growth import Decision

Floats = NDArray[np.float64]
# So many scores are looked at together.
PART = 1 << 20

# What became of a choice. Of `best`: its hypothesis was kept; ended there; is, in the end, the likeliest of
# its instance; or none of the vertex's continuations was kept, and the choice is the likeliest of these.
MADE, KEPT, ENDED, WON, DROPPED = range(5)


@dataclass(frozen=True, slots=True, eq=False)
class Margins:
    """Choices (m,): at a `vertex` the number `chosen` (-1: nothing was allowed) with its `score`.

    `second` is the best that was not chosen there, -1 if there was none (its score is then NaN); `fate` what
    became of it. A score is the number itself; of `sample` a probability; of `best` the logarithm of the
    hypothesis' probability up to there; of a threshold the number and, second, the limit.
    """

    vertex: Ints
    chosen: Ints
    score: Floats
    second: Ints
    second_score: Floats
    fate: Ints


def margins(decision: Decision, columns: Columns, at: Ints, read: Read, made: Ints) -> Margins:
    """Measure how clearly a decision chose `made` (m,) at vertices (m,). Raises ScoreError."""
    fate = np.full(len(at), MADE, np.int32)
    if decision.how == "chance":
        score = np.where(made == 1, decision.limit, 1 - decision.limit)
        return Margins(at, made, score, 1 - made, 1 - score, fate)
    if decision.how == "over":
        score = read(decision.type, decision.output, at).reshape(len(at)).astype(np.float64)
        return Margins(at, made, score, 1 - made, np.full(len(at), decision.limit), fate)
    score, second, second_score = (
        np.full(len(at), np.nan),
        np.full(len(at), -1, np.int32),
        np.full(len(at), np.nan),
    )
    for part, scores in _scores(decision, columns, at, read):
        if decision.how == "sample":
            closed = np.isneginf(scores)
            scores = np.exp(relative(scores))
            scores /= scores.sum(axis=1, keepdims=True)
            scores[closed] = -np.inf
        number = made[part]
        score[part] = np.where(number >= 0, _of(scores, number), np.nan)
        second[part], second_score[part] = _best_but(scores, np.arange(len(number)), number)
    return Margins(at, made, score, second, second_score, fate)


def beam_margins(decision: Decision, columns: Columns, at: Ints, read: Read, picks: Picks) -> Margins:
    """Measure how clearly `best` picked, also at the vertices `at` where it picked nothing.

    `columns` and `picks` number vertices alike.
    """
    row = np.full(len(picks.by), -1, np.int64)
    row[at] = np.arange(len(at))
    of = row[picks.vertex]
    before = np.where(picks.by[at] >= 0, np.append(picks.total, 0.0)[picks.by[at]], 0.0)
    other, other_score = np.full(len(at), -1, np.int32), np.full(len(at), np.nan)
    for part, scores in _scores(decision, columns, at, read):
        here = (of >= part.start) & (of < part.stop) & (picks.number >= 0)
        left = scores.copy()
        number, _ = _best_but(left, of[here] - part.start, picks.number[here])
        share = log_shares(scores, np.arange(len(scores), dtype=np.int32), np.maximum(number, 0))
        other[part] = number
        other_score[part] = np.where(number >= 0, before[part] + share, np.nan)
    fate = np.where(picks.ended, ENDED, KEPT).astype(np.int32)
    fate[picks.way] = WON
    none = np.setdiff1d(np.arange(len(at)), of)
    lost = Margins(
        at[none],
        other[none],
        np.where(other >= 0, other_score, before)[none],
        np.full(len(none), -1, np.int32),
        np.full(len(none), np.nan),
        np.full(len(none), DROPPED, np.int32),
    )
    found = Margins(
        picks.vertex, picks.number, picks.total, other[of], other_score[of], fate.astype(np.int32)
    )
    return together([found, lost])


def together(parts: list[Margins]) -> Margins:
    """Several as one; there may be none."""
    ints, floats = np.zeros(0, np.int32), np.zeros(0)
    parts = [Margins(ints, ints, floats, ints, floats, ints), *parts]
    return Margins(*(np.concatenate([getattr(p, name) for p in parts]) for name in Margins.__slots__))


def _scores(decision: Decision, columns: Columns, at: Ints, read: Read) -> Iterator[tuple[slice, Scores]]:
    """The scores at some of the vertices after the other; -inf where a choice is not allowed."""
    first, size = 0, 1
    while first < len(at):
        part = slice(first, min(len(at), first + size))
        scores, _ = masked(decision, columns, at[part], read)
        yield part, scores.astype(np.float64)
        first, size = part.stop, max(1, PART // scores.shape[1])


def _of(scores: Scores, number: Ints) -> Scores:
    found: Scores = scores[np.arange(len(number)), np.maximum(number, 0)]
    return found


def _best_but(scores: Scores, row: NDArray[np.integer], number: Ints) -> tuple[Ints, Scores]:
    """The best number of each row but for `number[i]` in `row[i]`, and its score; -1 and NaN for none.

    The scores are changed.
    """
    scores[row[number >= 0], number[number >= 0]] = -np.inf
    second = scores.argmax(axis=1).astype(np.int32)
    best = _of(scores, second)
    none = np.isneginf(best)
    return np.where(none, np.int32(-1), second), np.where(none, np.nan, best)
