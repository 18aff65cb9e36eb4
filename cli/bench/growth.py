"""`abw bench growth`: graphs that grow on decisions."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from abw.cli.bench.app import DataDir, Runs, Shown, SpecsDir, bench
from abw.cli.console import amount, duration, grid


@bench("growth")
def growth(
    data: DataDir,
    specs: SpecsDir = Path("specs"),
    torch: Annotated[bool, typer.Option("--torch/--no-torch", help="Beside PyTorch by hand.")] = True,
    runs: Runs = 7,
) -> Shown:
    """Rounds of growing models: what they take beside kernels, and PyTorch batched by hand (needs torch)."""
    from abw.bench.growth.growth import bench_growth

    report = bench_growth(data, runs, specs, torch=torch)
    yield report
    beside = report["overhead"]
    yield f"beside kernels: {1e9 * beside['round']:.0f} ns a round, {1e9 * beside['node']:.0f} ns a node"
    for row in report["scores"]:
        yield f"argmax of {row['words']:,} scores: {1e9 * row['seconds']:.3f} ns a score"
    table = grid("greedy", "words", "mini-batch", "tokens/s", "PyTorch", "times", "from instances on")
    for row in report["decoding"]:
        rates = [_rate(row["tokens"], row[key]) for key in ("seconds", "torch_seconds", "whole_seconds")]
        table.add_row(
            str(row["hidden"]), f"{row['words']:,}", str(row["batch"]), *rates[:2], _times(row), rates[2]
        )
    yield table
    table = grid(
        "parser", "mini-batch", "actions", "time", "PyTorch", "times", "two threads", "from instances on"
    )
    for row in report["parsing"]:
        taken = [duration(row[k]) if row[k] else "" for k in ("seconds", "torch_seconds")]
        table.add_row(
            str(row["hidden"]), str(row["batch"]), amount(row["actions"]), *taken, _times(row),
            f"{row['seconds'] / row['two_seconds']:.2f} x", duration(row["whole_seconds"]),
        )  # fmt: skip
    yield table


def _rate(count: int, seconds: float | None) -> str:
    return amount(count / seconds) if seconds else ""


def _times(row: dict[str, float]) -> str:
    return f"{row['torch_seconds'] / row['seconds']:.1f} x" if row["torch_seconds"] else ""
