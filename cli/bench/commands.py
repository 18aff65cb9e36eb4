"""`abw bench ...`: every figure of docs/benchmarks.md, measured again."""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar

import typer

from abw.cli.bench.app import command
from abw.cli.groups import Group

# The folders of `abw.bench`, and in each the modules and functions that yield the rows of benches.
FOLDERS = {
    "executors": "cpu precision threads cuda",
    "whole": "e2e dedup one plans reading cold memory libraries peers models paper growth programs train "
    "torch-models",
    "serving": "serve",
    "graphs": "policies grouping layout",
}
BENCHES = {name: folder for folder, names in FOLDERS.items() for name in names.split()}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """The command of a bench, made when it is looked for."""
    if name not in BENCHES:
        raise AttributeError(name)
    module = name.replace("-", "_")
    return command(getattr(import_module(f"abw.bench.{BENCHES[name]}.{module}"), module))


class Benches(Group):
    """Lists the benches in `abw bench --help`."""

    places: ClassVar = {name: f"{__name__}:{name}" for name in BENCHES}


app = typer.Typer(cls=Benches, no_args_is_help=True, add_completion=False)


@app.callback()
def _bench() -> None:
    """Measure abw on real data (--data DIR holds trees/, lattice/, tags/ and pairs/)."""
