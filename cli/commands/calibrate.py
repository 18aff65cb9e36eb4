"""`abw calibrate`: what launches and rows cost on an executor, and what a GPU does at best."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from abw.cli import options
from abw.cli.console import Columns, duration, say, show, table
from abw.cli.groups import group, option, without
from abw.core.base.errors import AbwError


@group
class Measurement:
    """What is measured, and where costs are written."""

    output: Path | None = option("Write the costs to this YAML file.", "FILE", "-o")
    executor: str = option(
        "Executor to measure: blas or cpu, or cuda without SPEC.",
        None,
        *("--executor", "--device"),
        default="blas",
    )
    threads: int = option("Number of threads.", "N", default=1, least=1)
    granularity: Literal["cell", "op"] = options.GRANULARITY


def calibrate(
    changes: Annotated[options.Changes, without("batch", "weights")],
    measurement: Measurement,
    output: options.Output,
    spec: options.SpecOrNone = None,
) -> None:
    """Measure the cost of a launch and of a row of each type, for `abw compare --cost FILE`.

    Runs batches of up to 256 rows on real operands; costs are in seconds. `--device cuda` without SPEC and
    --output measures the GPU once for all models; the executor then uses this to choose how to launch.
    """
    from abw.core.tools import calibrate as core

    file, executor = measurement.output, measurement.executor
    if executor == "cuda" and spec is None and file is None:
        output.summarize(core.calibrate_gpu(), _print_gpu)
        return
    if spec is None or file is None:
        hint = "a GPU is measured without either: abw calibrate --device cuda"
        raise AbwError("SPEC and --output are needed", hint=hint, exit_code=2)
    with output.progress() as progress:
        report = core.calibrate(
            spec,
            changes.overrides(),
            file,
            executor=executor,
            granularity=measurement.granularity,
            threads=measurement.threads,
            progress=progress,
        )
    output.summarize(report, _print)


def _print_gpu(report: dict[str, Any]) -> None:
    from abw.core.exec.cuda.measure.floor import Limits

    measured = Limits(*(report[name] for name in ("flops", "bytes_per_second", "barrier", "launch")))
    say(f"{report['gpu']}: {measured.said()}\n\nkept: {report['path']}")


def _print(report: dict[str, Any]) -> None:
    show([(report["model"], "bold"), f" on executor {report['executor']}\n"])
    columns: Columns = {
        "type": "type",
        "a launch": lambda t: duration(t["launch"]),
        "a row": lambda t: duration(t["row"]),
        "up to rows": lambda t: str(t["samples"][-1][0]),
        "mean error": "error:.0%",
    }
    show(table(report["types"], columns))
    show(f"\ncosts: {report['path']}", whole=True)
