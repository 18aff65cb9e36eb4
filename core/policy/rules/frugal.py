"""The batch that raises the bound of the whole cost least; the critical path decides between equals."""

from __future__ import annotations

from dataclasses import dataclass

from abw.core.graph.bounds import chains
from abw.core.graph.dag import Dag
from abw.core.jit.decorators import inner, njit
from abw.core.policy.cost import Cost, counting, regret
from abw.core.policy.rules.critical import Paths, start_paths, step_paths
from abw.core.policy.rules.frontier import Batches, Edges, Frontier, begin, execute, record, to_schedule
from abw.core.policy.rules.remaining import Remaining, is_free, start_remaining, step_remaining
from abw.core.policy.schedule import Schedule


@dataclass(frozen=True, slots=True)
class Frugal:
    """The type goes first whose batch raises cost so far plus least remaining cost (`regret`) least.

    Among equals `Critical` decides. Without a cost, batches are counted: those that lower the remaining lower
    bound go first. That needs fewer batches than `Critical` on chains, on two-type trees and at granularity
    `op`, a few more on lattices, and more than twice the time.
    """

    cost: Cost | None = None

    def schedule(self, dag: Dag) -> Schedule:
        """O((n + m) * recurrent types / 4 + batches * types)."""
        edges, frontier, batches = begin(dag)
        cost = counting(len(dag.types)) if self.cost is None else self.cost
        length, height = chains(dag)
        paths, remaining = start_paths(frontier, length), start_remaining(dag, frontier, height)
        _frugal(edges, frontier, paths, remaining, cost, batches)
        return to_schedule(batches)


@inner
def _cheapest(frontier: Frontier, paths: Paths, remaining: Remaining, cost: Cost) -> int:
    longest, number = paths.longest, paths.number
    best, least = -1, 0.0
    for t in range(len(longest)):
        ready = frontier.tail[t] - frontier.head[t]
        if ready == 0:
            continue
        rows = frontier.end[t] - frontier.head[t]
        more = regret(cost, t, ready, rows, remaining.top[t], is_free(remaining, t))
        better = best < 0 or more < least
        if not better and more == least:
            better = longest[t] > longest[best] or (longest[t] == longest[best] and number[t] > number[best])
        if better:
            best, least = t, more
    return best


@njit
def _frugal(
    edges: Edges, frontier: Frontier, paths: Paths, remaining: Remaining, cost: Cost, batches: Batches
) -> None:
    done = 0
    while done < len(edges.type):
        a = _cheapest(frontier, paths, remaining, cost)
        done = record(batches, frontier, a)
        execute(edges, frontier, a)
        step_paths(frontier, paths, a)
        step_remaining(frontier, remaining, a)
