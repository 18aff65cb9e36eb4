"""`abw bench threads`: what several threads bring."""

from __future__ import annotations

from typing import Annotated

import typer

from abw.cli.bench.app import (
    SPECS,
    BatchSizes,
    DataDir,
    Hidden,
    HiddenSizes,
    Runs,
    Shown,
    SpecsDir,
    bench,
)
from abw.cli.console import duration, grid
from abw.core.base.progress import Progress

Threads = Annotated[list[int], typer.Option("--threads", min=2, help="Threads beside one; can be repeated.")]


@bench
def threads(
    told: Progress,
    data: DataDir,
    specs: SpecsDir = SPECS,
    hidden: Hidden = 128,
    batch: BatchSizes = [64, 8],
    threads: Threads = [2],
    instances: Annotated[int, typer.Option("--instances", min=1, help="How many of each.")] = 1024,
    runs: Runs = 9,
) -> Shown:
    """Several threads, and as many processes, beside one: from text to outputs; and with a processor busy."""
    from abw.bench.whole.threads import bench_threads

    report = bench_threads(data, hidden, batch, threads, instances, runs, specs, told)
    yield report
    table = grid(
        "model", "mini-batch", "one thread", "threads", "times as fast", "processes", "beside a busy one"
    )
    for r in report["rows"]:
        for count, times in r["times"].items():
            said = (f"{times:.2f} x", f"{r['limit'][count]:.2f} x", f"{r['busy'][count]:.2f} x")
            table.add_row(r["model"], str(r["batch"]), duration(r["seconds"]), count, *said)
    yield table


@bench
def steps(
    told: Progress,
    data: DataDir,
    specs: SpecsDir = SPECS,
    hidden: HiddenSizes = [64, 128, 256],
    batch: BatchSizes = [64],
    threads: Threads = [2],
    steps: Annotated[int, typer.Option("--steps", min=1, help="Steps of an epoch.")] = 6,
    runs: Runs = 7,
) -> Shown:
    """Training on several threads beside one: steps of a tree LSTM and of a lattice tagger."""
    from abw.bench.whole.steps import bench_steps

    report = bench_steps(data, hidden, batch, threads, steps, runs, specs, told)
    yield report
    table = grid("model", "hidden", "mini-batch", "one thread, a step", "threads", "times as fast", "bits")
    for r in report["rows"]:
        for count, times in r["times"].items():
            said = (f"{times:.2f} x", "the same" if r["same"][count] else "others")
            table.add_row(
                r["model"], str(r["hidden"]), str(r["batch"]), duration(r["seconds"]), count, *said
            )  # fmt: skip
    yield table
