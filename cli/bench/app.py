"""What the commands of `abw bench` share: the app that they belong to, options, tables."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    no_args_is_help=True,
    help="Measure abw on real data (--data DIR holds trees/, lattice/, tags/ and pairs/).",
)

DataDir = Annotated[Path, typer.Option("--data", metavar="DIR", help="The folder with the real data.")]
SpecsDir = Annotated[Path, typer.Option("--specs", metavar="DIR", help="The folder with the specs.")]
Workloads = Annotated[
    str | None, typer.Option("--workloads", metavar="NAME,...", help="As TreeLSTM,LatticeLSTM (all).")
]
Hidden = Annotated[int, typer.Option("--hidden", min=1, help="The size of the model.")]
HiddenSizes = Annotated[list[int], typer.Option("--hidden", min=1, help="Sizes; can be repeated.")]
Batch = Annotated[int, typer.Option("--batch", min=1, help="Instances in a mini-batch.")]
BatchSizes = Annotated[
    list[int], typer.Option("--batch", min=1, help="Instances in a mini-batch; can be repeated.")
]
ThreadCounts = Annotated[list[int], typer.Option("--threads", min=1, help="Threads; can be repeated.")]
Runs = Annotated[int, typer.Option("--runs", min=1, metavar="N", help="Runs that a median is taken of.")]


def new_table(*columns: str) -> Any:  # noqa: ANN401
    """A table whose first column stands left, the others right."""
    from rich.table import Table

    table = Table(*columns, box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    return table


def show(table: Any) -> None:  # noqa: ANN401
    """Print a table."""
    from rich.console import Console

    Console(highlight=False).print(table)
