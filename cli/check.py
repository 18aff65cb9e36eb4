"""`abw check`: is the spec right, and does its data fit it?"""

from __future__ import annotations

from typing import Any

from abw.cli import options
from abw.cli.console import amount, counted, print_json


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
    """Check a spec and all its data without running anything; says what graph they give.

    SPEC may also be a cell's file.
    """
    changes = options.overrides(data, limit, batch, sizes, seed)
    from abw.core.inspect import inspect, inspect_cell
    from abw.core.spec.load import is_cell

    if is_cell(spec):
        cell = inspect_cell(spec, changes.dims)
        print_json(cell) if as_json else _print_cell(cell)
        return
    report = inspect(spec, changes, granularity)
    if as_json:
        print_json(report)
    else:
        _print(report)


def _print_cell(report: dict[str, Any]) -> None:
    from rich.console import Console

    def ports(shapes: dict[str, list[int]]) -> str:
        return ", ".join(f"{name} [{'x'.join(map(str, shape))}]" for name, shape in shapes.items())

    console = Console(highlight=False, markup=False)
    console.print(
        f"ok  {report['spec']}: cell {report['cell']}, {report['parameters']:,} numbers in parameters"
    )
    console.print(f"{ports(report['inputs'])} -> {ports(report['outputs'])}")
    console.print(f"{report['operations']} operations in {report['batches']} batches")


def _print(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    console.print(
        f"[green]ok[/]  {report['spec']}: [bold]{report['model']}[/], "
        f"{report['parameters']:,} numbers in parameters, {report['table_numbers']:,} in tables"
    )
    console.print(
        f"[green]ok[/]  {report['data']}: {counted(report['instances'], 'instance')}, "
        f"{counted(report['nodes'], 'node')} in {counted(report['mini_batches'], 'mini-batch', 'es')} of "
        f"{report['batch']}, lower bound {report['lower_bound']}"
    )
    if report["memory_bytes"] is not None:
        console.print(f"    the largest mini-batch takes {amount(report['memory_bytes'], 'B')} of memory")
    console.print()
    table = Table("type", "nodes", "depth in the first mini-batch", "reads", box=None, pad_edge=False)
    for row in report["types"]:
        table.add_row(row["type"], str(row["nodes"]), str(row["depth"]), ", ".join(row["reads"]))
    console.print(table)
