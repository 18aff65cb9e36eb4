"""`abw bench`: whole workloads beside other systems and the machine's limits."""

from __future__ import annotations

from typing import Annotated

import typer

from abw.cli import options
from abw.cli.bench.app import (
    SPECS,
    Batch,
    BatchSizes,
    DataDir,
    Hidden,
    HiddenSizes,
    Runs,
    Shown,
    SpecsDir,
    ThreadCounts,
    Workloads,
    bench,
)
from abw.cli.console import amount, duration, grid
from abw.core.base.progress import Progress


@bench
def ablation(
    told: Progress,
    data: DataDir,
    specs: SpecsDir = SPECS,
    workloads: Annotated[
        str,
        typer.Option("--workloads", metavar="NAME,...", show_default="BiLSTM-Tagger, TreeLSTM, LatticeLSTM"),
    ] = "BiLSTM-Tagger,TreeLSTM,LatticeLSTM",
    hidden: HiddenSizes = [128],
    batch: BatchSizes = [8, 64],
    runs: Runs = 5,
) -> Shown:
    """Policy, layout, fusion, hoisting and executor, each with each: batches, copies, time by step."""
    from abw.bench.whole.ablation import bench_ablation

    report = bench_ablation(specs, data, workloads, hidden, batch, runs, told)
    yield report
    blocks = dict.fromkeys((r["workload"], r["hidden"], r["batch"]) for r in report["rows"])
    for workload, size, instances in blocks:
        table = grid(
            f"{workload} {size} x {instances}", "layout", "hoist", "fuse", "batches", "copies", "moved",
            "schedule", "execute", "instances/s", "gain",
        )  # fmt: skip
        for r in report["rows"]:
            if (r["workload"], r["hidden"], r["batch"]) == (workload, size, instances):
                table.add_row(
                    f"{r['executor']}, {r['policy']}", r["layout"], "yes" if r["hoist"] else "",
                    "yes" if r["fuse"] else "",
                    f"{r['batches']:,}", f"{r['memory_kernels']:,}", amount(r["bytes_moved"], "B"),
                    duration(r["seconds"]["schedule"]), duration(r["seconds"]["execute"]),
                    amount(r["instances_per_second"]), f"{r['speedup']:.2f} x",
                )  # fmt: skip
        yield table
    yield "gain: instances a second, over those of the preset cavs-dynet"


@bench
def peers(
    told: Progress,
    data: DataDir,
    specs: SpecsDir = SPECS,
    workloads: Workloads = None,
    hidden: Hidden = 128,
    batch: Batch = 64,
    mini_batches: Annotated[int, typer.Option("--mini-batches", min=1, help="So many of them.")] = 4,
    threads: ThreadCounts = [1],
    runs: Runs = 5,
) -> Shown:
    """All workloads end to end, beside the machine's limit and the papers' own programs."""
    from abw.bench.whole.peers import bench_peers

    report = bench_peers(specs, data, workloads, hidden, batch, mini_batches, threads, runs, told)
    yield report
    table = grid(
        "workload", "threads", "instances/s", "of the limit", "construct", "schedule", "plan", "execute",
        "vanilla DyNet", "Cavs DyNet", "ED-Batch", "ahead",
    )  # fmt: skip
    for r in report["rows"]:
        rates = list(r["peers"].values()) if r["peers"] and r["threads"] == 1 else []
        table.add_row(
            r["workload"], str(r["threads"]), amount(r["instances_per_second"]), f"{r['share_of_limit']:.0%}",
            *(duration(r["seconds"][p]) for p in ("construct", "schedule", "plan", "execute")),
            *(amount(value) for value in rates),
            *([f"{r['instances_per_second'] / max(rates):.2f} x"] if rates else []),
        )  # fmt: skip
    yield table
    yield f"measured peak of one thread: {report['peak_gflops']:.1f} GFLOP/s"


@bench
def paper(
    told: Progress,
    data: DataDir,
    specs: SpecsDir = SPECS,
    only: Annotated[
        str | None,
        typer.Option(
            "--only", metavar="PART,...", help="fig6, fig7, fig9, table2, table3, table4, table6 (all)."
        ),
    ] = None,
    workloads: Workloads = None,
    hidden: Annotated[list[int], typer.Option("--hidden", min=1, help="Sizes of fig6; can be repeated.")] = [
        32,
        64,
        128,
        256,
        512,
    ],
    batches: Annotated[
        str, typer.Option("--batches", metavar="B,...", help="Mini-batches of fig6 and fig7.")
    ] = "1,8,32,64,128,256",
    runs: Runs = 3,
) -> Shown:
    """The evaluation of the ED-Batch paper, measured here, with its numbers beside.

    All of it takes more than ten minutes, most of them fig6; --only and --workloads take parts. Ctrl-C ends
    it after the row under way, and shows what was measured.
    """
    from abw.bench.whole.paper import PARTS, bench_paper
    from abw.cli.bench.paper_tables import tables
    from abw.cli.commands.compare import numbers

    parts = tuple(options.one_of(p.strip(), PARTS, "--only") for p in only.split(",")) if only else PARTS
    report = bench_paper(
        specs, data, parts, workloads, hidden, list(numbers(batches, "--batches")), runs, told
    )
    yield report
    yield from tables(report)


@bench
def libraries(
    told: Progress,
    data: DataDir,
    specs: SpecsDir = SPECS,
    hidden: HiddenSizes = [64, 128, 256],
    batch: Batch = 64,
    instances: Annotated[int, typer.Option("--instances", min=1, help="How many trees.")] = 256,
    runs: Runs = 5,
) -> Shown:
    """TreeLSTM forward beside PyTorch by hand, DGL, TorchFold: trees a second, one thread (needs torch)."""
    from abw.bench.libraries.forward import bench_libraries

    report = bench_libraries(data, hidden, batch, instances, runs, specs, told)
    yield report
    table = grid("forward", "hidden", "trees/s", "abw over it", "and made", "abw over it")
    for r in report["rows"]:
        times = [f"{r[key]:.2f} x" if r["name"] != "abw" else "" for key in ("times", "made_times")]
        rates = [amount(r[key]) for key in ("per_second", "made_per_second")]
        table.add_row(r["name"], str(r["hidden"]), rates[0], times[0], rates[1], times[1])
    yield table
    yield "and made: with what each makes of trees in memory: a plan, indices, a graph, a fold"
    worst = max((r["difference"] for r in report["rows"]), default=0.0)
    yield f"the outputs differ by at most {worst:.1e}; " + ", ".join(
        f"{name} {version}" for name, version in report["versions"].items()
    )
