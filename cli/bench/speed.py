"""`abw bench`: the executors, from a plan or from text to outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

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
    bench,
)
from abw.cli.console import amount, duration, grid
from abw.core.base.progress import Progress


@bench
def cpu(
    data: DataDir,
    specs: SpecsDir = SPECS,
    hidden: HiddenSizes = [64, 128, 256, 512],
    batch: BatchSizes = [64, 8],
    threads: ThreadCounts = [1],
    runs: Runs = 9,
    target: Annotated[
        Literal["avx512", "avx2", "plain"] | None,
        typer.Option(
            "--target", help="What kernels and peak are made for.", show_default="this machine's best"
        ),
    ] = None,
) -> Shown:
    """The executor cpu: share of the machine's measured peak, beside PyTorch by level and blas."""
    from abw.bench.executors.cpu import bench_cpu

    report = bench_cpu(data, hidden, batch, runs, specs, threads=tuple(threads), target=target)
    yield report
    table = grid(
        "model", "hidden", "batch", "threads", "time", "of peak", "allowed", "instances/s", "torch", "blas"
    )
    for r in report["rows"]:
        others = (duration(r[k]) if r.get(k) else "" for k in ("torch_seconds", "blas_seconds"))
        table.add_row(
            r["model"], str(r["hidden"]), str(r["batch"]), str(r["threads"]), duration(r["seconds"]),
            f"{r['share_of_peak']:.0%}", "" if r["allowed_share"] is None else f"{r['allowed_share']:.0%}",
            amount(r["instances_per_second"]), *others,
        )  # fmt: skip
    yield table
    yield f"measured peak of one thread ({report['target']}): {report['peak_gflops']:.1f} GFLOP/s"


@bench
def precision(
    data: DataDir,
    specs: SpecsDir = SPECS,
    hidden: HiddenSizes = [256, 512],
    batch: BatchSizes = [64, 8],
    runs: Runs = 9,
) -> Shown:
    """Weights in bfloat16 and int8 beside float32, and PyTorch's products in all three: one thread."""
    from abw.bench.executors.precision import bench_precision

    report = bench_precision(data, hidden, batch, runs, specs)
    yield report
    table = grid(
        "model",
        "hidden",
        "batch",
        "precision",
        "time",
        "speed",
        "weights",
        "error",
        "torch, products",
        "its speed",
    )
    for r in report["rows"]:
        theirs = r["torch_seconds"]
        beside = (duration(theirs), f"{r['torch_speed']:.2f} x") if theirs else ("", "")
        table.add_row(
            r["model"], str(r["hidden"]), str(r["batch"]), r["precision"], duration(r["seconds"]),
            f"{r['speed']:.2f} x", amount(r["packed_bytes"], "B"), f"{r['error']:.1e}", *beside,
        )  # fmt: skip
    yield table
    names = {"bf16": "bfloat16 (AVX-512 BF16)", "int8": "int8 (VNNI)"}
    for name, there in report["instructions"].items():
        yield f"products of {names[name]} in one instruction: {'yes' if there else 'no'}"


@bench
def train(
    data: DataDir,
    specs: SpecsDir = SPECS,
    hidden: HiddenSizes = [64, 128, 256],
    batch: Batch = 64,
    runs: Runs = 15,
) -> Shown:
    """A step of training, part by part, beside PyTorch's autograd by level, DGL, TorchFold: TreeLSTM."""
    from abw.bench.whole.training import LIBRARIES, bench_train

    report = bench_train(data, hidden, batch, runs, specs)
    yield report
    parts = ("passes", "weights", "update", "step")
    table = grid("hidden", *parts, "of peak", "instances/s")
    beside = grid("hidden", "forward and backward", "", "of peak", "over abw")
    for r in report["rows"]:
        times = [duration(r[f"{part}_seconds"]) for part in parts]
        taken = r["passes_seconds"] + r["weights_seconds"]
        shown = f"{r['share_of_peak']:.0%}"
        table.add_row(str(r["hidden"]), *times, shown, amount(r["instances_per_second"]))
        beside.add_row(str(r["hidden"]), "abw", duration(taken), shown, "")
        for name in (n for n in LIBRARIES if r[f"{n}_seconds"]):
            seconds, share = r[f"{name}_seconds"], r[f"{name}_share_of_peak"]
            beside.add_row("", name, duration(seconds), f"{share:.0%}", f"{seconds / taken:.2f} x")
    yield table
    if report["torch"]:
        yield beside


@bench
def epoch(
    data: DataDir,
    specs: SpecsDir = SPECS,
    hidden: HiddenSizes = [128, 256],
    epochs: Annotated[int, typer.Option("--epochs", min=1, help="So many, behind a first one.")] = 2,
) -> Shown:
    """A whole epoch of specs/sst.yaml beside PyTorch's, by level with autograd: CPU time, one thread."""
    from abw.bench.whole.epoch import bench_epoch

    report = bench_epoch(data, {size: 64 if size > 128 else 25 for size in hidden}, epochs, specs)
    yield report
    table = grid("hidden", "batch", "epoch", "of peak", "torch", "of peak", "x")
    for r in report["rows"]:
        theirs, share = r["torch_seconds"], r["torch_share_of_peak"]
        beside = (duration(theirs), f"{share:.0%}", f"{theirs / r['seconds']:.2f} x") if theirs else ("",) * 3
        shown = duration(r["seconds"]), f"{r['share_of_peak']:.0%}"
        table.add_row(str(r["hidden"]), str(r["batch"]), *shown, *beside)
    yield table


@bench
def blas(
    data: DataDir,
    specs: SpecsDir = SPECS,
    hidden: HiddenSizes = [64, 128, 256],
    batch: Batch = 64,
    runs: Runs = 9,
) -> Shown:
    """The executor blas beside PyTorch batched by hand per level: TreeLSTM, one thread (needs torch)."""
    from abw.bench.executors.blas import bench_blas

    report = bench_blas(data, hidden, batch, runs, specs)
    yield report
    table = grid("hidden", "blas", "torch, split", "torch, dense", "torch's best over blas")
    for r in report["rows"]:
        times = (f"{r[name]:.2f} ms" for name in ("blas_ms", "torch_split_ms", "torch_dense_ms"))
        table.add_row(str(r["hidden"]), *times, f"{r['ratio']:.2f} x")
    yield table


@bench
def reading(
    specs: SpecsDir = SPECS,
    instances: Annotated[int, typer.Option("--instances", min=1, help="How many of each.")] = 5000,
    runs: Runs = 5,
) -> Shown:
    """Reading: nanoseconds a value, of all formats; one thread."""
    from abw.bench.whole.reading import bench_reading

    report = bench_reading(specs, instances, runs)
    yield report
    table = grid("data", "values", "ns a value")
    for r in report["rows"]:
        table.add_row(r["format"], amount(r["values"]), f"{r['ns_per_value']:.0f}")
    yield table


@bench
def torch(
    data: DataDir,
    specs: SpecsDir = SPECS,
    hidden: HiddenSizes = [64, 128, 256],
    batch: Batch = 64,
    instances: Annotated[int, typer.Option("--instances", min=1, help="How many of each.")] = 256,
    runs: Runs = 5,
) -> Shown:
    """Models with PyTorch's weights, from data file to outputs: abw, PyTorch, PyTorch batched by hand."""
    from abw.bench.executors.trained import bench_torch

    report = bench_torch(data, hidden, batch, instances, runs, specs)
    yield report
    ways = ("per_instance", "batched", "abw", "abw_hoist")
    table = grid(
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
    yield table
    yield f"largest difference of outputs: {max(r['max_error'] for r in report['rows']):.1e}"


@bench
def models(
    told: Progress,
    specs: SpecsDir = SPECS,
    names: Annotated[
        str | None, typer.Option("--models", metavar="NAME,...", help="As gat,bidag (all).")
    ] = None,
    hidden: HiddenSizes = [64, 256],
    batch: Batch = 64,
    instances: Annotated[int, typer.Option("--instances", min=1, help="How many, repeated.")] = 256,
    runs: Runs = 15,
) -> Shown:
    """The shipped models of graphs, trees and attention, from instances to outputs, beside PyTorch."""
    from abw.bench.whole.models import bench_models

    report = bench_models(specs, names and names.split(","), hidden, batch, instances, runs, told)
    yield report
    table = grid("instances/s", "hidden", "abw", "PyTorch", "", "x", "with its batching", "x")
    for r in report["rows"]:
        theirs = [
            [way, *(shown for key in ("compute", "batch_and_compute") for shown in (
                amount(r["instances"] / given[f"{key}_seconds"]), f"{given[f'{key}_over_abw']:.2f}"))]
            for way, given in r["torch"].items()
        ]  # fmt: skip
        for columns in theirs or [["not installed", "", "", "", ""]]:
            ours = amount(r["instances"] / r["abw_seconds"])
            table.add_row(r["model"], str(r["hidden"]), ours, *columns)
    yield table
    table = grid("a mini-batch of abw", "hidden", *report["rows"][0]["seconds"])
    for r in report["rows"]:
        batches = -(-r["instances"] // report["batch"])
        steps = (duration(seconds / batches) for seconds in r["seconds"].values())
        table.add_row(r["model"], str(r["hidden"]), *steps)
    yield table
    errors = [r["max_error"] for r in report["rows"] if r["max_error"] is not None]
    yield (
        f"largest difference of outputs: {max(errors):.1e}"
        if errors
        else "PyTorch is not installed: nothing to compare with (pip install torch, the build for the CPU)"
    )


@bench
def operations(runs: Runs = 9) -> Shown:
    """The operations of cells by the executor cpu, beside NumPy and PyTorch: nanoseconds an element."""
    from abw.bench.executors.operations import bench_operations

    report = bench_operations(runs)
    yield report
    table = grid("operation", "abw", "of tanh", "NumPy", "PyTorch", "largest error")
    for r in report["rows"]:
        others = (f"{r[k]:.3f} ns" if r[k] is not None else "" for k in ("numpy_ns", "torch_ns"))
        table.add_row(
            r["expression"], f"{r['abw_ns']:.3f} ns", f"{r['of_tanh']:.2f}", *others, f"{r['error']:.1e}"
        )
    yield table


@bench
def e2e(
    data: DataDir,
    specs: SpecsDir = SPECS,
    hidden: Hidden = 128,
    batch: BatchSizes = [64, 256],
    runs: Runs = 9,
) -> Shown:
    """From text to outputs on one thread: the share of time outside the kernels."""
    from abw.bench.whole.e2e import STEPS, bench_e2e

    report = bench_e2e(data, hidden, batch, runs, specs)
    yield report
    table = grid("model", "batch", "nodes", *STEPS, "outside")
    for r in report["rows"]:
        times = (duration(r["seconds"][step]) for step in STEPS)
        table.add_row(r["model"], str(r["batch"]), f"{r['nodes']:,}", *times, f"{r['outside']:.1%}")
    yield table


@bench
def passes(
    told: Progress,
    data: DataDir,
    specs: SpecsDir = SPECS,
    workloads: Annotated[
        str,
        typer.Option("--workloads", metavar="NAME,...", show_default="the lattices and TreeLSTM-2Type"),
    ] = "LatticeLSTM,LatticeGRU,TreeLSTM-2Type",
    hidden: HiddenSizes = [64, 256],
    batch: BatchSizes = [1, 8, 64],
    threads: ThreadCounts = [1],
    runs: Runs = 9,
) -> Shown:
    """Fused reductions and grouped launches: batches, launches, time from instances to outputs."""
    from abw.bench.executors.passes import bench_passes

    report = bench_passes(specs, data, workloads, hidden, batch, threads, runs, told)
    yield report
    table = grid(
        "workload", "hidden", "batch", "threads", "passes", "launches", "kernels", "construct", "schedule",
        "plan", "execute", "gain", "of execute",
    )  # fmt: skip
    for r in report["rows"]:
        table.add_row(
            r["workload"], str(r["hidden"]), f"{r['mini_batches']} x {r['batch']}", str(r["threads"]),
            " ".join(r["passes"]), f"{r['launches']:,}", f"{r['kernels']:,}",
            *(duration(seconds) for seconds in r["seconds"].values()),
            f"{r['gain']:.2f} x", f"{r['execute_gain']:.2f} x",
        )  # fmt: skip
    yield table


@bench
def cost(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="A model with its data.")] = Path(
        "specs/uneven.yaml"
    ),
    executor: Annotated[str, typer.Option("--executor", help="What computes.")] = "cpu",
    hidden: Hidden = 512,
    batch: options.Batch = None,
    runs: Runs = 25,
) -> Shown:
    """What calibrated costs predict beside what schedules take; fewest batches beside least cost."""
    from abw.bench.executors.cost import bench_cost

    report = bench_cost(spec, executor, hidden, batch, runs)
    yield report
    table = grid("type", "launch", "row", "error")
    for t in report["types"]:
        table.add_row(t["type"], duration(t["launch"]), duration(t["row"]), f"{t['error']:.0%}")
    yield table
    table = grid("policy", "batches", "predicted", "measured")
    for r in report["rows"]:
        name = f"{r['policy']}, by cost" if r["cost"] else r["policy"]
        table.add_row(name, str(r["batches"]), duration(r["predicted"]), duration(r["measured"]))
    yield table


@bench
def launch(
    told: Progress,
    data: DataDir,
    specs: SpecsDir = SPECS,
    executor: Annotated[list[str], typer.Option("--executor", help="What computes; can be repeated.")] = [
        "cpu",
        "blas",
    ],
    hidden: HiddenSizes = [32, 64, 128, 256, 512],
    batch: Batch = 256,
) -> Shown:
    """What a batch costs besides its rows, which is what auto charges: launch, operations, weights read."""
    from abw.bench.executors.launch import bench_launch

    report = bench_launch(specs, data, executor, hidden, batch, told)
    yield report
    table = grid("executor", "launch", "an operation", "weights read", "error")
    for r in report["rows"]:
        taken = (duration(r["launch"]), duration(r["operation"]), amount(r["reading"], "B/s"))
        table.add_row(r["executor"], *taken, f"{r['error']:.0%}")
    yield table
    table = grid("executor", "workload", "hidden", "type", "weights", "launch", "row")
    for t in report["types"]:
        cost = (amount(t["weights_bytes"], "B"), duration(t["launch"]), duration(t["row"]))
        table.add_row(t["executor"], t["workload"], str(t["hidden"]), t["type"], *cost)
    yield table


@bench
def cold(
    told: Progress,
    spec: Annotated[Path, typer.Argument(metavar="[SPEC]", help="What to run.")] = Path("specs/lattice.yaml"),
    runs: Annotated[int, typer.Option("--runs", min=1, metavar="N", help="Pairs of runs.")] = 3,
    slowest: Annotated[
        int, typer.Option("--slowest", min=0, metavar="N", help="How many compiles to list.")
    ] = 10,
) -> Shown:
    """The first `abw run`, with nothing compiled, and the second; what numba compiles longest."""
    from abw.bench.whole.cold import bench_cold

    report = bench_cold(spec, runs, slowest, told)
    yield report
    table = grid("abw run", "seconds, quickest", "CPU seconds, least")
    for caches, name in (("cold", "nothing compiled"), ("warm", "the second time")):
        rows = [r for r in report["rows"] if r["caches"] == caches]
        table.add_row(name, *(f"{min(r[k] for r in rows):.2f} s" for k in ("seconds", "cpu_seconds")))
    yield table
    table = grid("compiled on one core", "time")
    for r in report["compiles"]:
        table.add_row(r["function"], duration(r["seconds"]))
    table.add_row(f"all {report['compiled']}", duration(report["compile_seconds"]))
    yield table
