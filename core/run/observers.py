"""What is measured, checked and written beside a run."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from abw.core.base.memory import peak_resident, peak_since, settle
from abw.core.base.progress import Clock, SpanClock
from abw.core.exec.interface import Profiler, Recorder
from abw.core.ir.growth import Growth
from abw.core.ir.network import Network
from abw.core.run.compared import Compared
from abw.core.run.footprint import Footprint, footprint_of
from abw.core.run.options import CommonOptions
from abw.core.run.run import Observer, Ran
from abw.core.run.streaming import RanModel
from abw.core.run.times import save_times
from abw.core.run.trace import TRACED, write_trace
from abw.core.store.grown import GrownWriter


class Memory(Observer[Ran[Any]]):
    """What the process held before the first mini-batch, what the largest one was said to take on top of it,
    where so many ran at once, and the peak while they ran.
    """

    needed: Footprint | None = None

    def begin(self, folder: Path) -> None:
        """What is held before."""
        self.earlier, self.before = peak_resident(), settle()

    def look(self, ran: Ran[Any]) -> None:
        """What a mini-batch needs, before others look at its graph and keep what they find."""
        found = footprint_of(ran.batch) if ran.batch else None
        if found and (self.needed is None or found.total > self.needed.total):
            self.needed = found

    def end(self) -> None:
        """The peak."""
        self.during = peak_since()

    def report(self, report: dict[str, Any], folder: Path) -> None:
        """Bytes; None where they cannot be measured, or were not said."""
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
    """Schedules, plans, values and decisions, checked."""

    error, decisions, close = 0.0, 0, 0

    def read(self, ran: Ran[Any]) -> None:
        """Check a mini-batch. Errors: AbwError for what is wrong."""
        error, decisions, close = ran.verify()
        self.error = max(self.error, error)
        self.decisions += decisions
        self.close += close

    def report(self, report: dict[str, Any], folder: Path) -> None:
        """The largest error; of what decides how many decisions were made again."""
        report["max_error"] = self.error
        for decided in filter(None, (report["growth"], report.get("program"))):
            decided |= {"decisions": self.decisions, "close": self.close}


def usual_observers(options: CommonOptions, policy: str) -> list[Observer[Any]]:
    """What observes every run; its `policy` by its name."""
    found: list[Observer[Any]] = [Memory(), Compared(policy)]
    return [*found, Verification()] if options.verify else found


class Timeline(Observer[RanModel]):
    """Where the time of a model's executor goes: a profile, a trace, when each batch was executed.

    `trace`: the file that it is written to. `keep`: whether times are kept in the run's folder.
    """

    def __init__(
        self, profiler: Profiler | None, recorder: Recorder | None, trace: Path | None, *, keep: bool
    ) -> None:
        self.profiler, self.recorder, self.trace, self.keep = profiler, recorder, trace, keep

    def measure(self, clock: Clock, network: Network) -> None:
        """From now on. Both are the run's."""
        self.clock, self.network = clock, network
        if self.profiler:
            self.profiler.measure()
        if self.recorder:
            self.recorder.record(TRACED)

    def begin(self, folder: Path) -> None:
        """Note from here on, without the runs that chose the mini-batch."""
        if self.recorder:
            self.recorder.record(TRACED)

    def read(self, ran: RanModel) -> None:
        """Measure the plan that was run last."""
        if self.profiler:
            self.profiler.sample(ran.batch.plan)

    def report(self, report: dict[str, Any], folder: Path) -> None:
        """The profile, and files of the rest. Errors: AbwError where they cannot be written."""
        noted = self.recorder.recorded() if self.recorder else []
        if self.trace and isinstance(self.clock, SpanClock):
            write_trace(self.trace, report, self.clock.spans, noted, self.network)
        report["profile"] = self.profiler and self.profiler.profile().document()
        if self.keep and not (report["in_pieces"] or report["growth"]):
            save_times(folder, noted[: report["kept"]])  # else runs of plans are no mini-batches


class Growing(Observer[RanModel]):
    """What grows: vertices by kind, instances that had `most` of a kind and wanted more, why Python drove the
    rounds, if it did. `writer`: where the instances go when they have grown, if anywhere.
    """

    def __init__(self, growth: Growth, writer: GrownWriter | None) -> None:
        self.growth, self.writer = growth, writer
        self.driven: str | None = None
        self.vertices, self.cut = Counter[str](), Counter[str]()

    def read(self, ran: RanModel) -> None:
        """Count and write what has grown."""
        grown = ran.batch.grown
        assert grown is not None
        self.driven = self.driven or grown.driven
        self.cut.update(grown.cut)
        self.vertices.update({kind: grown.vertices.get(kind, 0) for kind in self.growth.grown})
        if self.writer:
            with ran.run.clock("write"):
                self.writer.write(grown.instances)

    def report(self, report: dict[str, Any], folder: Path) -> None:
        """What is said of it, besides rounds and decisions."""
        cut = {kind.name: kind.most for kind in self.growth.kinds if self.cut.get(kind.name)}
        report["growth"] |= {
            "driven": self.driven,
            "vertices": dict(self.vertices),
            "cut": {name: {"instances": self.cut[name], "most": most} for name, most in cut.items()},
        }
