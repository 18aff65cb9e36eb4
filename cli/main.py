"""The command `abw`: what it offers, and how every error of it ends."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import typer

from abw.cli import (
    calibrate,
    check,
    compare,
    doctor,
    explain,
    layout,
    learn,
    new,
    run,
    runs,
    schema,
    viz,
    weights,
)
from abw.cli.bench import commands as bench
from abw.cli.console import standard_output
from abw.core.errors import INTERRUPTED, AbwError, InterruptedWorkError
from abw.core.memory import keep_freed_memory

app = typer.Typer(
    name="abw",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="The auto-batching workbench: runs mini-batches of dynamic neural networks fast, and shows how.",
)
app.command("run")(run.run)
app.command("new")(new.new)
app.command("check")(check.check)
app.command("learn")(learn.learn)
app.command("compare")(compare.compare)
app.command("calibrate")(calibrate.calibrate)
app.command("explain")(explain.explain)
app.command("layout")(layout.layout)
app.add_typer(runs.app, name="runs")
app.command("viz")(viz.viz)
app.command("weights")(weights.weights)
app.command("schema")(schema.schema)
app.command("doctor")(doctor.doctor)
app.add_typer(bench.app, name="bench")


@app.callback(invoke_without_command=True)
def _main(version: bool = typer.Option(False, "--version", help="Print the version and leave.")) -> None:
    if version:
        from abw import __version__

        print(f"abw {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line. Exit codes: 0 done, 1 failed, 2 wrong command line, 130 interrupted,
    141 where nobody reads standard output any more.
    """
    keep_freed_memory()
    if sys.stderr is None:  # closed: what is printed there must not go to standard output
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115
    try:
        with standard_output():
            app(prog_name="abw")
    except AbwError as error:
        print(error if isinstance(error, InterruptedWorkError) else f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except SystemExit as end:
        if end.code == INTERRUPTED:
            print("interrupted: nothing half done was kept; finished runs are as they were", file=sys.stderr)
        raise
