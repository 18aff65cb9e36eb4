"""`abw calibrate`: what launches and rows cost on an executor, and what a GPU does at best."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from abw.cli import options
from abw.cli.console import duration, give, grid, progress, say
from abw.core.base.errors import AbwError


def calibrate(
    spec: options.SpecOrNone = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Write the costs to this YAML file.")
    ] = None,
    executor: Annotated[
        str,
        typer.Option(
            "--executor", "--device", help="Executor to measure: blas or cpu, or cuda without SPEC."
        ),
    ] = "blas",
    threads: Annotated[int, typer.Option("--threads", min=1, metavar="N", help="Number of threads.")] = 1,
    data: options.Data = None,
    limit: options.Limit = None,
    sizes: options.Set = None,
    granularity: options.Granularity = "cell",
    seed: options.Seed = None,
    allow_outside: options.AllowOutside = False,
    quiet: options.QuietFlag = False,
    as_json: options.Json = False,
) -> None:
    """Measure the cost of a launch and of a row of each type, for `abw compare --cost FILE`.

    Runs batches of up to 256 rows on real operands; costs are in seconds. `--device cuda` without SPEC and
    --output measures the GPU once for all models; the executor then uses this to choose how to launch.
    """
    if executor == "cuda" and spec is None and output is None:
        _gpu(quiet, as_json)
        return
    if spec is None or output is None:
        hint = "a GPU is measured without either: abw calibrate --device cuda"
        raise AbwError("SPEC and --output are needed", hint=hint, exit_code=2)
    changes = options.overrides(data, limit, None, sizes, seed, allow_outside=allow_outside)
    from abw.core.tools.calibrate import calibrate as run_calibrate

    with progress(quiet) as told:
        report = run_calibrate(
            spec, changes, output, executor=executor, granularity=granularity, threads=threads, progress=told
        )
    give(report, as_json, _print, quiet)


def _gpu(quiet: bool, as_json: bool) -> None:
    from abw.core.tools.calibrate import calibrate_gpu

    give(calibrate_gpu(), as_json, _print_gpu, quiet)


def _print_gpu(report: dict[str, Any]) -> None:
    from abw.core.exec.cuda.measure.floor import Limits

    measured = Limits(*(report[name] for name in ("flops", "bytes_per_second", "barrier", "launch")))
    say(f"{report['gpu']}: {measured.said()}\n\nkept: {report['path']}")


def _print(report: dict[str, Any]) -> None:
    from rich.text import Text

    from abw.core.base.console import Console

    console = Console()
    console.print(Text.assemble((report["model"], "bold"), f" on executor {report['executor']}\n"))
    table = grid("type", "a launch", "a row", "up to rows", "mean error")
    for t in report["types"]:
        most = str(t["samples"][-1][0])
        table.add_row(t["type"], duration(t["launch"]), duration(t["row"]), most, f"{t['error']:.0%}")
    console.print(table)
    console.print(f"\ncosts: {report['path']}", soft_wrap=True)
