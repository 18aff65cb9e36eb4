"""What is measured, compared, checked and kept during a run."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path
from typing import Any

from abw.core.base.memory import peak_resident, peak_since, resident, settle
from abw.core.base.progress import Clock, SpanClock
from abw.core.exec.interface import Profiler
from abw.core.graph.bounds import lower_bound
from abw.core.graph.growing.history.history import bound_by_rounds
from abw.core.ir.growth import Growth
from abw.core.ir.network import Network
from abw.core.policy.registry import get_policy
from abw.core.policy.schedule import ready_counts
from abw.core.run.observing.footprint import Footprint, footprint_of
from abw.core.run.observing.trace import TRACED, save_times, write_trace
from abw.core.run.options import CommonOptions
from abw.core.run.run import KEPT, Observer, Ran
from abw.core.run.streaming import RanModel
from abw.core.store.grown import GrownWriter
from abw.core.store.runs import save_batch


class Memory(Observer[Ran[Any]]):
    """Measures memory: of the process before the first mini-batch and at its peak, and the predicted need of
    the largest mini-batch.
    """

    needed: Footprint | None = None

    def begin(self, folder: Path) -> None:
        """Note what the process holds."""
        self.earlier, self.before = peak_resident(), settle()

    def look(self, ran: Ran[Any]) -> None:
        """Note what a mini-batch needs, before other observers cache properties of its graph."""
        found = footprint_of(ran.batch) if ran.batch else None
        if found and (self.needed is None or found.total > self.needed.total):
            self.needed = found

    def end(self) -> None:
        """Note the peak."""
        self.during = peak_since()

    def report(self, report: dict[str, Any], folder: Path) -> None:
        """Report bytes; None if they cannot be measured or predicted."""
        report["peak_memory_bytes"] = max(self.earlier, peak_resident())
        before, needed, during = self.before, self.needed, self.during
        if before is not None and needed is not None and during is not None:
            report["memory"] = {
                "before_bytes": before,
                "arenas_bytes": needed.arenas,
                "mini_batch_bytes": needed.total,
                "predicted_bytes": before + max(1, report["abreast"]) * needed.total,
                "measured_bytes": during,
            }


class Verification(Observer[Ran[Any]]):
    """Checks schedules, plans, values and decisions."""

    error, decisions, close = 0.0, 0, 0

    def read(self, ran: Ran[Any]) -> None:
        """Check a mini-batch. Errors: AbwError."""
        error, decisions, close = ran.verify()
        self.error = max(self.error, error)
        self.decisions += decisions
        self.close += close

    def report(self, report: dict[str, Any], folder: Path) -> None:
        """Report the largest error, and the number of decisions that were made again."""
        report["max_error"] = self.error
        for decided in filter(None, (report["growth"], report.get("program"))):
            decided |= {"decisions": self.decisions, "close": self.close}


def usual_observers(options: CommonOptions, policy: str) -> list[Observer[Any]]:
    """The observers of every run by a `policy` of that name."""
    found: list[Observer[Any]] = [Memory(), Compared(policy)]
    return [*found, Verification()] if options.verify else found


class Timeline(Observer[RanModel]):
    """Records where an executor's time goes: a profile, a trace, and when each batch was executed.

    `trace`: the file of the trace. `sampled`: whether there is a profile. `keep`: whether times are kept in
    the run's folder.
    """

    def __init__(self, profiler: Profiler | None, trace: Path | None, *, sampled: bool, keep: bool) -> None:
        self.profiler, self.trace, self.keep = profiler, trace, keep
        self.sampled = profiler if sampled else None

    def measure(self, clock: Clock, network: Network) -> None:
        """Begin to measure, by the clock and network of the run."""
        self.clock, self.network = clock, network
        if self.sampled:
            self.sampled.measure()
        if self.profiler:
            self.profiler.record(TRACED)

    def begin(self, folder: Path) -> None:
        """Forget the runs that chose the mini-batch."""
        if self.profiler:
            self.profiler.record(TRACED)

    def read(self, ran: RanModel) -> None:
        """Sample the plan that was run last."""
        if self.sampled:
            self.sampled.sample(ran.batch.plan)

    def report(self, report: dict[str, Any], folder: Path) -> None:
        """Report the profile; write the trace and the times. Errors: AbwError if they cannot be written."""
        noted = self.profiler.recorded() if self.profiler else []
        if self.trace and isinstance(self.clock, SpanClock):
            write_trace(self.trace, report, self.clock.spans, noted, self.network)
        report["profile"] = self.sampled and self.sampled.profile().document()
        if self.keep and not (report["in_pieces"] or report["growth"]):
            save_times(folder, noted[: report["kept"]])  # else runs of plans are no mini-batches


class Growing(Observer[RanModel]):
    """Counts vertices that grow, by kind, and instances cut off at `most`; also why Python drove the rounds.

    `writer`: writes the instances when they have grown.
    """

    def __init__(self, growth: Growth, writer: GrownWriter | None) -> None:
        self.growth, self.writer = growth, writer
        self.driven: str | None = None
        self.vertices, self.cut = Counter[str](), Counter[str]()

    def read(self, ran: RanModel) -> None:
        """Count and write what has grown in a mini-batch."""
        grown = ran.batch.grown
        assert grown is not None
        self.driven = self.driven or grown.driven
        self.cut.update(grown.cut)
        self.vertices.update({kind: grown.vertices.get(kind, 0) for kind in self.growth.grown})
        if self.writer:
            with ran.run.clock("write"):
                self.writer.write(grown.instances)

    def report(self, report: dict[str, Any], folder: Path) -> None:
        """Report everything but rounds and decisions."""
        cut = {kind.name: kind.most for kind in self.growth.kinds if self.cut.get(kind.name)}
        report["growth"] |= {
            "driven": self.driven,
            "vertices": dict(self.vertices),
            "cut": {name: {"instances": self.cut[name], "most": most} for name, most in cut.items()},
        }


# The policies that a run is compared with.
COMPARED = ("depth", "agenda")


class Compared(Observer[Ran[Any]]):
    """Compares the run with lower bounds and other policies.

    Keeps the graphs and schedules of the first mini-batches. `whole` counts the mini-batches whose complete
    graph was examined: all that were planned as a whole, of others only those kept. Bounds and other policies
    are those of the graph after growth; `by_rounds` is the bound of batches that are made round by round, as
    the run's own are.
    """

    def __init__(self, policy: str) -> None:
        """`policy`: the name of the run's own."""
        self.policy = policy
        self.kept = self.batches = self.kept_bound = self.by_rounds = self.whole = self.bound = 0
        self.kernels_avoided = self.bytes_avoided = 0
        self.compared = dict.fromkeys(COMPARED, 0)

    def begin(self, folder: Path) -> None:
        """Note the folder of what is kept."""
        self.folder = folder

    def look(self, ran: Ran[Any]) -> None:
        """Compare a mini-batch; keep it if it is one of the first."""
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
        """Report the comparison; what is not known for all mini-batches stays None."""
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


# The most marks of mini-batches that are kept; of more, every second one, every fourth, and so on.
MARKS = 256


class Resident(Observer[Ran[Any]]):
    """Records what the process holds at marks of a run, if asked to; a mark costs some 30 us."""

    def __init__(self, *, asked: bool) -> None:
        """Start the clock."""
        self._asked, self._begin = asked, time.perf_counter()
        self._marks: list[dict[str, Any]] = []
        self._every = 1

    def mark(self, name: str, mini_batch: int | None = None) -> None:
        """Record that `name` is done: a noun, or the mini-batch of this number."""
        if not self._asked or (mini_batch or 0) % self._every or (held := resident()) is None:
            return
        seconds = time.perf_counter() - self._begin
        self._marks.append(
            {"name": name, "mini_batch": mini_batch, "seconds": seconds, "resident_bytes": held}
        )
        if sum(mark["mini_batch"] is not None for mark in self._marks) > MARKS:
            self._every *= 2
            self._marks = [mark for mark in self._marks if (mark["mini_batch"] or 0) % self._every == 0]

    def read(self, ran: Ran[Any]) -> None:
        """Mark a mini-batch."""
        self.mark("mini-batch", ran.number)

    def document(self) -> list[dict[str, Any]] | None:
        """The marks in order, with seconds since the start; None if nothing was recorded."""
        return self._marks or None

    def report(self, report: dict[str, Any], folder: Path) -> None:
        """Mark the end, and report all marks."""
        self.mark("writing")
        report["resident"] = self.document()
