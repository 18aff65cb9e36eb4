"""Rules that weigh nodes: ready ones before long paths count for much, types nearly all ready for more.

With `free` batches that raise the bound of the whole cost least go first, and weights decide between equals.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.bounds import chains, path_lengths
from abw.core.graph.dag import Dag
from abw.core.jit.decorators import fragment, njit
from abw.core.policy.cost import Cost, counting, regret
from abw.core.policy.rules.frontier import Batches, Edges, Frontier, begin, execute, record, to_schedule
from abw.core.policy.rules.remaining import Remaining, is_free, start_remaining, step_remaining
from abw.core.policy.schedule import Schedule

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]
# Powers of the share for `Weight`: with the higher one the share all but decides alone.
SHARE, WEIGHT = 6, 2
# In place of a power: the longest path of a ready node decides, then how many ready nodes have it.
PATH = -1
# What a node of such a path weighs, if each ready node that begins one weighs 1: more than there are nodes.
PATH_UNIT = 2.0**27
# What all remaining nodes of a type weigh at least: rounding must not leave nothing.
LEAST_WEIGHT = 1e-9


@dataclass(frozen=True, slots=True)
class Weight:
    """The type goes first whose ready nodes weigh most, times a power of the share that is ready.

    A node weighs the fourth power of the longest path that starts at it; a type's share is what its ready
    nodes weigh of all its remaining ones. With power PATH, types are compared as by `Critical`. With `free`,
    the batches of least `regret` (without a `cost`: those that lower the remaining lower bound) go before all
    others. `Weight(PATH)` needs fewer batches than `Critical` on chains, on two-type trees and at granularity
    `op`, a few more on lattices, and more than twice the time.
    """

    power: int = WEIGHT
    free: bool = True
    cost: Cost | None = None

    def schedule(self, dag: Dag) -> Schedule:
        """O((n + m) * recurrent types / 32 + batches * types); without `free` O(n + m + batches * types)."""
        edges, frontier, batches = begin(dag)
        if self.free:
            length, height = chains(dag)
            remaining = start_remaining(dag, frontier, height)
        else:
            length, remaining = path_lengths(dag), nothing_remains()
        cost = counting(len(dag.types)) if self.cost is None else self.cost
        _weight(edges, frontier, remaining, weights(dag, frontier, length), cost, self.power, batches)
        return to_schedule(batches)


class Weights(NamedTuple):
    """By type (T,), what the ready and all remaining nodes weigh, by their path lengths `length` (n,).

    `Frontier.queue` has been looked at up to `seen` (T,).
    """

    length: Ints
    ready: Floats
    left: Floats
    seen: Ints


def weights(dag: Dag, frontier: Frontier, length: Ints) -> Weights:
    """The weights by path lengths (n,), `frontier` being `start(dag)`; no node is counted as ready yet."""
    ready, left = np.zeros((2, len(dag.types)))
    found = Weights(length, ready, left, np.empty(len(dag.types), np.int32))
    begin_weights(dag.type, frontier, found)
    return found


@njit
def begin_weights(type: Ints, frontier: Frontier, weights: Weights) -> None:
    """Fill `left` and `seen` as they are before the first batch."""
    length, _, left, seen = weights
    for t in range(len(left)):
        left[t], seen[t] = LEAST_WEIGHT, frontier.head[t]
    for v in range(len(type)):
        left[type[v]] += _weight_of(length[v])


@fragment
def _weight_of(length: int) -> float:
    square = np.float64(length) * length
    return square * square


def no_weights() -> Weights:
    """What stands in for them where no rule is asked."""
    none, nothing = np.empty(0, np.int32), np.empty(0)
    return Weights(none, nothing, nothing, none)


def nothing_remains() -> Remaining:
    """What stands in for it where no batch is asked for being free."""
    return Remaining(*(np.empty(0, np.int32),) * 7)


@fragment
def note_weights(frontier: Frontier, weights: Weights, power: int) -> None:
    """Count the nodes that became ready. O(their number + types)."""
    length, ready, _, seen = weights
    for t in range(len(ready)):
        for i in range(seen[t], frontier.tail[t]):
            here = length[frontier.queue[i]]
            if power != PATH:
                ready[t] += _weight_of(here)
            elif here * PATH_UNIT > ready[t]:
                ready[t] = here * PATH_UNIT + 1
            elif (here + 1) * PATH_UNIT > ready[t]:
                ready[t] += 1
        seen[t] = frontier.tail[t]


@fragment
def spend(weights: Weights, a: int) -> None:
    """Follow the execution of type a."""
    weights.left[a] -= weights.ready[a]
    weights.ready[a] = 0.0


@fragment
def heaviest(frontier: Frontier, remaining: Remaining, weights: Weights, cost: Cost, power: int) -> int:
    """The type of the next batch; regret does not count where nothing is known of what remains."""
    best, least, most = -1, 0.0, 0.0
    for t in range(len(weights.ready)):
        ready = frontier.tail[t] - frontier.head[t]
        if ready == 0:
            continue
        more = 0.0
        if len(remaining.top) > 0:
            rows = frontier.end[t] - frontier.head[t]
            more = regret(cost, t, ready, rows, remaining.top[t], is_free(remaining, t))
        weight = weights.ready[t]
        if power != PATH:
            share = weight / weights.left[t]
            for _ in range(power):
                weight *= share
        if best < 0 or more < least or (more == least and weight > most):
            best, least, most = t, more, weight
    return best


@fragment
def freest(frontier: Frontier, remaining: Remaining, weights: Weights) -> int:
    """The type that `heaviest` picks for `Weight()`, where batches are counted."""
    best, free, most = -1, False, 0.0
    for t in range(len(weights.ready)):
        if frontier.tail[t] > frontier.head[t]:
            here = is_free(remaining, t)
            weight = weights.ready[t] * (weights.ready[t] / weights.left[t]) ** WEIGHT
            if best < 0 or here > free or (here == free and weight > most):
                best, free, most = t, here, weight
    return best


@njit
def _weight(
    edges: Edges,
    frontier: Frontier,
    remaining: Remaining,
    weights: Weights,
    cost: Cost,
    power: int,
    batches: Batches,
) -> None:
    done = 0
    while done < len(edges.type):
        note_weights(frontier, weights, power)
        a = heaviest(frontier, remaining, weights, cost, power)
        spend(weights, a)
        done = record(batches, frontier, a)
        execute(edges, frontier, a)
        if len(remaining.top) > 0:
            step_remaining(frontier, remaining, a)
