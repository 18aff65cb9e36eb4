"""Search over sequences of types: near-optimal schedules, and proofs of how near."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.bounds import path_lengths
from abw.core.graph.dag import Dag
from abw.core.jit import njit
from abw.core.policy.cost import Cost, batch_cost, cost_of, counting, regret, rest
from abw.core.policy.frontier import (
    Batches,
    Edges,
    Frontier,
    edges,
    execute,
    record,
    room,
    start,
    to_schedule,
)
from abw.core.policy.frugal import Frugal
from abw.core.policy.remaining import Remaining, is_free, start_remaining, step_remaining
from abw.core.policy.schedule import Schedule

Ints = NDArray[np.int32]
ROOM = 1 << 28  # the most numbers in the states of a beam: 1 GiB
LESS = 1.0 - 1e-9  # costs are sums that rounding blurs: what is less than this of another is less than it


@dataclass(frozen=True, slots=True)
class Found:
    """A schedule, its cost, and a cost (`at_least`) that no schedule of its graph falls below.

    Where nothing else was asked for, the cost is the number of batches. With tiles of several rows (see
    `Cost`), `at_least` speaks of the schedules that leave no ready node of a batch's type out.
    """

    schedule: Schedule
    cost: float
    at_least: float

    @property
    def optimal(self) -> bool:
        """Whether the schedule is proven to cost least, to within one in 10^9."""
        return self.at_least >= self.cost


@dataclass(frozen=True, slots=True)
class Search:
    """Beam search: step by step, the `width` most promising sets of executed nodes are kept.

    Sets are ranked twice: by the cost so far and the least cost of what remains (without a `cost`: by
    batches), and by how many nodes at the head of long paths they have (the sum of the path lengths' eighth
    powers); the best of the two rankings are taken in turn. With `exact`, the width is doubled until the
    schedule is proven optimal, for small graphs: it ends without a proof where the states no longer fit into
    1 GiB.
    """

    width: int = 100
    exact: bool = False
    cost: Cost | None = None

    def schedule(self, dag: Dag) -> Schedule:
        """The best schedule found."""
        return self.find(dag).schedule

    def find(self, dag: Dag) -> Found:
        """The best schedule found, and what is proven.

        O(batches * width * (n + types)); 8000 nodes: some 20 ms at width 10, 0.1 s at width 100.
        """
        cost = counting(len(dag.types)) if self.cost is None else self.cost
        best, at_least, width = Frugal(cost).schedule(dag), 0.0, self.width
        lowest = cost_of(best, cost)
        while True:
            sequence, bound = _beam(dag, cost, width, lowest)
            if sequence is not None:
                best = replay(dag, sequence)
                lowest = cost_of(best, cost)
            at_least = max(at_least, bound)
            width *= 2
            if at_least >= lowest * LESS:
                return Found(best, lowest, lowest)
            if not self.exact or width * max(len(dag), 1) > ROOM // 4:
                return Found(best, lowest, at_least)


class Beam(NamedTuple):
    """W executions of one graph side by side: see `Frontier` and `Remaining` for the first nine.

    `spent` (W,) is the cost so far, `key` (W,) identifies the set of executed nodes, `mass` (W,) judges it;
    `ready_key` and `ready_mass` (W, T) are what the ready nodes would add to them.
    """

    missing: Ints
    queue: Ints
    head: Ints
    tail: Ints
    number: Ints
    top: Ints
    ready: Ints
    seen: Ints
    done: Ints
    spent: NDArray[np.float64]
    key: NDArray[np.uint64]
    mass: NDArray[np.float64]
    ready_key: NDArray[np.uint64]
    ready_mass: NDArray[np.float64]


class Marks(NamedTuple):
    """What executing a node adds to a state's `key` and `mass`."""

    key: NDArray[np.uint64]
    mass: NDArray[np.float64]


def _beam(dag: Dag, cost: Cost, width: int, limit: float) -> tuple[list[int] | None, float]:
    """The cheapest sequence of types found below a cost of `limit`, if any; a bound on what was left out.

    A state's score never exceeds the cost of a schedule through it, so no schedule that was left out costs
    less than the least score that was left out: infinite where nothing was that might have cost less.
    """
    frontier, flow = start(dag), edges(dag)
    remaining = start_remaining(dag, frontier)
    marks = _marks(dag)
    beam = _first(dag, frontier, remaining, marks)
    before = np.empty_like(frontier.tail)
    storage = [Beam(*(np.empty((width, *a.shape[1:]), a.dtype) for a in beam)) for _ in range(2)]
    sequence, at_least = None, np.inf
    history: list[tuple[NDArray[np.intp], NDArray[np.intp]]] = []
    while True:
        parents, actions, score = _candidates(beam, frontier.end, remaining, cost)
        at_least = min(at_least, score[width:].min(initial=np.inf))
        kept = np.flatnonzero(score[:width] < limit * LESS)
        if len(kept) == 0:
            return sequence, float(at_least)
        history.append((parents[kept], actions[kept]))
        beam = _taken(beam, parents[kept], storage[len(history) % 2])
        _advance(
            flow, frontier.end, remaining.height, remaining.first, cost, marks, beam, actions[kept], before
        )
        finished = np.flatnonzero(~beam.top.any(axis=1))
        if len(finished) > 0:
            last = finished[np.argmin(beam.spent[finished])]
            if beam.spent[last] < limit:
                sequence, limit = _sequence(history, int(last)), float(beam.spent[last])


def _taken(beam: tuple[Any, ...], rows: NDArray[np.intp], storage: tuple[Any, ...]) -> Beam:
    """The states `rows` of a beam, copied into other storage."""
    return Beam(
        *(
            np.take(array, rows, axis=0, out=out[: len(rows)], mode="clip")
            for array, out in zip(beam, storage, strict=True)
        )
    )


def _marks(dag: Dag) -> Marks:
    random = np.random.default_rng(0).integers(0, 2**63, len(dag), np.int64)
    return Marks(random.astype(np.uint64), path_lengths(dag).astype(np.float64) ** 8)


def _first(dag: Dag, frontier: Frontier, remaining: Remaining, marks: Marks) -> Beam:
    """The beam before the first batch: one state."""
    types, sources = len(dag.types), np.flatnonzero(dag.indegree == 0)
    ready_key = np.zeros(types, np.uint64)
    np.bitwise_xor.at(ready_key, dag.type[sources], marks.key[sources])
    ready_mass = np.bincount(dag.type[sources], marks.mass[sources], types)
    state = (*frontier[:4], *remaining[2:], 0.0, np.uint64(0), 0.0, ready_key, ready_mass)
    return Beam(*(np.array([array]) for array in state))


def _candidates(
    beam: Beam, end: Ints, remaining: Remaining, cost: Cost
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.float64]]:
    """All next states, best first: the state each comes from, the type executed, its score."""
    states, actions = np.nonzero(beam.tail > beam.head)
    score = np.empty(len(states))
    _scores(beam, end, remaining.height, remaining.first, cost, states, actions, score)
    key = beam.key[states] ^ beam.ready_key[states, actions]
    by_key = np.lexsort((score, key))
    once = np.ones(len(key), bool)  # of several ways to one set, the cheapest
    once[1:] = key[by_key[1:]] != key[by_key[:-1]]
    found = np.sort(by_key[once])
    states, actions, score = states[found], actions[found], score[found]
    mass = beam.mass[states] + beam.ready_mass[states, actions]
    turns = np.stack([np.lexsort((-mass, score)), np.lexsort((score, -mass))], axis=1).ravel()
    order = turns[np.sort(np.unique(turns, return_index=True)[1])]
    return states[order], actions[order], score[order]


@njit
def _scores(
    beam: Beam,
    end: Ints,
    height: Ints,
    first: Ints,
    cost: Cost,
    states: NDArray[np.intp],
    actions: NDArray[np.intp],
    score: NDArray[np.float64],
) -> None:
    """For each next state the cost so far and the least cost of what remains; `states` ascend."""
    before, last = 0.0, -1
    for i in range(len(states)):
        w, a = states[i], actions[i]
        remaining = Remaining(
            height, first, beam.number[w], beam.top[w], beam.ready[w], beam.seen[w], beam.done[w]
        )
        if w != last:
            before, last = beam.spent[w], w
            for t in range(len(end)):
                before += rest(cost, t, end[t] - beam.head[w, t], beam.top[w, t])
        ready, rows = beam.tail[w, a] - beam.head[w, a], end[a] - beam.head[w, a]
        score[i] = before + regret(cost, a, ready, rows, beam.top[w, a], is_free(remaining, a))


@njit
def _advance(
    edges: Edges,
    end: Ints,
    height: Ints,
    first: Ints,
    cost: Cost,
    marks: Marks,
    beam: Beam,
    actions: NDArray[np.intp],
    before: Ints,
) -> None:
    """Execute `actions[w]` in the w-th state; `before` (T,) is working space."""
    for w in range(len(actions)):
        a = actions[w]
        frontier = Frontier(beam.missing[w], beam.queue[w], beam.head[w], beam.tail[w], end)
        remaining = Remaining(
            height, first, beam.number[w], beam.top[w], beam.ready[w], beam.seen[w], beam.done[w]
        )
        for t in range(len(before)):
            before[t] = frontier.tail[t]
        beam.spent[w] += batch_cost(cost, a, frontier.tail[a] - frontier.head[a])
        execute(edges, frontier, a)
        step_remaining(frontier, remaining, a)
        beam.key[w] ^= beam.ready_key[w, a]
        beam.mass[w] += beam.ready_mass[w, a]
        beam.ready_key[w, a] = 0
        beam.ready_mass[w, a] = 0.0
        for t in range(len(before)):
            for i in range(before[t], frontier.tail[t]):
                v = frontier.queue[i]
                beam.ready_key[w, t] ^= marks.key[v]
                beam.ready_mass[w, t] += marks.mass[v]


def _sequence(history: list[tuple[NDArray[np.intp], NDArray[np.intp]]], state: int) -> list[int]:
    """The types executed on the way to a state of the last step."""
    types = []
    for parents, actions in reversed(history):
        types.append(int(actions[state]))
        state = int(parents[state])
    return types[::-1]


def replay(dag: Dag, types: list[int]) -> Schedule:
    """The schedule of a sequence of types that finishes the graph (Algorithm 1 of the paper)."""
    batches = room(dag)
    _replay(edges(dag), start(dag), np.array(types, np.int32), batches)
    return to_schedule(batches)


@njit
def _replay(edges: Edges, frontier: Frontier, types: Ints, batches: Batches) -> None:
    for a in types:
        record(batches, frontier, a)
        execute(edges, frontier, a)
