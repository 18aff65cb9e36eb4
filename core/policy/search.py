"""Search over sequences of types: near-optimal schedules, and proofs of how near."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.bounds import path_lengths
from abw.core.graph.dag import Dag
from abw.core.jit import njit
from abw.core.policy.critical import Critical
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
from abw.core.policy.remaining import Remaining, start_remaining, step_remaining
from abw.core.policy.schedule import Schedule

Ints = NDArray[np.int32]
ROOM = 1 << 28  # the most numbers in the states of a beam: 1 GiB


@dataclass(frozen=True, slots=True)
class Found:
    """A schedule, and a number of batches (`at_least`) that no schedule of its graph falls below."""

    schedule: Schedule
    at_least: int

    @property
    def optimal(self) -> bool:
        """Whether the schedule is proven to have the fewest batches."""
        return len(self.schedule) == self.at_least


@dataclass(frozen=True, slots=True)
class Search:
    """Beam search: step by step, the `width` most promising sets of executed nodes are kept.

    Sets are ranked twice: by the batches so far and the lower bound of what remains, and by how many nodes
    at the head of long paths they have (the sum of the path lengths' eighth powers); the best of the two
    rankings are taken in turn. With `exact`, the width is doubled until the schedule is proven optimal, for
    small graphs: it ends without a proof where the states no longer fit into 1 GiB.
    """

    width: int = 100
    exact: bool = False

    def schedule(self, dag: Dag) -> Schedule:
        """The best schedule found."""
        return self.find(dag).schedule

    def find(self, dag: Dag) -> Found:
        """The best schedule found, and what is proven.

        O(batches * width * (n + types)); 8000 nodes: some 20 ms at width 10, 0.1 s at width 100.
        """
        best, at_least, width = Critical(free_first=True).schedule(dag), 0, self.width
        while True:
            sequence, bound = _beam(dag, width, len(best))
            if sequence is not None:
                best = replay(dag, sequence)
            at_least = max(at_least, bound)
            width *= 2
            if at_least == len(best) or not self.exact or width * max(len(dag), 1) > ROOM // 4:
                return Found(best, at_least)


class Beam(NamedTuple):
    """W executions of one graph side by side: see `Frontier` and `Remaining` for the first nine.

    `key` (W,) identifies the set of executed nodes, `mass` (W,) judges it; `ready_key` and `ready_mass`
    (W, T) are what the ready nodes would add to them.
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
    key: NDArray[np.uint64]
    mass: NDArray[np.float64]
    ready_key: NDArray[np.uint64]
    ready_mass: NDArray[np.float64]


class Marks(NamedTuple):
    """What executing a node adds to a state's `key` and `mass`."""

    key: NDArray[np.uint64]
    mass: NDArray[np.float64]


def _beam(dag: Dag, width: int, limit: int) -> tuple[list[int] | None, int]:
    """A sequence of fewer than `limit` types, if one is found, and a lower bound, at most `limit`.

    A state's score never exceeds the batches of a schedule through it, so no schedule that was left out is
    shorter than the least score that was left out.
    """
    frontier, flow = start(dag), edges(dag)
    remaining = start_remaining(dag, frontier)
    marks = _marks(dag)
    beam = _first(dag, frontier, remaining, marks)
    storage = [Beam(*(np.empty((width, *a.shape[1:]), a.dtype) for a in beam)) for _ in range(2)]
    at_least = limit
    history: list[tuple[NDArray[np.intp], NDArray[np.intp]]] = []
    for step in range(1, limit):
        parents, actions, score, key = _candidates(beam, remaining.first, step)
        chosen = np.unique(key, return_index=True)[1]  # of several ways to one set, the first
        chosen.sort()
        if len(chosen) > width:
            at_least = min(at_least, int(score[chosen[width:]].min()))
        chosen = chosen[:width]
        chosen = chosen[score[chosen] < limit]
        if len(chosen) == 0:
            break
        history.append((parents[chosen], actions[chosen]))
        beam = _taken(beam, parents[chosen], storage[step % 2])
        _advance(flow, frontier.end, remaining.height, remaining.first, marks, beam, actions[chosen])
        finished = np.flatnonzero(~beam.top.any(axis=1))
        if len(finished) > 0:
            return _sequence(history, int(finished[0])), min(at_least, step)
    return None, at_least


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
    state = (*frontier[:4], *remaining[2:], np.uint64(0), 0.0, ready_key, ready_mass)
    return Beam(*(np.array([array]) for array in state))


def _candidates(
    beam: Beam, first: Ints, step: int
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp], NDArray[np.uint64]]:
    """All next states, best first: the state each comes from, the type executed, its score and key."""
    states, actions = np.nonzero(beam.tail > beam.head)
    critical = np.take_along_axis(beam.number, first + beam.top, axis=1)
    free = (beam.ready == critical)[states, actions]
    score = step + beam.top.sum(axis=1)[states] - free
    mass = beam.mass[states] + beam.ready_mass[states, actions]
    turns = np.stack([np.lexsort((-mass, score)), np.lexsort((score, -mass))], axis=1).ravel()
    order = turns[np.sort(np.unique(turns, return_index=True)[1])]
    key = beam.key[states] ^ beam.ready_key[states, actions]
    return states[order], actions[order], score[order], key[order]


@njit
def _advance(
    edges: Edges, end: Ints, height: Ints, first: Ints, marks: Marks, beam: Beam, actions: NDArray[np.intp]
) -> None:
    """Execute `actions[w]` in the w-th state."""
    for w in range(len(actions)):
        a = actions[w]
        frontier = Frontier(beam.missing[w], beam.queue[w], beam.head[w], beam.tail[w], end)
        remaining = Remaining(
            height, first, beam.number[w], beam.top[w], beam.ready[w], beam.seen[w], beam.done[w]
        )
        before = beam.tail[w].copy()
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
