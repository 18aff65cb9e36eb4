"""`abw new`, `abw specs`, `abw schema`: projects to begin with, models that ship, what a spec may say."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from abw.cli import options
from abw.cli.console import Columns, print_json, say, show, table


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


def specs(output: options.Output) -> None:
    """List the shipped models; every command takes their names, as `abw run treelstm`.

    Programs (models as Python functions) run with `abw run`, `abw viz` and `abw explain` and need --data.
    """
    from abw.core.spec.shipped import shipped, shipped_programs

    rows = [
        {"name": spec.name, "format": spec.format, "summary": spec.summary, "path": str(spec.path)}
        for spec in (*shipped(), *shipped_programs())
    ]
    output.give({"schema_version": 1, "specs": rows}, _print_specs)


def _print_specs(document: dict[str, Any]) -> None:
    columns: Columns = {"name": "name", "data": "format", "what it is": "summary"}
    show(table(document["specs"], columns, left=["data"], prose="what it is"))


def schema(output: options.Output) -> None:
    """Print the JSON Schema of spec files: `abw schema > abw.schema.json`.

    An editor with a YAML language server completes and checks a spec that begins with the line
    `# yaml-language-server: $schema=abw.schema.json`.
    """
    from abw.core.spec.keys.model import model_schema

    output.give(model_schema(), print_json)
