"""`abw layout`: where the variables of a cell lie, and what that saves."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from abw.cli import options
from abw.cli.console import Columns, amount, counted, duration, grid, show, table
from abw.cli.groups import flag, group, option


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
    changes: options.Sizes,
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
    def paper(text: str, *keys: str) -> Callable[[Any], str]:
        """A column of the paper's numbers."""
        return lambda row: text.format(*(row["paper"][key] for key in keys)) if row["paper"] else ""

    def latency(key: str) -> Callable[[Any], str]:
        return lambda row: duration(row["latency_us"][key] / 1e6) if row.get("latency_us") else ""

    rule = itemgetter("by_the_papers_rule")
    kernels: Columns = {
        "subgraph": "name",
        "before": lambda row: _kib(row["before"]),
        "after": lambda row: _kib(row["after"]),
        "inputs": lambda row: _kib(row["inputs"]),
        "by its rule": lambda row: _kib(rule(row)["before"]) + " -> " + _kib(rule(row)["after"]),
        "paper": paper("{0[0]:g} / {1[0]:g} -> {0[1]:g} / {1[1]:g}", "kernels", "kilobytes"),
    }
    times: Columns = {
        "subgraph": "name",
        "before": latency("declared"),
        "after": latency("planned"),
        "paper": paper("{0[0]:g} -> {0[1]:g} ms", "latency_ms"),
        "planning": lambda row: duration(row["planning_ms"] / 1e3),
        "the paper's": paper("{:g} ms", "planning_ms"),
    }
    show("Memory kernels / KiB a mini-batch", style="bold")
    show(table(document["rows"], kernels))
    show(
        "before: variables in order of declaration, weights gathered; after: planned, weights packed once;\n"
        "inputs: put beside others by a copy, or by their gather; by its rule: as Table 2 counts\n",
        whole=True,
    )
    show("Latency in the executor blas, and planning", style="bold")
    show(table(document["rows"], times))


def _moved(moved: dict[str, int]) -> str:
    return f"{counted(moved['kernels'], 'memory kernel')}, {amount(moved['bytes'], 'B')}"


def _kib(moved: dict[str, int]) -> str:
    """Format copies as the paper's Table 2 does: kernels / KiB."""
    return f"{moved['kernels']} / {moved['bytes'] / 1024:.4g}"
