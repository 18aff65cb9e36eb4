"""`abw check`: is the spec right, and does its data fit it?"""

from __future__ import annotations

from typing import Any

from abw.cli import options
from abw.cli.console import print_json


def check(
    spec: options.Spec,
    data: options.Data = None,
    limit: options.Limit = None,
    batch: options.Batch = None,
    sizes: options.Set = None,
    granularity: options.Granularity = "cell",
    seed: options.Seed = None,
    as_json: options.Json = False,
) -> None:
    """Check a spec and all its data without running anything; says what graph they give."""
    changes = options.overrides(data, limit, batch, sizes, seed)
    from abw.core.inspect import inspect

    report = inspect(spec, changes, granularity)
    if as_json:
        print_json(report)
    else:
        _print(report)


def _print(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.print(
        f"[green]ok[/]  {report['spec']}: [bold]{report['model']}[/], "
        f"{report['parameters']:,} numbers in parameters, {report['table_numbers']:,} in tables"
    )
    console.print(
        f"[green]ok[/]  {report['data']}: {report['instances']} instances, {report['nodes']} nodes in "
        f"{report['mini_batches']} mini-batches of {report['batch']}, lower bound {report['lower_bound']}\n"
    )
    table = Table("type", "nodes", "depth in the first mini-batch", "reads", box=None, pad_edge=False)
    for row in report["types"]:
        table.add_row(row["type"], str(row["nodes"]), str(row["depth"]), ", ".join(row["reads"]))
    console.print(table)
