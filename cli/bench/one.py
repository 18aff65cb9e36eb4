"""`abw bench one`: one small instance from Python."""

from __future__ import annotations

from typing import Annotated

import typer

from abw.cli.bench.app import SPECS, DataDir, Hidden, Runs, Shown, SpecsDir, bench
from abw.cli.console import duration, grid
from abw.core.base.progress import Progress


@bench
def one(
    told: Progress,
    data: DataDir,
    specs: SpecsDir = SPECS,
    hidden: Hidden = 128,
    nodes: Annotated[list[int], typer.Option("--nodes", min=1, help="Nodes of a tree; can be repeated.")] = [
        37
    ],
    runs: Runs = 100,
) -> Shown:
    """One small instance from Python: a call of a tree LSTM with a tree's text, warm, on one thread."""
    from abw.bench.whole.one import bench_one

    report = bench_one(specs, data, hidden, nodes, runs, told)
    yield report
    table = grid("nodes", "trees", "p50", "p90", "kernels alone")
    for r in report["rows"]:
        times = map(duration, (r["p50"], r["p90"], r["kernels"]))
        table.add_row(str(r["nodes"]), str(r["trees"]), *times)
    yield table
