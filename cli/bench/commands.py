"""`abw bench ...`: every figure of docs/benchmarks.md, measured again."""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar

import typer

from abw.cli.bench.app import command
from abw.cli.groups import Group

# Where in `abw.bench` each bench is: a generator of its own name.
BENCHES = {
    "cpu": "executors.cpu",
    "precision": "executors.precision",
    "e2e": "whole.e2e",
    "one": "whole.one",
    "reading": "whole.reading",
    "threads": "whole.threads",
    "cold": "whole.cold",
    "memory": "whole.memory",
    "libraries": "libraries.forward",
    "peers": "whole.peers",
    "models": "whole.models",
    "paper": "whole.paper",
    "policies": "graphs.policies",
    "launch": "executors.launch",
    "layout": "graphs.layout",
    "growth": "growth.growth",
    "programs": "growth.programs",
    "train": "whole.training",
    "serve": "serving.serve",
}


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """The command of a bench, made when it is looked for."""
    if name not in BENCHES:
        raise AttributeError(name)
    return command(getattr(import_module(f"abw.bench.{BENCHES[name]}"), name))


class Benches(Group):
    """What `abw bench --help` lists."""

    places: ClassVar = {
        **{name: f"{__name__}:{name}" for name in BENCHES},
        "cuda": "abw.cli.bench.cuda:cuda",
    }


app = typer.Typer(cls=Benches, no_args_is_help=True, add_completion=False)


@app.callback()
def _bench() -> None:
    """Measure abw on real data (--data DIR holds trees/, lattice/, tags/ and pairs/)."""
