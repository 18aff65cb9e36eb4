"""`abw runs`: what was run here."""

from __future__ import annotations

from typing import Annotated

import typer

from abw.cli import options
from abw.cli.console import amount, print_json
from abw.cli.run import print_run

app = typer.Typer(help="The runs kept under .abw/runs/: list them, show one.", invoke_without_command=True)


@app.callback()
def list_all(context: typer.Context, as_json: options.Json = False) -> None:
    """List the runs kept here, the latest last; `abw runs show` explains one."""
    if context.invoked_subcommand:
        return
    from abw.core.store.runs import list_runs, runs_folder

    found = list_runs()
    if as_json:
        rows = [{"path": str(r.path), **r.report} for r in found]
        print_json({"schema_version": 1, "runs": rows})
        return
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if not found:
        console.print(f"no runs in {runs_folder()}: make one with `abw run SPEC`")
        return
    table = Table(
        "run", "model", "data", "policy", "executor", "batches", "instances/s", box=None, pad_edge=False
    )
    for r in found:
        report = r.report
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
    print(f"command: {report['command']}")
    print(f"files: {', '.join(sorted(p.name for p in found.path.iterdir()))}")
    print("versions: " + ", ".join(f"{name} {v}" for name, v in report["versions"].items()))
