"""`abw layout`: where the variables of a cell lie, and what that saves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from abw.cli import options
from abw.cli.console import amount, counted, duration, give, grid


def layout(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="A cell, a list of batches, or a model (all its cells)."),
    ],
    how: Annotated[
        Literal["planned", "declared", "paper"],
        typer.Option("--layout", help="Planned by abw, as DyNet allocates, or by the paper's Algorithm 2."),
    ] = "planned",
    table: Annotated[
        bool, typer.Option("--table", help="Compare with the paper's Tables 2 and 5, timed on this machine.")
    ] = False,
    batch: Annotated[int, typer.Option("--batch", min=1, metavar="N", help="Lanes of the mini-batch.")] = 8,
    sizes: options.Set = None,
    svg: Annotated[
        Path | None, typer.Option("--svg", metavar="FILE", help="Draw the PQ-tree to this file.")
    ] = None,
    allow_outside: options.AllowOutside = False,
    as_json: options.Json = False,
) -> None:
    """Show the order of a cell's variables in memory, its PQ-tree, and why operands are copied."""
    files = [options.found(path) for path in files]
    changes = options.overrides(None, None, None, sizes, None, allow_outside=allow_outside)
    from abw.core.tools.layouts import files_read, layout_report, open_items, picture, table_row

    items = [item for path in files for item in open_items(path, changes)]
    if svg is not None:
        if len(items) != 1:
            raise typer.BadParameter(
                f"there are {len(items)} trees to draw: name one cell", param_hint="--svg"
            )
        from abw.core.base.files import refuse_overwrite, write_text

        refuse_overwrite(svg, *(file for path in files for file in files_read(path, changes)))
        write_text(svg, picture(items[0], batch, how))
    if table:
        rows = [table_row(item, batch) for item in items]
        give({"schema_version": 1, "batch": batch, "rows": rows}, as_json, _print_table)
        return
    reports = [layout_report(item, batch, how) for item in items]
    give({"schema_version": 1, "layouts": reports}, as_json, _print)


def _print(document: dict[str, Any]) -> None:
    for report in document["layouts"]:
        _print_layout(report)


def _print_layout(report: dict[str, Any]) -> None:
    from rich.text import Text

    from abw.core.base.console import Console

    console = Console()
    after, before, inputs = report["after"], report["before"], report["inputs"]
    planned = f"planned in {duration(report['planning_ms'] / 1e3)}; bytes of {report['batch']} lanes"
    console.print(Text.assemble((report["name"], "bold"), f"  {len(report['batches'])} batches, {planned}"))
    console.print(f"order: {' '.join(report['order'])}", soft_wrap=True)
    console.print(f"tree:  {report['tree']}\n", soft_wrap=True)
    texts = ["batch", "operand", "variables", "declared"]
    table = grid("", *texts, report["layout"], "bytes", left=texts, prose=report["layout"])
    for number, batch in enumerate(report["batches"]):
        for operand in batch["operands"]:
            first = operand["role"] == "result"
            reason = f": {operand['reason']}" if operand["reason"] else ""
            colour = "red" if operand["status"] == "copied" else "default"
            table.add_row(
                str(number) if first else "",
                batch["op"] if first else "",
                operand["role"],
                " ".join(operand["variables"]),
                operand["declared"],
                Text.assemble((operand["status"], colour), reason),
                f"{operand['bytes']:,}",
            )
    console.print(table)
    console.print(
        f"\ncopied in a run: {_moved(after)}; in order of declaration {_moved(before)}; "
        f"packed once, beforehand: {amount(report['packed_bytes'], 'B')}",
        soft_wrap=True,
    )
    if report["inputs_copied"]:
        console.print(
            f"inputs put beside others, by the gather that reads them or by a copy: "
            f"{', '.join(report['inputs_copied'])} ({_moved(inputs)})",
            soft_wrap=True,
        )
    if report["gap_bytes"]:
        console.print(f"not proven: another order might save up to {amount(report['gap_bytes'], 'B')}")
    console.print()


def _print_table(document: dict[str, Any]) -> None:

    from abw.core.base.console import Console

    kernels = grid("subgraph", "before", "after", "inputs", "by its rule", "paper")
    times = grid("subgraph", "before", "after", "paper", "planning", "the paper's")
    for row in document["rows"]:
        rule, paper, latency = row["by_the_papers_rule"], row["paper"], row.get("latency_us")
        kernels.add_row(
            row["name"],
            _kib(row["before"]),
            _kib(row["after"]),
            _kib(row["inputs"]),
            f"{_kib(rule['before'])} -> {_kib(rule['after'])}",
            "{:g} / {:g} -> {:g} / {:g}".format(
                paper["kernels"][0], paper["kilobytes"][0], paper["kernels"][1], paper["kilobytes"][1]
            )
            if paper
            else "",
        )
        times.add_row(
            row["name"],
            duration(latency["declared"] / 1e6) if latency else "",
            duration(latency["planned"] / 1e6) if latency else "",
            "{:g} -> {:g} ms".format(*paper["latency_ms"]) if paper else "",
            duration(row["planning_ms"] / 1e3),
            f"{paper['planning_ms']:g} ms" if paper else "",
        )
    console = Console()
    console.print("Memory kernels / KiB a mini-batch", style="bold")
    console.print(kernels)
    console.print(
        "before: variables in order of declaration, weights gathered; after: planned, weights packed once;\n"
        "inputs: put beside others by a copy, or by their gather; by its rule: as Table 2 counts\n",
        soft_wrap=True,
    )
    console.print("Latency in the executor blas, and planning", style="bold")
    console.print(times)


def _moved(moved: dict[str, int]) -> str:
    return f"{counted(moved['kernels'], 'memory kernel')}, {amount(moved['bytes'], 'B')}"


def _kib(moved: dict[str, int]) -> str:
    """As in the paper's Table 2: kernels / KiB."""
    return f"{moved['kernels']} / {moved['bytes'] / 1024:.4g}"
