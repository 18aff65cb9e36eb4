"""What a run's mini-batches are compared with, and which of them are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from abw.core.graph.bounds import lower_bound
from abw.core.graph.growing.history import bound_by_rounds
from abw.core.policy.registry import get_policy
from abw.core.policy.schedule import ready_counts
from abw.core.run.run import Observer, Ran
from abw.core.store.runs import save_batch

# The policies that a run's summary stands beside its own.
COMPARED = ("depth", "agenda")
# Of so many mini-batches a run keeps graph and schedule, and compares policies on them.
KEPT = 32


class Compared(Observer[Ran[Any]]):
    """Mini-batches compared with what there could be; graphs and schedules of the first ones are kept.

    `whole`: mini-batches whose graph was looked at as a whole, for its lower bound and what was avoided: all
    that were planned so, of others only the ones kept. Of what grew, bound and other policies are those of
    the graph in the end; `by_rounds` is the bound of batches that are made round by round, as the run's own.
    """

    def __init__(self, policy: str) -> None:
        """`policy`: what the run's own is called."""
        self.policy = policy
        self.kept = self.batches = self.kept_bound = self.by_rounds = self.whole = self.bound = 0
        self.kernels_avoided = self.bytes_avoided = 0
        self.compared = dict.fromkeys(COMPARED, 0)

    def begin(self, folder: Path) -> None:
        """The folder takes what is kept."""
        self.folder = folder

    def look(self, ran: Ran[Any]) -> None:
        """Compare a mini-batch, and keep it if it is one of the first."""
        keep = ran.number < KEPT
        batch = ran.batch
        if not (keep or (batch and batch.grown is None)):
            return
        graph, dag, schedule = ran.whole()
        bound = int(lower_bound(dag).sum())
        self.whole += 1
        self.bound += bound
        if batch:
            contiguous = batch.plan.counts
            self.kernels_avoided += contiguous.memory_kernels - ran.counted["memory_kernels"]
            self.bytes_avoided += contiguous.bytes_moved - ran.counted["bytes_moved"]
        if not keep:
            return
        rounds = ran.keep(self.folder)
        if rounds is not None:
            self.by_rounds += int(bound_by_rounds(dag, rounds).sum())
        save_batch(self.folder, ran.number, graph, dag, schedule, ready_counts(dag, schedule, rounds))
        for name in COMPARED:
            self.compared[name] += len(get_policy(name).schedule(dag))
        self.kept += 1
        self.batches += len(schedule)
        self.kept_bound += bound

    def report(self, report: dict[str, Any], folder: Path) -> None:
        """What the run compares itself with; what is not known of all mini-batches is left open."""
        report["compared"] = {**self.compared, self.policy: self.batches}
        report |= {"kept": self.kept, "kept_lower_bound": self.kept_bound}
        if report["growth"]:
            report["kept_bound_by_rounds"] = self.by_rounds
        if self.whole == report["mini_batches"]:
            report["lower_bound"] = self.bound
            if not report.get("program"):  # which has no plan of the whole
                avoided = {
                    "memory_kernels_avoided": self.kernels_avoided,
                    "bytes_avoided": self.bytes_avoided,
                }
                report |= avoided
