"""The command `abw`: what it offers, and how every error of it ends."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

from abw.cli.commands import (
    calibrate,
    check,
    compare,
    doctor,
    explain,
    join,
    layout,
    learn,
    new,
    precision,
    run,
    runs,
    schema,
    serve,
    specs,
    train,
    viz,
    weights,
)
from abw.cli.console import DEGRADED, standard_output
from abw.core.base.errors import AbwError, InterruptedWorkError, from_system
from abw.core.base.interrupts import INTERRUPTED, Terminated
from abw.core.base.memory import keep_freed_memory

app = typer.Typer(
    name="abw",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="The auto-batching workbench: runs mini-batches of dynamic neural networks fast, and shows how.",
)
app.command("run", cls=run.RunCommand)(run.run)
app.command("join")(join.join)
app.command("serve")(serve.serve)
app.command("new")(new.new)
app.command("check")(check.check)
app.command("learn")(learn.learn)
app.command("train")(train.train)
app.command("compare")(compare.compare)
app.command("compare-precision")(precision.compare_precision)
app.command("calibrate")(calibrate.calibrate)
app.command("explain")(explain.explain)
app.command("layout")(layout.layout)
app.add_typer(runs.app, name="runs")
app.command("viz", cls=viz.VizCommand)(viz.viz)
app.command("weights")(weights.weights)
app.command("specs")(specs.specs)
app.command("schema")(schema.schema)
app.command("doctor")(doctor.doctor)


@cache
def _benches() -> TyperGroup:
    from abw.cli.bench.commands import app

    group = typer.main.get_command(app)
    assert isinstance(group, TyperGroup)
    return group


class BenchGroup(TyperGroup):
    """The benches, which are imported when one of them is looked for: every other command does without."""

    @property
    def commands(self) -> Any:  # noqa: ANN401
        """The commands by name."""
        return _benches().commands

    @commands.setter
    def commands(self, _: object) -> None:
        """Typer knows of none."""


app.add_typer(
    typer.Typer(
        cls=BenchGroup,
        no_args_is_help=True,
        help="Measure abw on real data (--data DIR holds trees/, lattice/, tags/ and pairs/).",
    ),
    name="bench",
)


@app.callback(invoke_without_command=True)
def _main(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        from abw import __version__

        print(f"abw {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 failed, 2 wrong command line, 130 interrupted, 143 ended
    by SIGTERM (129 by SIGHUP), 141 where nobody reads standard output any more.

    Whatever the user, the files or the system are to blame for ends here, as one line on standard error.
    """
    keep_freed_memory()
    if sys.stderr is None:  # closed: what is printed there must not go to standard output
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(errors=DEGRADED)
    try:
        with standard_output():
            app(prog_name="abw")
    except (AbwError, MemoryError, OSError, RecursionError, UnicodeError) as error:
        told = error if isinstance(error, AbwError) else from_system(error)
        _say(str(told) if isinstance(told, InterruptedWorkError) else f"error: {told}")
        sys.exit(told.exit_code)
    except SystemExit as end:
        if end.code == INTERRUPTED or isinstance(end, Terminated):
            word = "terminated" if isinstance(end, Terminated) else "interrupted"
            _say(f"{word}: nothing half done was kept; finished runs are as they were")
        sys.exit(end.code)


def _say(text: str) -> None:
    with suppress(OSError, ValueError):  # nobody may hear it: the exit code says that it failed
        print(text, file=sys.stderr, flush=True)
