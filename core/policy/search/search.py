"""Searches as policies: a beam in both directions, over the hardest instances first, then repair; or, between
rules and these in time and in batches, repair of what the linear rule makes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.bounds import heights, lower_bound, path_lengths
from abw.core.graph.dag import Dag, components, part
from abw.core.jit.decorators import njit
from abw.core.policy.cost import Cost, cost_of, counting, least_cost
from abw.core.policy.reverse import reversed_dag, reversed_schedule
from abw.core.policy.rules.critical import Critical, Paths, critical_type, start_paths, step_paths
from abw.core.policy.rules.frontier import Batches, Edges, Frontier, begin, execute, record, to_schedule
from abw.core.policy.rules.linear import Linear
from abw.core.policy.rules.sufficient import Sufficient
from abw.core.policy.rules.weight import PATH, SHARE, Weight
from abw.core.policy.schedule import Schedule
from abw.core.policy.search.beam import LESS, search
from abw.core.policy.search.repair import repair

Ints = NDArray[np.int32]
# Bytes that the automata of a search may take.
ROOM = 1 << 28
# The most steps of instances that an exact search takes: some 20 seconds.
EFFORT = 40_000_000
# With so many types or fewer, a sequence found for the hardest instances mostly serves all.
FEW = 8
# The most work of repair for each batch of the schedule, and which part of it may gain nothing in a row: 64
# instances take 0.5 to 4 ms a batch, and some hundredths of a second where nothing is gained.
WORK, PATIENCE = 4_000, 8
# Short schedules are repaired with several seeds: so many, and so many batches in all.
SEEDS, BATCHES = 4, 400


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
        return self.at_least >= self.cost * LESS


@dataclass(frozen=True, slots=True)
class Search:
    """Beam search: step by step, the `width` most promising sets of executed nodes are kept.

    Sets are ranked twice: by the cost so far and the least cost of what remains (without a `cost`: by
    batches), and by how many nodes at the head of long paths they have (the sum of the path lengths' eighth
    powers); the best of the two rankings are taken in turn. With `both`, both directions are searched. Where
    there are few types, the `core` hardest instances are searched alone, their sequence followed by all, and
    those that it leaves unfinished join them. Where the best schedule is not proven optimal, it is repaired
    with so much `work` for each of its batches, or less if that gains nothing (see `repair`). With `exact`,
    the whole is searched with twice the width again and again until the schedule is proven optimal, or
    `EFFORT` is spent.
    """

    width: int = 32
    core: int = 16
    both: bool = True
    exact: bool = False
    work: int = WORK
    cost: Cost | None = None

    def schedule(self, dag: Dag) -> Schedule:
        """The best schedule found."""
        return self.find(dag).schedule

    def find(self, dag: Dag) -> Found:
        """The best schedule found, and what is proven. About 100 ns a node and width, or less."""
        cost = counting(len(dag.types)) if self.cost is None else self.cost
        least = least_cost(dag, cost)
        found = Weight(cost=self.cost).schedule(dag)
        best = Found(found, cost_of(found, cost), least)
        whole = bool((cost.tile == 1).all())  # else what is proven holds in one direction alone
        for turned in (False, True) if self.both and whole else (False,):
            if best.optimal:
                return best
            best = self._directed(reversed_dag(dag) if turned else dag, turned, cost, best)
        if self.work and whole:
            best = self._repaired(dag, cost, best)
        width, effort = self.width, 0
        while self.exact and not best.optimal and effort < EFFORT:
            width *= 2
            most = _most(best.schedule)
            beaten = search(dag, cost, width, best.cost, most, ROOM)
            if beaten.steps == 0:
                break
            effort += beaten.steps
            best = _better(best, dag, beaten.types, cost)
            best = _proven(best, beaten.at_least)
        return best

    def _repaired(self, dag: Dag, cost: Cost, best: Found) -> Found:
        """The best of what repair makes of a schedule with some seeds."""
        start = best.schedule.type
        work = self.work * len(start)
        for seed in range(min(SEEDS, 1 + BATCHES // len(start)) if len(start) else 0):
            if best.optimal:
                break
            types = repair(dag, start, work, seed, patience=work // PATIENCE, room=ROOM)
            best = _better(best, dag, types, cost)
        return best

    def _directed(self, graph: Dag, turned: bool, cost: Cost, best: Found) -> Found:
        """The better one of what is known and what is found in one direction."""
        others = (Critical(), Weight(PATH, cost=self.cost), Sufficient()) if self.both else ()
        for rule in (Weight(SHARE, free=False), *others):
            start = rule.schedule(graph)
            best = _cheaper(best, reversed_schedule(start) if turned else start, cost)
            if best.optimal:
                return best
        component = components(graph)
        count = int(component.max(initial=-1)) + 1
        core = _hardest(graph, component, count)
        size = min(self.core, count) if len(graph.types) <= FEW else count
        chosen = np.zeros(count, np.bool_)
        chosen[core[:size]] = True
        for _ in range(4):
            sub = graph if chosen.all() else part(graph, chosen[component])
            beaten = search(sub, cost, self.width, best.cost, _most(best.schedule), ROOM)
            best = _proven(best, beaten.at_least)
            if beaten.types is None:
                break
            found, ends = follow(graph, beaten.types)
            best = _cheaper(best, reversed_schedule(found) if turned else found, cost)
            left = np.setdiff1d(component[found.nodes[ends:]], np.flatnonzero(chosen))
            if len(left) == 0 or best.optimal:
                break
            chosen[left] = True
        return best


@dataclass(frozen=True, slots=True)
class Repaired:
    """The better of the linear rule's two directions, repaired (see `repair`).

    `work` for each of its batches, and `most` at most.
    """

    work: int = 500
    most: int = 500_000

    def schedule(self, dag: Dag) -> Schedule:
        """1 to 3 us an edit for 64 instances: some 0.9 ms a batch, and a second at most."""
        rule = Linear()
        ways = (rule.schedule(dag), reversed_schedule(rule.schedule(reversed_dag(dag))))
        start = min(ways, key=len)
        if len(start) <= int(lower_bound(dag).sum()):
            return start
        types = repair(dag, start.type, min(self.most, self.work * len(start)))
        return replay(dag, types.tolist()) if len(types) < len(start) else start


def _most(schedule: Schedule) -> int:
    """So many batches a search looks ahead, at most: by cost, more than fewest can be best."""
    return 2 * len(schedule) + 1


def _cheaper(best: Found, schedule: Schedule, cost: Cost) -> Found:
    here = cost_of(schedule, cost)
    return Found(schedule, here, best.at_least) if here < best.cost * LESS else best


def _better(best: Found, dag: Dag, types: Ints | None, cost: Cost) -> Found:
    return best if types is None else _cheaper(best, replay(dag, types.tolist()), cost)


def _proven(best: Found, at_least: float) -> Found:
    """No schedule of the graph, or of a part of it, costs less than `at_least`."""
    return Found(best.schedule, best.cost, max(best.at_least, at_least))


def _hardest(dag: Dag, component: Ints, count: int) -> NDArray[np.intp]:
    """The instances by their own lower bounds, the highest first."""
    chains = np.zeros((count, len(dag.types)), np.int32)
    np.maximum.at(chains, (component, dag.type), heights(dag))
    return np.argsort(-chains.sum(axis=1), kind="stable")


def replay(dag: Dag, types: list[int]) -> Schedule:
    """The schedule of a sequence of types that finishes the graph (Algorithm 1 of the paper)."""
    return follow(dag, np.array(types, np.int32))[0]


def follow(dag: Dag, types: Ints) -> tuple[Schedule, int]:
    """Follow a sequence of types while they are ready, then `critical`; returns how many nodes it did."""
    edges, frontier, batches = begin(dag)
    done = _follow(edges, frontier, start_paths(frontier, path_lengths(dag)), types, batches)
    return to_schedule(batches), int(done)


@njit
def _follow(edges: Edges, frontier: Frontier, paths: Paths, types: Ints, batches: Batches) -> int:
    done, step = 0, 0
    followed = 0
    while done < len(edges.type):
        a = types[step] if step < len(types) else critical_type(paths)
        step += 1
        if frontier.tail[a] == frontier.head[a]:
            continue
        done = record(batches, frontier, a)
        if step <= len(types):
            followed = done
        execute(edges, frontier, a)
        step_paths(frontier, paths, a)
    return followed
