"""`abw bench`: graphs, policies, layouts, memory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from abw.cli import options
from abw.cli.bench.app import Batch, DataDir, Hidden, Runs, SpecsDir, app, new_table, show
from abw.cli.console import amount, duration, print_json, progress


@app.command("graph")
def graph(
    data: DataDir,
    specs: SpecsDir = Path("specs"),
    instances: Annotated[int, typer.Option("--instances", min=32, help="How many of each.")] = 256,
    runs: Runs = 9,
    as_json: options.Json = False,
) -> None:
    """Nanoseconds a node for reading, construction, each policy and planning."""
    from abw.cli.bench.graph import bench_graph

    report = bench_graph(specs, data, instances, runs)
    if as_json:
        print_json(report)
        return
    table = new_table("step", *dict.fromkeys(f"{r['workload']} ({r['nodes']} nodes)" for r in report["rows"]))
    for step in dict.fromkeys(r["step"] for r in report["rows"]):
        table.add_row(step, *(f"{r['ns_per_node']:.1f} ns" for r in report["rows"] if r["step"] == step))
    show(table)


@app.command("policies")
def policies(
    data: DataDir,
    specs: SpecsDir = Path("specs"),
    batch: Batch = 64,
    train: options.TrainLimit = 32,
    granularity: options.Granularity = "cell",
    runs: Runs = 3,
    quiet: options.QuietFlag = False,
    as_json: options.Json = False,
) -> None:
    """Batches by policy, and learning time beside the paper's Table 4, for all its workloads."""
    from abw.cli.bench.policies import bench_policies

    with progress(quiet) as told:
        report = bench_policies(specs, data, batch, train, granularity, runs, told)
    if as_json:
        print_json(report)
        return
    names = list(report["rows"][0]["batches"])
    table = new_table("batches", "nodes", "bound", *names)
    for r in report["rows"]:
        table.add_row(
            r["workload"],
            f"{r['nodes']:.0f}",
            f"{r['lower_bound']:.1f}",
            *(f"{r['batches'][n]:.1f}" for n in names),
        )
    show(table)
    if report["granularity"] == "op":
        return
    table = new_table(
        "learning",
        "nodes",
        "bound",
        *(f"{e}: batches, trials, states, time" for e in report["rows"][0]["learning"]),
        "paper",
    )
    for r in report["rows"]:
        cells = [
            f"{f['batches']}, {f['trials']}, {f['states']}, {duration(f['seconds'])}"
            for f in r["learning"].values()
        ]
        paper = f"{r['paper'][0]} s, {r['paper'][1]} trials" if r["paper"] else ""
        table.add_row(r["workload"], str(r["training_nodes"]), str(r["training_lower_bound"]), *cells, paper)
    show(table)


@app.command("fig7")
def fig7(
    data: DataDir,
    specs: SpecsDir = Path("specs"),
    policies: Annotated[
        str | None, typer.Option("--policies", metavar="NAME,...", help="As of `abw compare` (all).")
    ] = None,
    batches: Annotated[
        str, typer.Option("--batches", metavar="B,...", help="Instances in a mini-batch.")
    ] = "1,8,32,64,128,256",
    skip: Annotated[int, typer.Option("--skip", min=0, help="Apply behind the first N instances.")] = 64,
    train: options.TrainLimit = 32,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE.svg", help="Draw it here.")] = None,
    quiet: options.QuietFlag = False,
    as_json: options.Json = False,
) -> None:
    """The paper's Fig. 7: batches by policy and batch size for all its workloads."""
    from abw.cli.bench.fig7 import POLICIES, bench_fig7
    from abw.cli.compare import numbers, save_charts, size_chart, size_table

    names = tuple(policies.split(",")) if policies else POLICIES
    with progress(quiet) as told:
        report = bench_fig7(specs, data, names, numbers(batches, "--batches"), skip, train, told)
    if plot:
        save_charts([size_chart(r["workload"], r["batch_sizes"]) for r in report["rows"]], plot)
    if as_json:
        print_json(report)
        return
    for row in report["rows"]:
        show(size_table(row["workload"], row["batch_sizes"]))


@app.command("layout")
def layout(
    data: DataDir,
    specs: SpecsDir = Path("specs"),
    batch: Annotated[int, typer.Option("--batch", min=1, help="Instances, for copies between cells.")] = 64,
    sizes: Annotated[
        str, typer.Option("--batches", metavar="B,...", help="Instances, for whole graphs.")
    ] = "64,256",
    runs: Runs = 5,
    quiet: options.QuietFlag = False,
    as_json: options.Json = False,
) -> None:
    """Copies between cells before and after planning; whole mini-batches as one layout problem."""
    from abw.cli.bench.layout import bench_layout

    numbers = [int(part) for part in sizes.split(",") if part.isdecimal() and int(part) > 0]
    if len(numbers) != len(sizes.split(",")):
        raise typer.BadParameter(f"'{sizes}' is no list of numbers, as in 64,256", param_hint="--batches")
    with progress(quiet) as told:
        report = bench_layout(specs, data, batch, numbers, runs, told)
    if as_json:
        print_json(report)
        return
    table = new_table("copies between cells", "batches", "before", "after", "whole graph planned", "batches")
    for r in report["boundaries"]:
        kernels = [
            f"{r[k]['kernels']} / {r[k]['bytes'] / 1024:.0f} KiB" for k in ("before", "after", "together")
        ]
        table.add_row(r["workload"], str(r["batches"]), *kernels, str(r["together"]["batches"]))
    show(table)
    table = new_table("lanes free of copies", "nodes", "batches", "contiguous", "planned", "us a node", "run")
    for r in report["graphs"]:
        for key in ("whole", "split"):
            part = r[key]
            table.add_row(
                f"{r['workload']} {r['batch']}" + (", split" if key == "split" else ""),
                str(r["nodes"]),
                str(part["batches"]),
                f"{part['result_contiguous']:.1%}",
                f"{part['planned']:.1%}",
                f"{part['us_a_node']:.0f}",
                f"{part['run_ms']:.1f} ms",
            )
    show(table)


@app.command("memory")
def memory(
    data: DataDir,
    specs: SpecsDir = Path("specs"),
    batch: Batch = 256,
    hidden: Hidden = 64,
    quiet: options.QuietFlag = False,
    as_json: options.Json = False,
) -> None:
    """Memory of one mini-batch of each workload: predicted, and the peak."""
    from abw.cli.bench.memory import bench_memory

    with progress(quiet) as told:
        report = bench_memory(specs, data, batch, hidden, told)
    if as_json:
        print_json(report)
        return
    table = new_table("workload", "batch", "nodes", "mini-batch", "predicted", "measured", "peak, ever")
    for r in report["rows"]:
        sizes = ("mini_batch_bytes", "predicted_bytes", "measured_bytes")
        said = [amount(r["memory"][k], "B") if r["memory"] else "" for k in sizes]
        peak = amount(r["peak_memory_bytes"], "B")
        table.add_row(r["workload"], str(r["batch"]), str(r["nodes"]), *said, peak)
    show(table)
