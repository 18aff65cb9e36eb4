"""What the commands of `abw bench` share: how they print, options."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from abw.cli import options
from abw.cli.console import print_json, progress, show
from abw.core.base.errors import InterruptedWorkError
from abw.core.base.interrupts import INTERRUPTED, STOP

DataDir = Annotated[Path, typer.Option("--data", metavar="DIR", help="The folder with the real data.")]
SPECS = Path("specs")
"""Where specs are looked for unless told otherwise: here, or else those that ship."""
SpecsDir = Annotated[
    Path,
    typer.Option("--specs", metavar="DIR", help="The folder with the specs; absent, those that ship."),
]
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


Shown = Iterator[Any]
"""What a bench says: first its report, then tables and lines of text."""


def bench(body: Callable[..., Shown]) -> Callable[..., None]:
    """Make a generator a command: with --json its report alone is printed, else the rest.

    One whose first parameter is `told`, the progress, also has the option --quiet. Ctrl-C ends it after the
    row under way (see `each`), with exit code 130; what was measured is shown.
    """
    params = list(inspect.signature(body, eval_str=True).parameters.values())
    tells = params[0].name == "told"

    def command(*, as_json: bool, quiet: bool = True, **given: object) -> None:
        if given.get("specs") == SPECS and not SPECS.exists():
            from abw.core.spec.shipped import FOLDER

            given["specs"] = FOLDER
        try:
            with progress(quiet) as told:
                shown = body(told, **given) if tells else body(**given)
                report = next(shown)
            if as_json:
                print_json(report)
            else:
                show(*shown)
            if STOP.asked:
                raise InterruptedWorkError("ended early: what is shown was measured", exit_code=INTERRUPTED)
        finally:
            STOP.asked = False

    own = {"quiet": options.QuietFlag, "as_json": options.Json} if tells else {"as_json": options.Json}
    flag = functools.partial(inspect.Parameter, kind=params[0].kind, default=False)
    added = [flag(key, annotation=annotation) for key, annotation in own.items()]
    functools.update_wrapper(command, body)
    command.__signature__ = inspect.Signature([*params[tells:], *added])  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in [*params[tells:], *added]}
    return command
