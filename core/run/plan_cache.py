"""Mini-batches that are run again and again, by other weights: planned once, where their plans are small."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from abw.core.base.progress import Clock
from abw.core.exec.interface import Executor, Result
from abw.core.policy.schedule import Policy
from abw.core.run.footprint import footprint_of
from abw.core.run.minibatches import MiniBatch, run_all
from abw.core.run.workload import Workload

# So many bytes of graphs and plans are kept at most: of some 10,000 short sentences.
MOST = 64 << 20


@dataclass(slots=True)
class Again:
    """The mini-batches of a workload, batched by a policy.

    `kept` are planned already; where all of them would take more than `most` bytes, or grow, none is kept,
    and each run plans them anew. Values are the same to the bit.
    """

    workload: Workload
    policy: Policy
    most: int = MOST
    kept: list[MiniBatch] = field(default_factory=list)
    keeps: bool = True

    def run(self, executor: Executor) -> Iterator[tuple[MiniBatch, Result]]:
        """Run all, in order, on an executor of the workload's network; as `run_all`.

        An executor must not have other threads than that of the first run.
        """
        if self.kept:
            for batch in self.kept:
                yield batch, executor.run(batch.plan)
            return
        kept: list[MiniBatch] = []
        left = self.most
        clock = Clock("construct", "schedule", "plan", "execute")
        for batch, result in run_all(self.workload, self.policy, executor, clock):
            left -= footprint_of(batch).graph
            self.keeps = self.keeps and left >= 0 and batch.grown is None
            if self.keeps:
                kept.append(batch)
            yield batch, result
        self.kept = kept if self.keeps else []
