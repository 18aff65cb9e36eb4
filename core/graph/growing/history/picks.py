"""What beams have picked in a mini-batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.data.instances import Ints
from abw.core.data.vertices import INSTANCE, FieldColumn, Order
from abw.core.graph.growing import state as at
from abw.core.graph.growing.batch import Batch
from abw.core.graph.growing.names import PICK, ROUND
from abw.core.graph.growing.share import Share

Totals = NDArray[np.float64]


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
    ended: NDArray[np.bool_]
    by: Ints
    rounds: tuple[tuple[Ints, Ints], ...]
    best: Ints

    @property
    def way(self) -> Ints:
        """The picks of the best hypotheses, from their ends back."""
        found, way = [np.zeros(0, np.int32)], self.best
        while len(way):
            found.append(way)
            way = self.by[self.vertex[way]]
            way = way[way >= 0]
        return np.concatenate(found)

    def chosen(self) -> Ints:
        """What the best hypotheses chose at each vertex (vertices,); -1 where none comes by, or none did."""
        found = np.full(len(self.by), -1, np.int32)
        found[self.vertex[self.way]] = self.number[self.way]
        return found


def picks_of(batch: Batch, shares: Sequence[Share], order: Order) -> Picks | None:
    """All that was picked, those of one share behind those of another; None where the model has no beam.

    Vertices are numbered as `order` says. What the best hypotheses chose becomes a field.
    """
    beam, columns, words = batch.model.growth.beam, batch.columns, [share.words for share in shares]
    if beam is None:
        return None
    kind, decision = beam
    begins = np.append(0, np.cumsum([w[at.PICK_NEXT] for w in words]))[:-1].astype(np.int32)
    firsts = [int(w[at.INSTANCE_FIRST]) for w in words]

    def numbered(picks: Ints, instance: Ints) -> Ints:
        return np.where(picks >= 0, picks + begins[np.searchsorted(firsts, instance, side="right") - 1], -1)

    def together(name: int, count: int) -> NDArray[Any]:
        return np.concatenate([share.picks[name][: share.words[count]] for share in shares])

    instance = columns[INSTANCE][: columns.count]
    by = numbered(columns[PICK][: columns.count], instance)
    kept = numbered(batch.kept, np.repeat(np.arange(len(batch), dtype=np.int32), batch.model.width))
    vertex, number, total = (
        together(name, at.PICK_NEXT) for name in (at.PICK_VERTEX, at.PICK_NUMBER, at.PICK_TOTAL)
    )
    ended = together(at.PICK_ENDED, at.PICK_NEXT) > 0
    compared = batch.of_kinds(kind.kinds, np.flatnonzero(instance >= 0).astype(np.int32))
    place, when = order.place, together(at.KEPT_ROUND, at.KEPT_NEXT)
    shift = np.repeat(begins, [w[at.KEPT_NEXT] for w in words])
    rounds = zip(
        _by_round(place[compared], np.maximum(columns[ROUND][compared], 0) + 1, int(when.max(initial=0))),
        _by_round(together(at.KEPT_PICK, at.KEPT_NEXT) + shift, when, int(when.max(initial=0))),
        strict=True,
    )
    last = kept[kept >= 0]
    last = last[ended[last]]
    # the likeliest of each instance, of equals the first
    whose = instance[vertex[last]]
    last = last[np.lexsort((-total[last], whose))]
    best = last[np.unique(instance[vertex[last]], return_index=True)[1]]
    picks = Picks(
        place[vertex], number, total, ended, by[order.vertex], tuple(r for r in rounds if len(r[0])), best
    )
    columns[FieldColumn(decision.name)][order.vertex] = picks.chosen()
    return picks


def _by_round(values: Ints, rounds: Ints, count: int) -> list[Ints]:
    """Those of round 1 to `count`, each in their order."""
    order = np.argsort(rounds, kind="stable")
    bounds = np.searchsorted(rounds[order], np.arange(1, count + 2))
    return [values[order[a:b]] for a, b in pairwise(bounds.tolist())]
