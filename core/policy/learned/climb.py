"""Weights of the linear rule by hill climbing: small changes, kept where they need no more batches."""

from __future__ import annotations

import random
from collections.abc import Sequence

import numpy as np

from abw.core.graph.dag import Dag
from abw.core.policy.cost import Cost, cost_of
from abw.core.policy.reckoning import Size, seconds_of
from abw.core.policy.rules.linear import FEATURES, FREE, Floats, Linear, Scorer, weights_of

# Where climbing begins, unless weights are known: at the best of these and of the rule's own.
STARTS: tuple[dict[str, float], ...] = (
    {"mass": 1, "mass_share": 2},
    {"mass": 1, "mass_share": 6, "all": 1},
    {"mass": 1, "mass_share": 2, "next_share": 2},
    {"longest": 50, "mass": 0.1},
    {"mass": 0.5, "mass_share": 0.5, "next_share": 2, "all": 10},
    {"mass": 0.5, "far_share": 2, "longest": -1, "next_share": 10, "all": 40},
)
# The weight that lets free batches go first, and the same from there.
FIRST = 50.0
# About how many seconds one climb takes at most, as reckoned, and how many changes it tries.
SECONDS, CHANGES = 0.2, 1000
# A weight changes by about so much of itself, and of the largest.
STEP, OTHERS = 0.35, 0.05


def climb(
    dags: Sequence[Dag], known: Sequence[Linear] = (), *, free: bool, seed: int, cost: Cost | None = None
) -> Linear:
    """Find weights with which the linear rule needs few batches on some graphs; with a `cost`, costs little.

    This is stochastic hill climbing from the best of the rules `known`, or of `STARTS`: one to three random
    weights are changed at a time, and the change is kept where the result is no worse. `free` says whether
    that feature may have a weight. The number of changes is what takes `SECONDS` as reckoned: same arguments,
    same weights, whatever the load. At the end weights that change nothing become 0.
    """
    judged = [_Judged(dag, free, cost) for dag in dags]

    def total(weights: Floats, most: float) -> float:
        found = 0.0
        for one in judged:
            found += one.cost(weights, most - found)
            if found > most:
                break
        return found

    draw = random.Random(seed)
    starts = [rule.weights for rule in known] or [Linear().weights, *map(weights_of, STARTS)]
    if free:
        starts += [_with_free(weights) for weights in starts]
    least, best = float("inf"), starts[0]
    for weights in starts:
        found = total(weights, least)
        if found < least:
            least, best = found, weights
    changed = [k for k in range(len(FEATURES)) if free or k != FREE]
    for _ in range(_changes(dags, free)):
        weights = best.copy()
        floor = OTHERS * min(float(np.abs(weights).max()) + 0.3, 6.0)
        for _ in range(draw.choice((1, 1, 2, 3))):
            k = draw.choice(changed)
            changed_to = weights[k] + draw.gauss(0.0, STEP) * (abs(weights[k]) + floor)
            weights[k] = float(f"{changed_to:.3g}")  # for people who read the file
        found = total(weights, least)
        if found <= least:
            least, best = found, weights
    for k in np.argsort(np.abs(best)):
        weights = best.copy()
        weights[k] = 0.0
        found = total(weights, least)
        if found <= least:
            least, best = found, weights
    return Linear(best)


def _with_free(weights: Floats) -> Floats:
    found = weights.copy()
    found[FREE] = FIRST
    return found


def _changes(dags: Sequence[Dag], free: bool) -> int:
    nodes = sum(map(len, dags))
    size = Size(len(dags), nodes + sum(len(dag.succ) for dag in dags), len(dags[0].types))
    many = SECONDS / seconds_of("linear", size, nodes / 2)  # as if batches were small
    return max(1, min(CHANGES, int(many)))


class _Judged:
    """A graph, and what its schedules cost."""

    def __init__(self, dag: Dag, free: bool, cost: Cost | None) -> None:
        self._scorer, self._nodes, self._cost = Scorer(dag, free=free), len(dag), cost

    def cost(self, weights: Floats, most: float) -> float:
        """What the schedule by these weights costs; more than `most` where that is all that matters."""
        if self._cost is not None:
            return cost_of(self._scorer.schedule(weights), self._cost)
        return self._scorer.count(weights, int(min(most, self._nodes)))
