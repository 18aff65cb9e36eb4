"""`abw bench programs`: models as Python functions."""

from __future__ import annotations

from typing import Annotated

import typer

from abw.cli.bench.app import SPECS, DataDir, Runs, Shown, SpecsDir, bench
from abw.cli.console import amount, duration, grid
from abw.core.base.errors import GLUE


@bench
def programs(
    data: DataDir,
    specs: SpecsDir = SPECS,
    torch: Annotated[bool, typer.Option("--torch/--no-torch", help="Beside PyTorch by hand.")] = True,
    runs: Runs = 7,
) -> Shown:
    """Models as Python functions: recording, waiting, and PyTorch batched by hand (needs torch)."""
    from abw.bench.growth.programs import bench_programs

    report = bench_programs(data, runs, specs, torch=torch)
    yield report
    of = {name: f"{1e9 * seconds:,.0f}{GLUE}ns" for name, seconds in report["recording"].items()}
    yield f"a call recorded: {of['call']}, by Python {of['python']}; an empty function: {of['empty']}"
    yield f"an ask of one of 64 programs: {of['ask']}, yielded {of['yielded']}; a round of one: {of['round']}"
    row = report["trees"]
    taken = ", ".join(f"{name} {duration(row[name])}" for name in ("recorded", "python", "run", "kernels"))
    yield f"TreeLSTM by recursion, {row['trees']:.0f} trees, {row['nodes']:,.0f} nodes: {taken}"
    table = grid("parser, hidden", "actions", "rounds", "plain", "generator", "PyTorch", "times", "times")
    for row in report["parsing"]:
        shown = [duration(row[name]) for name in ("plain", "yielding")]
        if "torch" in row:
            times = [f"{row['torch'] / row[name]:.1f} x" for name in ("plain", "yielding")]
            shown += [duration(row["torch"]), *times]
        table.add_row(str(row["hidden"]), amount(row["actions"]), str(row["rounds"]), *shown)
    yield table
    table = grid("beam of 4, hidden", "mini-batch", "sentences", "words", "program", "PyTorch", "times")
    for row in report["beams"]:
        shown = [str(row["hidden"]), str(row["batch"]), str(row["sentences"]), amount(row["words"])]
        shown.append(duration(row["plain"]))
        if "torch" in row:
            shown += [duration(row["torch"]), f"{row['torch'] / row['plain']:.1f} x"]
        table.add_row(*shown)
    yield table
