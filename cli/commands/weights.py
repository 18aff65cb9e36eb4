"""`abw weights`: what a spec needs, and what a file of weights has for it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from abw.cli import options
from abw.cli.console import counted, grid, show
from abw.cli.groups import without


def weights(
    spec: options.Spec,
    changes: Annotated[options.Changes, without("data", "limit", "batch", "weights", "seed")],
    output: options.Output,
    file: Annotated[
        Path | None,
        typer.Argument(
            metavar="[FILE]",
            help="A file of weights, or a training (t1); by default the spec's.",
            callback=options.trained,
        ),
    ] = None,
) -> None:
    """List the parameters and tables that a spec needs, and how the tensors of a FILE fit.

    If they do not fit, the exit code is 1, and missing, misshapen and unused tensors are listed.
    """
    from abw.core.tools.inspect import inspect_weights

    report = inspect_weights(spec, changes.overrides(weights=file))
    output.give(report, _print)
    if report["fits"] is False:
        raise typer.Exit(1)


def _print(report: dict[str, Any]) -> None:
    from rich.text import Text

    def shape(sizes: list[int]) -> str:
        return " x ".join(map(str, sizes)) or "one"

    show(f"{report['spec']}: {report['model']} needs {report['numbers']:,} numbers")
    table = grid(
        "parameter or table", "shape", "used by", "is", "", left=["shape", "is", ""], prose="used by"
    )
    for need in report["needs"]:
        row = (need["name"], shape(need["shape"]), ", ".join(need["used_by"]), need["from"])
        table.add_row(*map(Text, row), Text(need["state"] or "", "green" if need["state"] == "ok" else "red"))
    show(table)
    if report["file"] is None:
        return
    file = report["file"]
    show(f"\n{file['path']} ({file['format']}): {counted(len(file['tensors']), 'tensor')}")
    table = grid("tensor", "shape", "type", "used for", left=["shape", "type"], prose="used for")
    for tensor in file["tensors"]:
        used = ", ".join(tensor["used_for"]) or ("ignored" if tensor["ignored"] else "nothing")
        row = (tensor["name"], shape(tensor["shape"]), tensor["dtype"], used)
        table.add_row(*map(Text, row), style="red" if used == "nothing" else None)
    show(table)
    if report["problems"]:
        show("\n" + "\n".join(report["problems"]))
