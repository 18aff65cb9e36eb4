"""`abw new`: a project to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from abw.cli import options
from abw.cli.console import say


def new(
    template: Annotated[
        Literal["chain", "tree", "lattice", "graph", "classifier", "growing", "plans"],
        typer.Argument(help="Kind of model.", show_default=False),
    ],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new or empty folder.")],
    output: options.Output,
) -> None:
    """Make a working project: a spec, its cells, some data, a README.

    chain: a tagger of sentences. tree: a tree LSTM. lattice: a lattice LSTM. graph: a network over any
    acyclic graph, with JSON lines as data. classifier: a tree LSTM that learns labels. growing: a translator
    with attention that learns to grow its words one by one. plans: a cost model of query plans, with scripts
    that collect plans of PostgreSQL and choose hints.
    """
    from abw.core.tools.project import create_project

    paths = [str(path) for path in create_project(template, folder)]
    said = "\n".join([*paths, "", f"next: cd {folder} && abw run model.yaml"])
    output.give({"schema_version": 1, "paths": paths}, lambda _: say(said))
