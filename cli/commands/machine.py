"""`abw doctor` and `abw calibrate`: what works on this machine, and what a launch and a row cost here."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

from abw.cli import options
from abw.cli.console import Columns, duration, say, show, table
from abw.cli.groups import group, option, without
from abw.core.base.errors import AbwError


@group
class Warming:
    """The code to compile beforehand."""

    warm: Path | None = option(
        "Compile this model or program.py:function and learn its policy, so that the next process starts at "
        "once.",
        "SPEC",
        callback=options.found_or_program,
    )


def doctor(
    warming: Warming,
    changes: Annotated[options.Changes, without("data", "limit", "batch", "seed", "allow_outside")],
    output: options.Output,
) -> None:
    """Show what works here and how to get the rest: versions, cores, BLAS, GPU, Graphviz."""
    if warming.warm:
        output.give(_warm(warming.warm, changes), _print_warm)
        return
    from abw.core.tools.doctor import examine

    findings = [asdict(finding) for finding in examine()]
    output.give({"schema_version": 1, "findings": findings}, _print_findings)


def _print_findings(report: dict[str, Any]) -> None:
    for found in report["findings"]:
        mark = ("ok", "green") if found["ok"] else ("--", "yellow")
        show([mark, "  ", (found["name"], "bold"), f": {found['value']}"], whole=True)
        if found["hint"]:
            show(f"      {found['hint']}", style="dim", whole=True)


def _warm(spec: Path, changes: options.Changes) -> dict[str, Any]:
    """Load a model and run some of its data; of a program call one of its cells."""
    begun, dims, weights = time.perf_counter(), changes.dims, changes.weights
    if options.is_program(spec):
        from abw.core.program.load import NetOverrides
        from abw.core.script.find import warmed

        name, count = warmed(str(spec), NetOverrides(dims, weights)), 0
    else:
        from abw.core.api import load

        model = load(spec, weights=weights, dims=dims)
        name, count = model.spec.name, model.warm()
    seconds = time.perf_counter() - begun
    return {"schema_version": 1, "model": name, "instances": count, "seconds": seconds}


def _print_warm(report: dict[str, Any]) -> None:
    say(f"warm: {report['model']}, {report['instances']} instances run, {report['seconds']:.1f} s")


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
    output.summarize(report, _print_costs)


def _print_gpu(report: dict[str, Any]) -> None:
    from abw.core.exec.cuda.measure.costs import Limits

    measured = Limits(*(report[name] for name in ("flops", "bytes_per_second", "barrier", "launch")))
    say(f"{report['gpu']}: {measured.said()}\n\nkept: {report['path']}")


def _print_costs(report: dict[str, Any]) -> None:
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
