"""`abw bench growth`: graphs that grow on decisions."""

from __future__ import annotations

from typing import Annotated

import typer

from abw.cli.bench.app import SPECS, DataDir, Runs, Shown, SpecsDir, bench
from abw.cli.console import amount, duration, grid
from abw.core.base.errors import GLUE


@bench
def growth(
    data: DataDir,
    specs: SpecsDir = SPECS,
    torch: Annotated[bool, typer.Option("--torch/--no-torch", help="Beside PyTorch by hand.")] = True,
    runs: Runs = 7,
) -> Shown:
    """Rounds of growing models: what they take beside kernels, and PyTorch batched by hand (needs torch)."""
    from abw.bench.growth.growth import bench_growth

    report = bench_growth(data, runs, specs, torch=torch)
    yield report
    beside = report["overhead"]
    yield f"beside kernels: {_nanoseconds(beside['round'])} a round, {_nanoseconds(beside['node'])} a node"
    for row in report["scores"]:
        spent = ", ".join(f"{what} {1e9 * seconds:.3f}" for what, seconds in row["seconds"].items())
        yield f"of {row['words']:,} scores, ns a score: {spent}"
    table = grid(
        "whole mini-batches", "hidden", "mini-batch", "nodes", "read", "names", "kernels", "beside them",
        "from text to outputs",
    )  # fmt: skip
    for row in report["whole"]:
        taken = [row["seconds"][step] for step in ("read", "names", "kernels", "beside")]
        parts = [duration(seconds) for seconds in (*taken, sum(taken))]
        table.add_row(row["model"], str(row["hidden"]), str(row["batch"]), amount(row["nodes"]), *parts)
    yield table
    for search, rows in (("greedy, hidden", "decoding"), ("beam of 4, hidden", "beams")):
        table = grid(
            search, "words", "mini-batch", "tokens/s", "of the limit", "PyTorch", "of its limit", "times",
            "JAX", "times", "from instances on",
        )  # fmt: skip
        for row in report[rows]:
            ours, torches, jaxes, whole = (
                _rate(row["tokens"], row.get(key))
                for key in ("seconds", "torch_seconds", "jax_seconds", "whole_seconds")
            )
            table.add_row(
                str(row["hidden"]), f"{row['words']:,}", str(row["batch"]), ours,
                _share(row, "limit", "seconds"), torches, _share(row, "masked_limit", "torch_seconds"),
                _times(row, "torch"), jaxes, _times(row, "jax"), whole,
            )  # fmt: skip
        yield table
    table = grid(
        "parser, hidden",
        "mini-batch",
        "actions",
        "time",
        "PyTorch",
        "times",
        "two threads",
        "from instances on",
    )
    for row in report["parsing"]:
        taken = [duration(row[k]) if k in row else "" for k in ("seconds", "torch_seconds")]
        table.add_row(
            str(row["hidden"]), str(row["batch"]), amount(row["actions"]), *taken, _times(row, "torch"),
            f"{row['seconds'] / row['two_seconds']:.2f} x", duration(row["whole_seconds"]),
        )  # fmt: skip
    yield table
    table = grid(
        "ACRoBat's models", "size", "mini-batch", "nodes", "from instances on", "DyNet, RTX 3070", "ACRoBat"
    )
    for row in report["published"]:
        times = (
            duration(row[k]) if row[k] else "no memory"
            for k in ("seconds", "dynet_seconds", "acrobat_seconds")
        )
        table.add_row(row["model"], row["size"], str(row["batch"]), amount(row["nodes"]), *times)
    yield table


def _nanoseconds(seconds: float) -> str:
    return f"{1e9 * seconds:.0f}{GLUE}ns"


def _rate(count: int, seconds: float | None) -> str:
    return amount(count / seconds) if seconds else ""


def _times(row: dict[str, float], other: str) -> str:
    return f"{row[f'{other}_seconds'] / row['seconds']:.1f} x" if f"{other}_seconds" in row else ""


def _share(row: dict[str, float], limit: str, taken: str) -> str:
    """How near what was measured is to what it takes at least."""
    return f"{row[limit] / row[taken]:.0%}" if limit in row and taken in row else ""
