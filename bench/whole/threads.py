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
from pathlib import Path
from typing import Any, NamedTuple

from abw.bench.timing import interleaved
from abw.bench.workloads import case
from abw.core.api import load
from abw.core.base.errors import AbwError
from abw.core.base.progress import Progress, each

MODELS = ("TreeLSTM", "LatticeLSTM", "BiLSTM-Tagger", "LSTM-NMT")


def bench_threads(
    data: Path,
    hidden: int,
    batches: list[int],
    threads: list[int],
    instances: int,
    runs: int,
    specs: Path,
    progress: Progress,
) -> dict[str, Any]:
    """Medians of `runs` rounds by the wall clock, in which all numbers of threads take turns with one.

    A row a model and size of mini-batch: `seconds` of one thread for the first `instances` of the model's
    file; of each number of threads `times` how many times as fast it is, `limit` how many times as much so
    many processes side by side do as one, each on one thread, and `busy` as `times` beside a process that
    keeps one processor busy. Errors: AbwError.
    """
    rows = []
    with _others(max(threads) - 1) as others:
        for name, batch in each([(n, b) for n in MODELS for b in batches], progress, "threads"):
            row = _Row(str(specs / case(name).spec), str(data / case(name).data), hidden, batch, instances)
            rows.append({"model": name, "batch": batch, **_measured(row, threads, runs, others)})
    return {"schema_version": 1, "hidden": hidden, "instances": instances, "runs": runs, "rows": rows}


class _Row(NamedTuple):
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


def _measured(row: _Row, threads: list[int], runs: int, others: list[_Other]) -> dict[str, Any]:
    work = {str(count): row.on(count) for count in [1, *threads]}
    for other in others:
        other.tell(row)

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
    return {
        "seconds": idle["1"],
        "times": {str(n): idle["1"] / idle[str(n)] for n in threads},
        "limit": {str(n): n * idle["1"] / idle[f"apart {n}"] for n in threads},
        "busy": {str(n): beside["1"] / beside[str(n)] for n in threads},
    }


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

    def tell(self, row: _Row | None) -> None:
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
            run = _Row(*row).on(1)
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
