"""`abw doctor`: what of this machine abw can use."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from abw.cli import options
from abw.cli.console import say, show
from abw.cli.groups import group, option, without


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
    output.give({"schema_version": 1, "findings": findings}, _print)


def _print(report: dict[str, Any]) -> None:
    for found in report["findings"]:
        mark = ("ok", "green") if found["ok"] else ("--", "yellow")
        show([mark, "  ", (found["name"], "bold"), f": {found['value']}"], whole=True)
        if found["hint"]:
            show(f"      {found['hint']}", style="dim", whole=True)


def _warm(spec: Path, changes: options.Changes) -> dict[str, Any]:
    """Load a model and run some of its data; of a program call one of its cells."""
    begun, dims, weights = time.perf_counter(), changes.dims, changes.weights
    if options.is_program(spec):
        from abw.core.program.net import NetOverrides
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
