"""What several threads bring from a file's text to outputs, on idle processors and beside a busy process."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, NamedTuple

import typer

from abw.bench.options import SPECS, BatchSizes, DataDir, Hidden, Instances, Runs, SpecsDir
from abw.bench.rows import Row, Rows
from abw.bench.timing import interleaved
from abw.bench.workloads import case
from abw.core.api import load
from abw.core.base.errors import AbwError

MODELS = ("TreeLSTM", "LatticeLSTM", "BiLSTM-Tagger", "LSTM-NMT")


def threads(
    data: DataDir,
    specs: SpecsDir = SPECS,
    hidden: Hidden = 128,
    batch: BatchSizes = [64, 8],
    threads: Annotated[
        list[int], typer.Option("--threads", min=2, help="Threads to compare with one; repeatable.")
    ] = [2],
    instances: Instances = 1024,
    runs: Runs = 9,
) -> Rows:
    """Compare several threads and several processes with one, from text to outputs.

    Wall clock. `processes`: the throughput of as many single-threaded processes over one; `beside a busy
    one`: the speed-up while another process keeps a core busy.
    """
    with _others(max(threads) - 1) as others:
        for name, size in ((n, b) for n in MODELS for b in batch):
            job = _Job(str(specs / case(name).spec), str(data / case(name).data), hidden, size, instances)
            yield from _measured(name, job, threads, runs, others)


class _Job(NamedTuple):
    """What is run: so many instances of a file through a spec."""

    spec: str
    file: str
    hidden: int
    batch: int
    instances: int

    def on(self, threads: int) -> Callable[[], None]:
        """What runs it on so many threads."""
        model = load(
            self.spec, dims={"hidden": self.hidden}, batch=self.batch, policy="sufficient", threads=threads
        )
        model.spec = replace(model.spec, data=replace(model.spec.data, limit=self.instances))

        def run() -> None:
            for _ in model.stream(self.file):
                pass

        return run


def _measured(name: str, job: _Job, threads: list[int], runs: int, others: list[_Other]) -> Rows:
    work = {str(count): job.on(count) for count in [1, *threads]}
    for other in others:
        other.tell(job)

    def side_by_side(some: list[_Other]) -> None:
        for other in some:
            other.tell(None)
        work["1"]()
        for other in some:
            other.wait()

    for other in others:
        other.wait()
    apart = {f"apart {count}": partial(side_by_side, others[: count - 1]) for count in threads}
    idle = _seconds({**work, **apart}, runs)
    with _busy():
        beside = _seconds(work, runs)
    for count in threads:
        yield Row(
            "",
            model=name,
            batch=job.batch,
            threads=count,
            one_thread_seconds=idle["1"],
            threads_times=idle["1"] / idle[str(count)],
            processes_times=count * idle["1"] / idle[f"apart {count}"],
            beside_a_busy_one_times=beside["1"] / beside[str(count)],
        )


def _seconds(work: dict[str, Any], runs: int) -> dict[str, float]:
    interleaved(work, 1)
    return interleaved(work, runs, time.perf_counter)


class _Other:
    """A process that runs the same on one thread when it is told to."""

    def __init__(self) -> None:
        code = f"from {__name__} import other; other()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def tell(self, row: _Job | None) -> None:
        """Get a row ready, or run it."""
        assert self.process.stdin is not None
        print(json.dumps(row), file=self.process.stdin, flush=True)

    def wait(self) -> None:
        """Until that is done. Errors: AbwError where the process has ended."""
        assert self.process.stdout is not None
        if not self.process.stdout.readline():
            raise AbwError("a process that ran beside this one has ended")


def other() -> None:
    """What such a process does: as standard input says, a line a task."""
    run = None
    for line in sys.stdin:
        row = json.loads(line)
        if row is not None:
            run = _Job(*row).on(1)
        assert run is not None
        run()
        print("done", flush=True)


@contextmanager
def _others(count: int) -> Iterator[list[_Other]]:
    with ExitStack() as stack:
        found = []
        for _ in range(count):
            found.append(_Other())
            stack.enter_context(found[-1].process)
            stack.callback(found[-1].process.kill)
        yield found


@contextmanager
def _busy() -> Iterator[None]:
    """A process that computes all the time."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()
