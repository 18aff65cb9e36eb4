"""`abw bench paper` on the terminal: a table a figure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rich.table import Table

from abw.bench.systems import STEPS
from abw.cli.console import amount, duration, grid


def tables(report: dict[str, Any]) -> Iterator[Table]:
    """The parts that a report has, in the paper's order."""
    for part, show in SHOWN.items():
        if part in report:
            yield from show(report[part])


def _fig6(rows: list[dict[str, Any]]) -> Iterator[Table]:
    names = list(rows[0]["instances_per_second"])
    table = grid(
        "Fig. 6: instances/s (mini-batch)", "size", *names, "ed-batch", "abw over cavs-dynet", "the paper"
    )
    for r in rows:
        rates = [f"{amount(r['instances_per_second'][n])} ({r['at_batch'][n]})" for n in names]
        table.add_row(
            r["workload"], str(r["hidden"]), *rates, f"{r['ed_batch_over_cavs']:.2f} x",
            f"{r['abw_over_cavs']:.2f} x", r["paper_over_cavs"] or "",
        )  # fmt: skip
    yield table


def _fig7(rows: list[dict[str, Any]]) -> Iterator[Table]:
    from abw.cli.commands.compare import size_table

    for r in rows:
        yield size_table(f"Fig. 7: {r['workload']}", r["batch_sizes"])


def _fig9(rows: list[dict[str, Any]]) -> Iterator[Table]:
    table = grid("Fig. 9: size 128, mini-batch 64", "", *STEPS, "in all")
    for r in rows:
        for name, seconds in r["seconds"].items():
            times = [duration(seconds[step]) for step in STEPS]
            table.add_row(r["workload"], name, *times, duration(sum(seconds.values())))
    yield table


def _table2(rows: list[dict[str, Any]]) -> Iterator[Table]:
    table = grid(
        "Tables 2 and 5", "latency", "the paper", "copies", "the paper", "KiB", "the paper", "planning",
        "the paper",
    )  # fmt: skip
    for r in rows:
        paper, time = r["paper"], r["latency_us"]
        table.add_row(
            r["name"],
            f"{time['declared']:.0f} / {time['planned']:.0f} µs",
            "{} / {} ms".format(*paper["latency_ms"]),
            f"{r['before']['kernels']} / {r['after']['kernels'] + r['inputs']['kernels']}",
            "{:.0f} / {:.0f}".format(*paper["kernels"]),
            f"{r['before']['bytes'] / 1024:.0f} / {(r['after']['bytes'] + r['inputs']['bytes']) / 1024:.0f}",
            "{:.0f} / {:.0f}".format(*paper["kilobytes"]),
            f"{r['planning_ms']:.2f} ms",
            f"{paper['planning_ms']} ms",
        )
    yield table


def _table3(rows: list[dict[str, Any]]) -> Iterator[Table]:
    table = grid(
        "Table 3: one core here, a V100 there", "mini-batch", "size", "ed-batch", "abw", "Cortex", "the paper"
    )
    for r in rows:
        ours, theirs = r["milliseconds"], r["paper_milliseconds"]
        times = (ours["ed-batch"], ours["abw"], theirs["cortex"], theirs["ed-batch"])
        table.add_row(r["workload"], str(r["batch"]), str(r["hidden"]), *(f"{t:.2f} ms" for t in times))
    yield table


def _table4(rows: list[dict[str, Any]]) -> Iterator[Table]:
    encodings = list(rows[0]["learning"])
    table = grid("Table 4: learning (trials)", "nodes", *encodings, "the paper")
    for r in rows:
        times = [f"{duration(f['seconds'])} ({f['trials']})" for f in r["learning"].values()]
        paper = "{} s ({})".format(*r["paper"]) if r["paper"] else ""
        table.add_row(r["workload"], f"{r['training_nodes']:,}", *times, paper)
    yield table


def _table6(rows: list[dict[str, Any]]) -> Iterator[Table]:
    table = grid("Table 6: TreeLSTM 512 x 256", "inputs/s")
    for r in rows:
        for name, rate in r["inputs_per_second"].items():
            table.add_row(f"{name}, one core here", amount(rate))
        for name, rate in r["paper"].items():
            table.add_row(f"{name}, 28 cores, the paper", str(rate))
    yield table


SHOWN: dict[str, Callable[[list[dict[str, Any]]], Iterator[Table]]] = {
    "fig6": _fig6,
    "fig7": _fig7,
    "fig9": _fig9,
    "table2": _table2,
    "table3": _table3,
    "table4": _table4,
    "table6": _table6,
}
