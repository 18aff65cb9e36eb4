"""`abw runs`: what was run here."""

from __future__ import annotations

from typing import Annotated

import typer

from abw.cli import options
from abw.cli.console import amount, counted, print_json
from abw.cli.report import print_run
from abw.core.base.errors import printable

app = typer.Typer(help="The runs kept under .abw/runs/: list them, show one.", invoke_without_command=True)


LAST = 50
"""So many runs are listed unless told otherwise: a screen or two."""


@app.callback()
def list_all(
    context: typer.Context,
    last: Annotated[
        int | None,
        typer.Option(
            "--last", min=1, metavar="N", help="List the last N runs.", show_default=f"{LAST}; --json: all"
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """List the runs kept here, the latest last; `abw runs show` explains one."""
    if context.invoked_subcommand:
        return
    from abw.core.store.runs import list_runs, run_folders, runs_folder

    stored = list_runs(last if last or as_json else LAST)
    if as_json:
        rows = [{"path": str(r.path), **({"damage": r.damage} if r.damage else r.report)} for r in stored]
        print_json({"schema_version": 1, "runs": rows})
        return
    from rich.table import Table

    from abw.core.base.console import Console

    console = Console()
    if not stored:
        console.print(f"no runs in {runs_folder()}: make one with `abw run SPEC`")
        return
    table = Table(
        "run", "model", "data", "policy", "executor", "batches", "instances/s", box=None, pad_edge=False
    )
    for r in stored:
        report = r.report
        if r.damage:
            table.add_row(str(r.number), "damaged", *[""] * 5, style="red")
            continue
        table.add_row(
            str(r.number),
            report["model"],
            report["data"],
            report["policy"],
            report["executor"],
            f"{report['batches']} of {report['lower_bound']}",
            amount(report["instances_per_second"]),
        )
    console.print(table)
    for r in stored:
        if r.damage:
            console.print(f"run {r.number} is damaged: {r.damage}", style="red", markup=False, soft_wrap=True)
    if earlier := len(run_folders()) - len(stored):
        console.print(f"and {counted(earlier, 'earlier run')}: --last N lists more", style="dim")


@app.command("show")
def show(
    name: Annotated[
        str | None, typer.Argument(metavar="RUN", help="Its number or folder; the latest if absent.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Show one run as `abw run` did, with the command that made it and the files it left."""
    from abw.core.store.runs import find_run

    found = find_run(name)
    report = {**found.report, "path": str(found.path)}
    if as_json:
        print_json(report)
        return
    print_run(report)
    print(printable(f"command: {report['command']}"))
    print(printable(f"files: {', '.join(sorted(p.name for p in found.path.iterdir()))}"))
    print(printable("versions: " + ", ".join(f"{name} {v}" for name, v in report["versions"].items())))
