"""Compare threads and processes, from text to outputs, on idle processors and next to a busy process."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Annotated

from abw.bench.options import SPECS, BatchSizes, DataDir, Hidden, Instances, Runs, SpecsDir, numeric
from abw.bench.process import Apart
from abw.bench.rows import Row, Rows
from abw.bench.timing import interleaved
from abw.bench.workloads import case
from abw.core.api import load

THREADED = ("TreeLSTM", "LatticeLSTM", "BiLSTM-Tagger", "LSTM-NMT")


class Job:
    """The first instances of a file through a spec."""

    def __init__(self, spec: Path, file: Path, hidden: int, batch: int, instances: int) -> None:
        self._spec, self._file, self._hidden, self._batch = spec, file, hidden, batch
        self._instances = instances
        self._single: Callable[[], None] | None = None

    def on(self, threads: int) -> Callable[[], None]:
        """Return a function that runs the job on so many threads."""
        dims = {"hidden": self._hidden}
        model = load(self._spec, dims=dims, batch=self._batch, policy="sufficient", threads=threads)
        model.spec = replace(model.spec, data=replace(model.spec.data, limit=self._instances))

        def run() -> None:
            for _ in model.stream(self._file):
                pass

        return run

    def run(self) -> None:
        """Run the job on one thread."""
        self._single = self._single or self.on(1)
        self._single()


def threads(
    data: DataDir,
    specs: SpecsDir = SPECS,
    hidden: Hidden = 128,
    batch: BatchSizes = [64, 8],
    threads: Annotated[list[int], numeric("Threads to compare with one; repeatable.", min=2)] = [2],
    instances: Instances = 1024,
    runs: Runs = 9,
) -> Rows:
    """Compare several threads and several processes with one, from text to outputs.

    Wall clock. `processes`: the throughput of as many single-threaded processes over one; `beside a busy
    one`: the speed-up while another process keeps a core busy.
    """
    for name, size in product(THREADED, batch):
        given = specs / case(name).spec, data / case(name).data, hidden, size, instances
        with ExitStack() as stack:
            others = [Apart(Job, *given, seconds=600.0) for _ in range(max(threads) - 1)]
            for other in others:
                stack.callback(other.close)
            yield from _measured(name, size, Job(*given), threads, runs, others)


def _measured(name: str, batch: int, job: Job, threads: list[int], runs: int, others: list[Apart]) -> Rows:
    work = {str(count): job.on(count) for count in [1, *threads]}

    def side_by_side(some: list[Apart]) -> None:
        for other in some:
            other.start("run")
        work["1"]()
        for other in some:
            other.wait()

    apart = {f"apart {count}": partial(side_by_side, others[: count - 1]) for count in threads}
    side_by_side(others)
    interleaved({**work, **apart}, 1)  # not counted
    idle = interleaved({**work, **apart}, runs, time.perf_counter)
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            with_busy = interleaved(work, runs, time.perf_counter)
        finally:
            busy.kill()
    for count in threads:
        yield Row(
            "",
            model=name,
            batch=batch,
            threads=count,
            one_thread_seconds=idle["1"],
            threads_times=idle["1"] / idle[str(count)],
            processes_times=count * idle["1"] / idle[f"apart {count}"],
            beside_a_busy_one_times=with_busy["1"] / with_busy[str(count)],
        )
