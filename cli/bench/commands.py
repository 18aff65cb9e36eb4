"""`abw bench ...`: every figure of docs/benchmarks.md, measured again."""

from __future__ import annotations

from typing import ClassVar

import typer

from abw.cli.groups import Group

MODULES = {
    "cuda": ["cuda"],
    "engine": ["engine"],
    "graphs": ["graph", "policies", "fig7", "layout", "memory"],
    "growth": ["growth"],
    "one": ["one"],
    "programs": ["programs"],
    "serving": ["serve"],
    "speed": [
        *("cpu", "precision", "train", "epoch", "blas", "reading", "torch", "models", "operations"),
        *("e2e", "passes", "cost", "launch", "cold"),
    ],
    "systems": ["ablation", "peers", "paper", "libraries"],
    "threads": ["threads", "steps"],
}
"""Where each bench is: a function of its name in a module here."""


class Benches(Group):
    """What `abw bench --help` lists."""

    places: ClassVar = {
        name: f"abw.cli.bench.{module}:{name}" for module, names in MODULES.items() for name in names
    }


app = typer.Typer(cls=Benches, no_args_is_help=True, add_completion=False)


@app.callback()
def _bench() -> None:
    """Measure abw on real data (--data DIR holds trees/, lattice/, tags/ and pairs/)."""
