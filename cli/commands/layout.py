"""`abw layout`: where the variables of a cell lie, and what that saves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from abw.cli import options
from abw.cli.console import amount, counted, duration, grid, show
from abw.cli.groups import flag, group, option, without


@group
class Drawing:
    """Which order is shown, and how."""

    layout: Literal["planned", "declared", "paper"] = option(
        "Planned by abw, as DyNet allocates, or by the paper's Algorithm 2.", default="planned"
    )
    table: bool = flag("Compare with the paper's Tables 2 and 5, timed on this machine.")
    batch: int = option("Lanes of the mini-batch.", "N", default=8, least=1)
    svg: Path | None = option("Draw the PQ-tree to this file.", "FILE")


def layout(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="A cell, a list of batches, or a model (all its cells)."),
    ],
    drawing: Drawing,
    changes: Annotated[options.Changes, without("data", "limit", "batch", "weights", "seed")],
    output: options.Output,
) -> None:
    """Show the order of a cell's variables in memory, its PQ-tree, and why operands are copied."""
    paths = [path for file in files if (path := options.found(file))]
    overrides, svg, batch, how = changes.overrides(), drawing.svg, drawing.batch, drawing.layout
    from abw.core.tools.layouts import files_read, layout_report, open_items, picture, table_row

    items = [item for path in paths for item in open_items(path, overrides)]
    if svg is not None:
        if len(items) != 1:
            said = f"there are {len(items)} trees to draw: name one cell"
            raise typer.BadParameter(said, param_hint="--svg")
        from abw.core.base.files import refuse_overwrite, write_text

        refuse_overwrite(svg, *(file for path in paths for file in files_read(path, overrides)))
        write_text(svg, picture(items[0], batch, how))
    if drawing.table:
        rows = [table_row(item, batch) for item in items]
        output.give({"schema_version": 1, "batch": batch, "rows": rows}, _print_table)
        return
    reports = [layout_report(item, batch, how) for item in items]
    output.give({"schema_version": 1, "layouts": reports}, _print)


def _print(document: dict[str, Any]) -> None:
    for report in document["layouts"]:
        _print_layout(report)


def _print_layout(report: dict[str, Any]) -> None:
    from rich.text import Text

    after, before, inputs = report["after"], report["before"], report["inputs"]
    planned = f"planned in {duration(report['planning_ms'] / 1e3)}; bytes of {report['batch']} lanes"
    show([(report["name"], "bold"), f"  {len(report['batches'])} batches, {planned}"])
    show(f"order: {' '.join(report['order'])}", whole=True)
    show(f"tree:  {report['tree']}\n", whole=True)
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
    show(table)
    show(
        f"\ncopied in a run: {_moved(after)}; in order of declaration {_moved(before)}; "
        f"packed once, beforehand: {amount(report['packed_bytes'], 'B')}",
        whole=True,
    )
    if report["inputs_copied"]:
        show(
            f"inputs put beside others, by the gather that reads them or by a copy: "
            f"{', '.join(report['inputs_copied'])} ({_moved(inputs)})",
            whole=True,
        )
    if report["gap_bytes"]:
        show(f"not proven: another order might save up to {amount(report['gap_bytes'], 'B')}")
    show("")


def _print_table(document: dict[str, Any]) -> None:
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
    show("Memory kernels / KiB a mini-batch", style="bold")
    show(kernels)
    show(
        "before: variables in order of declaration, weights gathered; after: planned, weights packed once;\n"
        "inputs: put beside others by a copy, or by their gather; by its rule: as Table 2 counts\n",
        whole=True,
    )
    show("Latency in the executor blas, and planning", style="bold")
    show(times)


def _moved(moved: dict[str, int]) -> str:
    return f"{counted(moved['kernels'], 'memory kernel')}, {amount(moved['bytes'], 'B')}"


def _kib(moved: dict[str, int]) -> str:
    """As in the paper's Table 2: kernels / KiB."""
    return f"{moved['kernels']} / {moved['bytes'] / 1024:.4g}"
