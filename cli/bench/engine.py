"""`abw bench engine`: runs by `--engine ray`."""

from __future__ import annotations

from typing import Annotated

import typer

from abw.cli.bench.app import SPECS, DataDir, Hidden, Runs, Shown, SpecsDir, bench
from abw.cli.console import amount, duration, grid
from abw.core.base.progress import Progress


@bench
def engine(
    told: Progress,
    data: DataDir,
    specs: SpecsDir = SPECS,
    hidden: Hidden = 128,
    instances: Annotated[int, typer.Option("--instances", min=10, metavar="N", help="Trees.")] = 200_000,
    workers: Annotated[list[int], typer.Option("--workers", min=1, help="Processes; can be repeated.")] = [
        1,
        2,
    ],
    runs: Runs = 3,
) -> Shown:
    """A tree LSTM in shards on Ray: what an instance takes beyond the start, by driver, Ray and workers."""
    from abw.bench.whole.engine import bench_engine

    report = bench_engine(specs, data, hidden, instances, workers, runs, told)
    yield report
    table = grid(
        "workers", "an instance", "x", "CPU, driver", "CPU, Ray", "CPU, workers", "CPU, start", "driver held"
    )
    rows = report["rows"]
    for r in rows:
        over = f"{rows[0]['seconds'] / r['seconds']:.2f}"
        cpu = (r["driver_cpu"], r["engine_cpu"], r["worker_cpu"], r["start_cpu"])
        table.add_row(
            str(r["workers"]),
            duration(r["seconds"]),
            over,
            *map(duration, cpu),
            amount(r["driver_bytes"], "B"),
        )
    yield table
