"""`abw bench`: the executors, from a plan or from text to outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from abw.cli import options
from abw.cli.bench.app import (
    Batch,
    BatchSizes,
    DataDir,
    Hidden,
    HiddenSizes,
    Runs,
    SpecsDir,
    ThreadCounts,
    Workloads,
    app,
    new_table,
    show,
)
from abw.cli.console import amount, duration, print_json, progress


@app.command("cpu")
def cpu(
    data: DataDir,
    specs: SpecsDir = Path("specs"),
    hidden: HiddenSizes = [64, 128, 256, 512],
    batch: BatchSizes = [64, 8],
    threads: ThreadCounts = [1],
    runs: Runs = 9,
    as_json: options.Json = False,
) -> None:
    """The executor cpu: share of the machine's measured peak, beside PyTorch by level and blas."""
    from abw.cli.bench.cpu import bench_cpu

    report = bench_cpu(data, hidden, batch, runs, specs, threads=tuple(threads))
    if as_json:
        print_json(report)
        return
    table = new_table(
        "model", "hidden", "batch", "threads", "time", "of peak", "instances/s", "torch", "blas"
    )
    for r in report["rows"]:
        others = (duration(r[k]) if r.get(k) else "" for k in ("torch_seconds", "blas_seconds"))
        table.add_row(
            r["model"], str(r["hidden"]), str(r["batch"]), str(r["threads"]), duration(r["seconds"]),
            f"{r['share_of_peak']:.0%}", amount(r["instances_per_second"]), *others,
        )  # fmt: skip
    show(table)
    print(f"measured peak of one thread: {report['peak_gflops']:.1f} GFLOP/s")


@app.command("blas")
def blas(
    data: DataDir,
    specs: SpecsDir = Path("specs"),
    hidden: HiddenSizes = [64, 128, 256],
    batch: Batch = 64,
    runs: Runs = 9,
    as_json: options.Json = False,
) -> None:
    """The executor blas beside PyTorch batched by hand per level: TreeLSTM, one thread (needs torch)."""
    from abw.cli.bench.blas import bench_blas

    report = bench_blas(data, hidden, batch, runs, specs)
    if as_json:
        print_json(report)
        return
    table = new_table("hidden", "blas", "torch, split", "torch, dense", "torch's best over blas")
    for r in report["rows"]:
        times = (f"{r[name]:.2f} ms" for name in ("blas_ms", "torch_split_ms", "torch_dense_ms"))
        table.add_row(str(r["hidden"]), *times, f"{r['ratio']:.2f} x")
    show(table)


@app.command("torch")
def torch(
    data: DataDir,
    specs: SpecsDir = Path("specs"),
    hidden: HiddenSizes = [64, 128, 256],
    batch: Batch = 64,
    instances: Annotated[int, typer.Option("--instances", min=1, help="How many of each.")] = 256,
    runs: Runs = 5,
    as_json: options.Json = False,
) -> None:
    """Models with PyTorch's weights, from data file to outputs: abw, PyTorch, PyTorch batched by hand."""
    from abw.cli.bench.trained import bench_torch

    report = bench_torch(data, hidden, batch, instances, runs, specs)
    if as_json:
        print_json(report)
        return
    ways = ("per_instance", "batched", "abw", "abw_hoist")
    table = new_table(
        "instances/s",
        "hidden",
        "PyTorch, one by one",
        "PyTorch, by hand",
        "abw",
        "abw --hoist",
        "over by hand",
    )
    for r in report["rows"]:
        speeds = [r.get(f"{way}_per_second") for way in ways]
        best = max(s for s in speeds[2:] if s)
        shown = (amount(s) if s else "" for s in speeds)
        table.add_row(r["model"], str(r["hidden"]), *shown, f"{best / speeds[1]:.2f} x")
    show(table)
    print(f"largest difference of outputs: {max(r['max_error'] for r in report['rows']):.1e}")


@app.command("e2e")
def e2e(
    data: DataDir,
    specs: SpecsDir = Path("specs"),
    hidden: Hidden = 128,
    batch: BatchSizes = [64, 256],
    runs: Runs = 9,
    as_json: options.Json = False,
) -> None:
    """From text to outputs on one thread: the share of time outside the kernels."""
    from abw.cli.bench.e2e import STEPS, bench_e2e

    report = bench_e2e(data, hidden, batch, runs, specs)
    if as_json:
        print_json(report)
        return
    table = new_table("model", "batch", "nodes", *STEPS, "outside")
    for r in report["rows"]:
        times = (duration(r["seconds"][step]) for step in STEPS)
        table.add_row(r["model"], str(r["batch"]), str(r["nodes"]), *times, f"{r['outside']:.1%}")
    show(table)


@app.command("passes")
def passes(
    data: DataDir,
    specs: SpecsDir = Path("specs"),
    workloads: Workloads = "LatticeLSTM,LatticeGRU,TreeLSTM-2Type",
    hidden: HiddenSizes = [64, 256],
    batch: BatchSizes = [1, 8, 64],
    threads: ThreadCounts = [1],
    runs: Runs = 9,
    quiet: options.QuietFlag = False,
    as_json: options.Json = False,
) -> None:
    """Fused reductions and grouped launches: batches, launches, time from instances to outputs."""
    from abw.cli.bench.passes import bench_passes

    with progress(quiet) as told:
        report = bench_passes(specs, data, workloads, hidden, batch, threads, runs, told)
    if as_json:
        print_json(report)
        return
    table = new_table(
        "workload", "hidden", "batch", "threads", "passes", "launches", "kernels", "construct", "schedule",
        "plan", "execute", "gain", "of execute",
    )  # fmt: skip
    for r in report["rows"]:
        table.add_row(
            r["workload"], str(r["hidden"]), f"{r['mini_batches']} x {r['batch']}", str(r["threads"]),
            " ".join(r["passes"]), str(r["launches"]), str(r["kernels"]),
            *(duration(seconds) for seconds in r["seconds"].values()),
            f"{r['gain']:.2f} x", f"{r['execute_gain']:.2f} x",
        )  # fmt: skip
    show(table)


@app.command("cost")
def cost(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="A model with its data.")] = Path(
        "specs/uneven.yaml"
    ),
    executor: Annotated[str, typer.Option("--executor", help="What computes.")] = "cpu",
    hidden: Hidden = 512,
    batch: options.Batch = None,
    runs: Runs = 25,
    as_json: options.Json = False,
) -> None:
    """What calibrated costs predict beside what schedules take; fewest batches beside least cost."""
    from abw.cli.bench.cost import bench_cost

    report = bench_cost(spec, executor, hidden, batch, runs)
    if as_json:
        print_json(report)
        return
    table = new_table("type", "launch", "row", "error")
    for t in report["types"]:
        table.add_row(t["type"], duration(t["launch"]), duration(t["row"]), f"{t['error']:.0%}")
    show(table)
    table = new_table("policy", "batches", "predicted", "measured")
    for r in report["rows"]:
        name = f"{r['policy']}, by cost" if r["cost"] else r["policy"]
        table.add_row(name, str(r["batches"]), duration(r["predicted"]), duration(r["measured"]))
    show(table)


@app.command("cold")
def cold(
    spec: Annotated[Path, typer.Argument(metavar="[SPEC]", help="What to run.")] = Path("specs/lattice.yaml"),
    runs: Annotated[int, typer.Option("--runs", min=1, metavar="N", help="Pairs of runs.")] = 3,
    slowest: Annotated[
        int, typer.Option("--slowest", min=0, metavar="N", help="How many compiles to list.")
    ] = 10,
    quiet: options.QuietFlag = False,
    as_json: options.Json = False,
) -> None:
    """The first `abw run`, with nothing compiled, and the second; what numba compiles longest."""
    from abw.cli.bench.cold import bench_cold

    with progress(quiet) as told:
        report = bench_cold(spec, runs, slowest, told)
    if as_json:
        print_json(report)
        return
    table = new_table("abw run", "seconds, quickest", "CPU seconds, least")
    for caches, name in (("cold", "nothing compiled"), ("warm", "the second time")):
        rows = [r for r in report["rows"] if r["caches"] == caches]
        table.add_row(name, *(f"{min(r[k] for r in rows):.2f} s" for k in ("seconds", "cpu_seconds")))
    show(table)
    table = new_table("compiled on one core", "time")
    for r in report["compiles"]:
        table.add_row(r["function"], duration(r["seconds"]))
    table.add_row(f"all {report['compiled']}", duration(report["compile_seconds"]))
    show(table)
