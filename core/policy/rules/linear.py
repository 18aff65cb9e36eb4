"""A linear scoring rule: the type with the largest weighted sum of features goes first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.bounds import chains, path_lengths, tallest
from abw.core.graph.dag import Dag
from abw.core.jit.decorators import inner, njit
from abw.core.policy.rules.frontier import room, to_schedule
from abw.core.policy.schedule import Schedule

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]
# The features of a ready type, in the order of the weights.
#
# Logarithms are to base 2 (`_log`). A node's mass is the fourth power of the longest path that starts at it,
# its far mass the eighth. A node is next if it is not ready, but all of its remaining producers are, and none
# of these has its type.
FEATURES: dict[str, str] = {
    "mass": "logarithm of the mass of the type's ready nodes",
    "mass_share": "logarithm of their share of the mass of the type's remaining nodes",
    "far_share": "logarithm of their share of the far mass",
    "count": "logarithm of their number",
    "count_share": "logarithm of their share of the number of the type's remaining nodes",
    "longest": "logarithm of the longest path that starts at one of them",
    "next_share": "logarithm of their share of the mass of them and of the type's nodes that are next",
    "none_next": "1 where no node of the type is next, else 0",
    "all": "1 where all remaining nodes of the type are ready, else 0",
    "free": "1 where the batch lowers the bound of what remains (`abw.core.policy.rules.remaining`), else 0",
}
MASS, MASS_SHARE, FAR_SHARE, COUNT, COUNT_SHARE, LONGEST, NEXT_SHARE, NONE_NEXT, ALL, FREE = range(10)
# Found by hill climbing on 19 families of graphs in both directions (`bench/graphs`, of another seed).
WEIGHTS = {"mass": 0.4, "far_share": 0.4, "next_share": 2.0, "none_next": 0.1, "all": 10.0}


def weights_of(named: Mapping[str, float]) -> Floats:
    """The weights (10,) of features by their names; 0 for the others."""
    return np.array([named.get(name, 0.0) for name in FEATURES])


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """Executes the type with the largest sum of features (`FEATURES`) times their `weights` (10,).

    Equal sums go to the type declared first. A rule in which `free`, or `next_share` and `none_next`, have
    weight 0 takes less time.
    """

    weights: Floats = field(default_factory=lambda: weights_of(WEIGHTS))

    def schedule(self, dag: Dag) -> Schedule:
        """O(n + m + batches * ready types); with `free` also O((n + m) * recurrent types / 32)."""
        return Scorer(dag, free=bool(self.weights[FREE])).schedule(self.weights)

    @property
    def named(self) -> dict[str, float]:
        """The weights that are not 0, by feature."""
        return {n: w for n, w in zip(FEATURES, self.weights.tolist(), strict=True) if w}


class Scorer:
    """Schedules one dag by any weights, for learning; computes everything that does not depend on them once.

    Without `free` that feature is not computed, whatever it weighs.
    """

    def __init__(self, dag: Dag, *, free: bool) -> None:
        types = len(dag.types)
        first = np.zeros(types, np.int32)
        if free:
            length, height = chains(dag)
            top = tallest(dag, height)
            np.cumsum(top[:-1] + 1, out=first[1:])
            known = height, first, np.empty(int(np.sum(top + 1)), np.int32), top
        else:
            length, none = path_lengths(dag), np.empty(0, np.int32)
            known = none, none, none, none
        self._dag = dag.type, dag.succ_ptr, dag.succ, dag.indegree, length
        self._known = known
        self._room = np.empty((len(dag), 4), np.int32), np.empty((2, len(dag)), np.int32)
        self._types = np.empty((11, types), np.int32), np.empty((6, types))
        self._batches = room(dag)

    def schedule(self, weights: Floats) -> Schedule:
        """Schedule by these weights; the next schedule overwrites the arrays of this one."""
        self.count(weights, len(self._dag[0]))
        return to_schedule(self._batches)

    def count(self, weights: Floats, most: int) -> int:
        """Count the batches of the schedule by these weights; `most` + 1 where there are more than `most`."""
        given = self._dag, weights, self._known, self._room, self._types, (*self._batches,)
        return int(_linear(*given, most))


@inner
def _log(x: float) -> float:
    """About log2(x), by straight lines between powers of two: the bits of x as a number (Mitchell, 1962)."""
    return float(np.float64(x).view(np.int64) * 2.0**-52 - 1023.0)


@inner
def _mass(length: int) -> float:
    square = np.float64(length) * length
    return square * square


# Columns of `node` (n, 4): how many of a node's producers are not executed, how many are neither executed nor
# ready, and how many are ready and of its own type; the node's type, to be in the same line of the cache.
MISSING, WAITING, OWN, TYPE = range(4)


@njit
def _linear(
    dag: tuple[Ints, Ints, Ints, Ints, Ints],
    weights: Floats,
    known: tuple[Ints, Ints, Ints, Ints],
    of_nodes: tuple[Ints, Ints],
    of_types: tuple[Ints, Floats],
    recorded: tuple[Ints, Ints, Ints, Ints],
    most: int,
) -> int:
    """Record the schedule and return the number of its batches, or `most` + 1 as soon as there are more.

    `known` are heights and what `Remaining` counts by them, empty where `free` is not asked for; `of_nodes`
    (n, 4) and (2, n), and `of_types`, (11, T) and (6, T), are room.
    """
    type, ptr, succ, indegree, length = dag
    height, first, number, tallest = known
    node, queue, fresh = of_nodes[0], of_nodes[1][0], of_nodes[1][1]
    batch_type, batch_ptr, batch_nodes, size = recorded
    # queue[head[t]:tail[t]] are the ready nodes of type t, those up to end[t] remain; live[:lives] the types
    # with ready nodes, t at place[t] - 1; changed[:changes] those whose score is out of date
    head, tail, end, live = of_types[0][0], of_types[0][1], of_types[0][2], of_types[0][3]
    place, changed, marked, longest = of_types[0][4], of_types[0][5], of_types[0][6], of_types[0][7]
    top, tops, nexts = of_types[0][8], of_types[0][9], of_types[0][10]
    ready, left, far = of_types[1][0], of_types[1][1], of_types[1][2]
    far_left, next, score = of_types[1][3], of_types[1][4], of_types[1][5]
    asks_next, asks_free = weights[NEXT_SHARE] != 0.0 or weights[NONE_NEXT] != 0.0, len(height) > 0
    n, types = len(type), len(end)
    number[:] = 0
    of_types[0][:] = 0
    of_types[1][:] = 0.0
    for v in range(n):
        t, mass = type[v], _mass(length[v])
        end[t] += 1
        left[t] += mass
        far_left[t] += mass * mass
        node[v, MISSING] = node[v, WAITING] = indegree[v]
        node[v, OWN], node[v, TYPE] = 0, t
        if asks_free:
            number[first[t] + height[v]] += 1
    for t in range(types):
        if t > 0:
            head[t] = tail[t] = end[t - 1]
            end[t] += end[t - 1]
        if asks_free:
            top[t] = tallest[t]
    news = lives = changes = batches = done = 0
    for v in range(n):
        if indegree[v] == 0:
            queue[tail[type[v]]] = fresh[news] = v
            tail[type[v]] += 1
            news += 1
    batch_ptr[0] = 0
    while True:
        for i in range(news):
            v = fresh[i]
            t, mass = node[v, TYPE], _mass(length[v])
            ready[t] += mass
            far[t] += mass * mass
            longest[t] = max(longest[t], length[v])
            if asks_free:
                tops[t] += height[v] == top[t]
            if place[t] == 0:
                live[lives] = t
                lives += 1
                place[t] = lives
            if marked[t] == 0:
                marked[t], changed[changes] = 1, t
                changes += 1
            if asks_next:
                for e in range(ptr[v], ptr[v + 1]):
                    w = succ[e]
                    x = node[w, TYPE]
                    node[w, WAITING] -= 1
                    node[w, OWN] += x == t
                    if node[w, WAITING] == 0 and node[w, OWN] == 0:
                        next[x] += _mass(length[w])
                        nexts[x] += 1
                        if marked[x] == 0:
                            marked[x], changed[changes] = 1, x
                            changes += 1
        if done == n:
            return batches
        for i in range(changes):
            t = changed[i]
            marked[t] = 0
            if place[t] > 0:
                here, rest = tail[t] - head[t], end[t] - head[t]
                value = weights[MASS] * _log(ready[t])
                value += weights[MASS_SHARE] * _log(ready[t] / max(left[t], ready[t]))
                value += weights[FAR_SHARE] * _log(far[t] / max(far_left[t], far[t]))
                value += weights[COUNT] * _log(here)
                value += weights[COUNT_SHARE] * _log(here / rest)
                value += weights[LONGEST] * _log(longest[t])
                if asks_next:
                    value += weights[NEXT_SHARE] * _log(ready[t] / (ready[t] + next[t]))
                    value += weights[NONE_NEXT] * (nexts[t] == 0)
                value += weights[ALL] * (here == rest)
                if asks_free:
                    value += weights[FREE] * (tops[t] == number[first[t] + top[t]])
                score[t] = value
        changes = 0
        a = live[0]
        for i in range(1, lives):
            t = live[i]
            if score[t] > score[a] or (score[t] == score[a] and t < a):
                a = t
        if batches == most:
            return most + 1
        lives -= 1
        moved = live[lives]
        live[place[a] - 1], place[moved], place[a] = moved, place[a], 0
        left[a] = max(left[a] - ready[a], 0.0)
        far_left[a] = max(far_left[a] - far[a], 0.0)
        ready[a] = far[a] = 0.0
        longest[a] = tops[a] = 0
        begin, close = head[a], tail[a]
        head[a] = close
        for i in range(begin, close):
            batch_nodes[done] = queue[i]
            done += 1
            if asks_free:
                number[first[a] + height[queue[i]]] -= 1
        if asks_free:
            while top[a] > 0 and number[first[a] + top[a]] == 0:
                top[a] -= 1
        batch_type[batches] = a
        batches += 1
        batch_ptr[batches] = done
        size[0] = batches
        news = 0
        for i in range(begin, close):
            v = queue[i]
            for e in range(ptr[v], ptr[v + 1]):
                w = succ[e]
                x = node[w, TYPE]
                node[w, MISSING] -= 1
                if asks_next:
                    change = 0
                    if x == a:
                        node[w, OWN] -= 1
                        if node[w, MISSING] > 0 and node[w, WAITING] == 0 and node[w, OWN] == 0:
                            change = 1
                    elif node[w, MISSING] == 0 and node[w, OWN] == 0:
                        change = -1
                    if change != 0:
                        next[x] += change * _mass(length[w])
                        nexts[x] += change
                        if marked[x] == 0:
                            marked[x], changed[changes] = 1, x
                            changes += 1
                if node[w, MISSING] == 0:
                    queue[tail[x]] = fresh[news] = w
                    tail[x] += 1
                    news += 1
