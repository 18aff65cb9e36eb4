"""`abw bench programs`: models as Python functions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from abw.cli.bench.app import DataDir, Runs, Shown, SpecsDir, bench
from abw.cli.console import amount, duration, grid


@bench("programs")
def programs(
    data: DataDir,
    specs: SpecsDir = Path("specs"),
    torch: Annotated[bool, typer.Option("--torch/--no-torch", help="Beside PyTorch by hand.")] = True,
    runs: Runs = 7,
) -> Shown:
    """Models as Python functions: recording, waiting, and PyTorch batched by hand (needs torch)."""
    from abw.bench.growth.programs import bench_programs

    report = bench_programs(data, runs, specs, torch=torch)
    yield report
    call, empty = report["recording"]["call"], report["recording"]["empty"]
    yield f"a call recorded: {1e9 * call:.0f} ns; an empty function: {1e9 * empty:.0f} ns"
    row = report["trees"]
    taken = ", ".join(f"{name} {duration(row[name])}" for name in ("recorded", "anew", "again", "kernels"))
    yield f"TreeLSTM by recursion, {row['trees']:.0f} trees, {row['nodes']:,.0f} nodes: {taken}"
    table = grid("parser", "actions", "rounds", "plain", "generator", "again", "PyTorch", "times")
    for row in report["parsing"]:
        times = [duration(row[name]) for name in ("plain", "yielding", "again")]
        theirs = (
            [duration(row["torch"]), f"{row['torch'] / row['plain']:.1f} x"] if "torch" in row else ["", ""]
        )
        table.add_row(str(row["hidden"]), amount(row["actions"]), str(row["rounds"]), *times, *theirs)
    yield table
