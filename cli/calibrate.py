"""`abw calibrate`: what launches and rows cost on an executor, and what a GPU does at best."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from abw.cli import options
from abw.cli.console import duration, print_json, progress
from abw.core.errors import AbwError


def calibrate(
    spec: options.SpecOrNone = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the costs here (YAML).")
    ] = None,
    executor: Annotated[
        str,
        typer.Option(
            "--executor", "--device", help="The executor to measure: blas or cpu, or cuda without SPEC."
        ),
    ] = "blas",
    threads: Annotated[
        int, typer.Option("--threads", min=1, metavar="N", help="Threads to compute with.")
    ] = 1,
    data: options.Data = None,
    limit: options.Limit = None,
    sizes: options.Set = None,
    granularity: options.Granularity = "cell",
    seed: options.Seed = None,
    quiet: options.QuietFlag = False,
    as_json: options.Json = False,
) -> None:
    """Measure what a launch and a row of each type cost, for `abw compare --cost FILE`.

    Batches of 1 to 256 rows, as many as the data gives, are run on real operands; the costs are in seconds.
    `--device cuda`, without SPEC and --output, measures the GPU instead, once for all models: by that, kept
    beside the compiled kernels, its executor chooses how to launch.
    """
    if executor == "cuda" and spec is None and output is None:
        _gpu(as_json)
        return
    if spec is None or output is None:
        hint = "a GPU is measured without either: abw calibrate --device cuda"
        raise AbwError("SPEC and --output are needed", hint=hint, exit_code=2)
    changes = options.overrides(data, limit, None, sizes, seed)
    from abw.core.calibrate import calibrate as run_calibrate

    with progress(quiet) as told:
        report = run_calibrate(
            spec, changes, output, executor=executor, granularity=granularity, threads=threads, progress=told
        )
    if as_json:
        print_json(report)
    else:
        _print(report)


def _gpu(as_json: bool) -> None:
    from abw.core.calibrate import calibrate_gpu

    report = calibrate_gpu()
    if as_json:
        print_json(report)
        return
    from abw.core.exec.cuda.floor import Limits

    measured = Limits(*(report[name] for name in ("flops", "bytes_per_second", "barrier", "launch")))
    print(f"{report['gpu']}: {measured.said()}\n\nkept: {report['path']}")


def _print(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.print(f"[bold]{report['model']}[/] on executor {report['executor']}\n")
    table = Table("type", "a launch", "a row", "up to rows", "mean error", box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    for t in report["types"]:
        most = str(t["samples"][-1][0])
        table.add_row(t["type"], duration(t["launch"]), duration(t["row"]), most, f"{t['error']:.0%}")
    console.print(table)
    console.print(f"\ncosts: {report['path']}", soft_wrap=True)
