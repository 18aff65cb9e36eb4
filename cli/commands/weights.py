"""`abw weights`: what a spec needs, and what a file of weights has for it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from abw.cli import options
from abw.cli.console import counted, give, grid


def weights(
    spec: options.Spec,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            help="A file of weights, or a training (t1); by default the spec's.",
            callback=options.trained,
        ),
    ] = None,
    sizes: options.Set = None,
    allow_outside: options.AllowOutside = False,
    as_json: options.Json = False,
) -> None:
    """List the parameters and tables that a spec needs, and how the tensors of a FILE fit.

    If they do not fit, the exit code is 1, and missing, misshapen and unused tensors are listed.
    """
    changes = options.overrides(None, None, None, sizes, None, weights=file, allow_outside=allow_outside)
    from abw.core.tools.inspect import inspect_weights

    report = inspect_weights(spec, changes)
    give(report, as_json, _print)
    if report["fits"] is False:
        raise typer.Exit(1)


def _print(report: dict[str, Any]) -> None:
    from rich.text import Text

    from abw.core.base.console import Console

    def shape(sizes: list[int]) -> str:
        return " x ".join(map(str, sizes)) or "one"

    console = Console()
    console.print(f"{report['spec']}: {report['model']} needs {report['numbers']:,} numbers")
    table = grid(
        "parameter or table", "shape", "used by", "is", "", left=["shape", "is", ""], prose="used by"
    )
    for need in report["needs"]:
        row = (need["name"], shape(need["shape"]), ", ".join(need["used_by"]), need["from"])
        table.add_row(*map(Text, row), Text(need["state"] or "", "green" if need["state"] == "ok" else "red"))
    console.print(table)
    if report["file"] is None:
        return
    file = report["file"]
    console.print(f"\n{file['path']} ({file['format']}): {counted(len(file['tensors']), 'tensor')}")
    table = grid("tensor", "shape", "type", "used for", left=["shape", "type"], prose="used for")
    for tensor in file["tensors"]:
        used = ", ".join(tensor["used_for"]) or ("ignored" if tensor["ignored"] else "nothing")
        row = (tensor["name"], shape(tensor["shape"]), tensor["dtype"], used)
        table.add_row(*map(Text, row), style="red" if used == "nothing" else None)
    console.print(table)
    if report["problems"]:
        console.print("\n" + "\n".join(report["problems"]))
