"""The linear rule with repaired schedules: between rules and searches in time and in batches."""

from __future__ import annotations

from dataclasses import dataclass

from abw.core.graph.bounds import lower_bound
from abw.core.graph.dag import Dag
from abw.core.policy.reverse import reversed_dag, reversed_schedule
from abw.core.policy.rules.linear import Linear
from abw.core.policy.schedule import Schedule
from abw.core.policy.search.repair import repair
from abw.core.policy.search.search import replay


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
