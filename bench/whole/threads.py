"""What several threads bring from a file's text to outputs, on idle processors and beside a busy process."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from abw.bench.timing import interleaved
from abw.bench.workloads import case
from abw.core.api import LoadedModel, load
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
    file, `times` how many times as fast each number of threads is, `busy` the same beside a process that
    keeps one processor busy. Errors: AbwError.
    """
    rows = []
    for name, batch in each([(n, b) for n in MODELS for b in batches], progress, "threads"):
        rows.append(_row(name, batch, data, hidden, threads, instances, runs, specs))
    return {"schema_version": 1, "hidden": hidden, "instances": instances, "runs": runs, "rows": rows}


def _row(
    name: str, batch: int, data: Path, hidden: int, threads: list[int], instances: int, runs: int, specs: Path
) -> dict[str, Any]:
    chosen = case(name)
    models = {count: _model(specs / chosen.spec, hidden, batch, count, instances) for count in [1, *threads]}
    file = data / chosen.data
    work = {str(count): partial(_run, model, file) for count, model in models.items()}
    idle = _seconds(work, runs)
    with _busy():
        beside = _seconds(work, runs)
    return {
        "model": name,
        "batch": batch,
        "seconds": idle["1"],
        "times": {str(n): idle["1"] / idle[str(n)] for n in threads},
        "busy": {str(n): beside["1"] / beside[str(n)] for n in threads},
    }


def _seconds(work: dict[str, Any], runs: int) -> dict[str, float]:
    interleaved(work, 1)
    return interleaved(work, runs, time.perf_counter)


def _model(spec: Path, hidden: int, batch: int, threads: int, instances: int) -> LoadedModel:
    model = load(spec, dims={"hidden": hidden}, batch=batch, policy="sufficient", threads=threads)
    model.spec = replace(model.spec, data=replace(model.spec.data, limit=instances))
    return model


def _run(model: LoadedModel, file: Path) -> None:
    for _ in model.stream(file):
        pass


@contextmanager
def _busy() -> Iterator[None]:
    """A process that computes all the time."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        yield
    finally:
        process.kill()
        process.wait()
