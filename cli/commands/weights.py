"""`abw weights`: what a spec needs, and what a file of weights has for it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from abw.cli import options
from abw.cli.console import Columns, counted, show, table


def weights(
    spec: options.Spec,
    changes: options.Sizes,
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
    def shape(row: dict[str, Any]) -> str:
        return " x ".join(map(str, row["shape"])) or "one"

    def use(tensor: dict[str, Any]) -> str:
        return ", ".join(tensor["used_for"]) or ("ignored" if tensor["ignored"] else "nothing")

    def state(need: dict[str, Any]) -> Any:  # noqa: ANN401 (a text)
        from rich.text import Text

        return Text(need["state"] or "", "green" if need["state"] == "ok" else "red")

    show(f"{report['spec']}: {report['model']} needs {report['numbers']:,} numbers")
    columns: Columns = {
        "parameter or table": "name",
        "shape": shape,
        "used by": "used_by",
        "is": "from",
        "": state,
    }
    show(table(report["needs"], columns, left=["shape", "is", ""], prose="used by"))
    if (file := report["file"]) is None:
        return
    show(f"\n{file['path']} ({file['format']}): {counted(len(file['tensors']), 'tensor')}")
    show(
        table(
            file["tensors"],
            {"tensor": "name", "shape": shape, "type": "dtype", "used for": use},
            style=lambda tensor: "red" if use(tensor) == "nothing" else None,
            left=["shape", "type"],
            prose="used for",
        )
    )
    if report["problems"]:
        show("\n" + "\n".join(report["problems"]))
