"""`abw bench serve`: a server under load."""

from __future__ import annotations

from typing import Annotated

import typer

from abw.cli.bench.app import SPECS, DataDir, Hidden, Runs, Shown, SpecsDir, bench
from abw.cli.console import amount, counted, duration, grid
from abw.core.base.progress import Progress


@bench
def serve(
    told: Progress,
    data: DataDir,
    specs: SpecsDir = SPECS,
    hidden: Hidden = 128,
    connections: Annotated[int, typer.Option("--connections", min=1, help="As fast as they can.")] = 64,
    rate: Annotated[int, typer.Option("--rate", min=1, help="Requests a second at fixed times.")] = 500,
    seconds: Annotated[float, typer.Option("--seconds", min=0.1, help="Of each load.")] = 4.0,
    requests: Annotated[
        int, typer.Option("--requests", min=0, metavar="N", help="So many more, for the memory held.")
    ] = 0,
    runs: Runs = 3,
) -> Shown:
    """A tree LSTM behind HTTP: batched across requests, one at a time, and PyTorch in the same server."""
    from abw.bench.serving.serve import bench_serve

    report = bench_serve(specs, data, hidden, connections, rate, seconds, runs, requests, told)
    yield report
    table = grid(
        "engine", "requests/s", "x", "p50", "p99", f"p50 at {rate}/s", "p99", "CPU, HTTP", "CPU, engine"
    )  # fmt: skip
    first = report["rows"][0]["full"]["per_second"]
    for r in report["rows"]:
        full, calm = r["full"], r["calm"]
        times = (full["p50"], full["p99"], calm["p50"], calm["p99"], r["http_cpu"], r["engine_cpu"])
        over = f"{first / full['per_second']:.2f}"
        table.add_row(r["engine"], amount(full["per_second"]), over, *map(duration, times))
    yield table
    if memory := report["memory"]:
        before, after = (amount(memory[f"{when}_bytes"], "B") for when in ("before", "after"))
        yield f"held before and after {memory['requests']:,} requests: {before}, {after}"
    if failed := sum(r["failed"] for r in report["rows"]):
        yield f"{counted(failed, 'request')} failed"
