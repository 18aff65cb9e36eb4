"""`abw new`: a project to begin with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer


def new(
    template: Annotated[
        Literal["chain", "tree", "lattice", "graph"],
        typer.Argument(help="What an instance is.", show_default=False),
    ],
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="A new or empty folder.")],
) -> None:
    """Make a project that works: a spec, its cells, some data, a README.

    chain: a tagger of sentences. tree: a tree LSTM. lattice: a lattice LSTM. graph: a network over any graph
    without cycles, its data JSON lines.
    """
    from abw.core.tools.project import create_project

    for path in create_project(template, folder):
        print(path)
    print(f"\nnext: cd {folder} && abw run model.yaml")
