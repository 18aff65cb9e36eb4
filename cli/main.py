"""The command `abw`: its subcommands, and how errors end."""

from __future__ import annotations

import io
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import typer

from abw.cli.console import DEGRADED, standard_output
from abw.cli.groups import Group
from abw.cli.usage import UsageError, told
from abw.core.base.errors import AbwError, InterruptedWorkError, from_system, printable
from abw.core.base.interrupts import INTERRUPTED, Terminated
from abw.core.base.memory import keep_freed_memory


class Commands(Group):
    """What `abw --help` lists."""

    places: ClassVar = {
        "run": "abw.cli.commands.run:run",
        "join": "abw.cli.commands.join:join",
        "serve": "abw.cli.commands.serve:serve",
        "build": "abw.cli.commands.build:build",
        "new": "abw.cli.commands.specs:new",
        "check": "abw.cli.commands.check:check",
        "learn": "abw.cli.commands.learn:learn",
        "train": "abw.cli.commands.train:train",
        "compare": "abw.cli.commands.compare:compare",
        "compare-precision": "abw.cli.commands.precision:compare_precision",
        "calibrate": "abw.cli.commands.machine:calibrate",
        "explain": "abw.cli.commands.explain:explain",
        "layout": "abw.cli.commands.layout:layout",
        "viz": "abw.cli.commands.viz:viz",
        "weights": "abw.cli.commands.weights:weights",
        "specs": "abw.cli.commands.specs:specs",
        "schema": "abw.cli.commands.specs:schema",
        "doctor": "abw.cli.commands.machine:doctor",
        "runs": "abw.cli.commands.runs:app",
        "bench": "abw.cli.bench.commands:app",
    }


app = typer.Typer(
    name="abw",
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="The auto-batching workbench: runs mini-batches of dynamic neural networks fast, and shows how.",
)


@app.callback(invoke_without_command=True)
def _main(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        from abw import __version__

        print(f"abw {__version__}")
        raise typer.Exit


def main() -> None:
    """Run the command line.

    Exit codes: 0 done, 1 failed, 2 wrong command line, 130 interrupted, 143 ended by SIGTERM (129 by SIGHUP),
    141 if the reader of standard output is gone. Mistakes of the user and errors of files or the system end
    here, as a message on standard error.
    """
    keep_freed_memory()
    if sys.stderr is None:  # closed: its text must not go to standard output
        sys.stderr = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115
    if isinstance(sys.stderr, io.TextIOWrapper):
        sys.stderr.reconfigure(errors=DEGRADED)
    try:
        with standard_output():
            done = app(prog_name="abw", standalone_mode=False)
            raise SystemExit(done if isinstance(done, int) else 0)
    except UsageError as error:
        if type(error).__name__ != "NoArgsIsHelpError":
            _say(f"error: {told(error)}")
        elif error.message:  # else rich has printed the help
            _say(error.message)
        sys.exit(error.exit_code)
    except (AbwError, MemoryError, OSError, RecursionError, UnicodeError) as error:
        ours = error if isinstance(error, AbwError) else from_system(error)
        _say(str(ours) if isinstance(ours, InterruptedWorkError) else f"error: {ours}")
        sys.exit(ours.exit_code)
    except SystemExit as end:
        if end.code == INTERRUPTED or isinstance(end, Terminated):
            word = "terminated" if isinstance(end, Terminated) else "interrupted"
            _say(f"{word}: nothing half done was kept; finished runs are as they were")
        sys.exit(end.code)


def _say(text: str) -> None:
    for given in sys.argv[1:]:  # show each argument on one line
        if given.strip():
            text = text.replace(printable(given), printable(given).replace("\n", "\\n").replace("\t", "\\t"))
    with suppress(OSError, ValueError):  # it may be closed: the exit code tells
        print(text, file=sys.stderr, flush=True)
