"""`abw doctor`: what of this machine abw can use."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from abw.cli import options
from abw.cli.console import print_json, say


def doctor(
    warm: Annotated[
        Path | None,
        typer.Option(
            "--warm",
            metavar="SPEC",
            help="Compile this model or program.py:function and learn its policy, so that the next "
            "process starts at once.",
            callback=options.found_or_program_or_none,
        ),
    ] = None,
    weights: options.Weights = None,
    sizes: options.Set = None,
    as_json: options.Json = False,
) -> None:
    """Show what works here and how to get the rest: versions, cores, BLAS, GPU, Graphviz."""
    if warm:
        _warm(warm, weights, sizes, as_json)
        return
    from abw.core.tools.doctor import examine

    findings = examine()
    if as_json:
        print_json({"schema_version": 1, "findings": [asdict(finding) for finding in findings]})
        return
    from rich.text import Text

    from abw.core.base.console import Console

    console = Console()
    for f in findings:
        mark = ("ok", "green") if f.ok else ("--", "yellow")
        console.print(Text.assemble(mark, "  ", (f.name, "bold"), f": {f.value}"), soft_wrap=True)
        if f.hint:
            console.print(f"      {f.hint}", style="dim", soft_wrap=True)


def _warm(spec: Path, weights: Path | None, sizes: list[str] | None, as_json: bool) -> None:
    """Load a model and run some of its data; of a program call one of its cells."""
    changes = options.overrides(None, None, None, sizes, None)
    import time

    begun = time.perf_counter()
    if options.is_program(spec):
        from abw.core.program.overrides import NetOverrides
        from abw.core.script.find import warmed

        name, count = warmed(str(spec), NetOverrides(changes.dims, weights)), 0
    else:
        from abw.core.api import load

        model = load(spec, weights=weights, dims=changes.dims)
        name, count = model.spec.name, model.warm()
    took = time.perf_counter() - begun
    if as_json:
        print_json({"schema_version": 1, "model": name, "instances": count, "seconds": took})
    else:
        say(f"warm: {name}, {count} instances run, {took:.1f} s")
