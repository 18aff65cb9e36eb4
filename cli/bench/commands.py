"""`abw bench ...`: every figure of docs/benchmarks.md, measured again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from abw.cli import options
from abw.cli.console import amount, duration, print_json, progress

app = typer.Typer(
    no_args_is_help=True,
    help="Measure abw on real data (--data DIR holds trees/, lattice/, tags/ and pairs/).",
)

DataDir = Annotated[Path, typer.Option("--data", metavar="DIR", help="The folder with the real data.")]
SpecsDir = Annotated[Path, typer.Option("--specs", metavar="DIR", help="The folder with the specs.")]
Runs = Annotated[int, typer.Option("--runs", min=1, metavar="N", help="Runs that a median is taken of.")]


def _table(*columns: str) -> Any:  # noqa: ANN401
    from rich.table import Table

    table = Table(*columns, box=None, pad_edge=False)
    for column in table.columns[1:]:
        column.justify = "right"
    return table


def _show(table: Any) -> None:  # noqa: ANN401
    from rich.console import Console

    Console(highlight=False).print(table)


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
    table = _table("step", *dict.fromkeys(f"{r['workload']} ({r['nodes']} nodes)" for r in report["rows"]))
    for step in dict.fromkeys(r["step"] for r in report["rows"]):
        table.add_row(step, *(f"{r['ns_per_node']:.1f} ns" for r in report["rows"] if r["step"] == step))
    _show(table)


@app.command("policies")
def policies(
    data: DataDir,
    specs: SpecsDir = Path("specs"),
    batch: Annotated[int, typer.Option("--batch", min=1, help="Instances in a mini-batch.")] = 64,
    train: Annotated[
        int, typer.Option("--train-limit", min=1, help="Learn from the first N instances.")
    ] = 32,
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
    table = _table("batches", "nodes", "bound", *names)
    for r in report["rows"]:
        table.add_row(
            r["workload"],
            f"{r['nodes']:.0f}",
            f"{r['lower_bound']:.1f}",
            *(f"{r['batches'][n]:.1f}" for n in names),
        )
    _show(table)
    if report["granularity"] == "op":
        return
    table = _table(
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
    _show(table)


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
    train: Annotated[
        int, typer.Option("--train-limit", min=1, help="Learn from the first N instances.")
    ] = 32,
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
        _show(size_table(row["workload"], row["batch_sizes"]))


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
    table = _table("abw run", "seconds, quickest", "CPU seconds, least")
    for caches, name in (("cold", "nothing compiled"), ("warm", "the second time")):
        rows = [r for r in report["rows"] if r["caches"] == caches]
        table.add_row(name, *(f"{min(r[k] for r in rows):.2f} s" for k in ("seconds", "cpu_seconds")))
    _show(table)
    table = _table("compiled on one core", "time")
    for r in report["compiles"]:
        table.add_row(r["function"], duration(r["seconds"]))
    table.add_row(f"all {report['compiled']}", duration(report["compile_seconds"]))
    _show(table)


@app.command("memory")
def memory(
    data: DataDir,
    specs: SpecsDir = Path("specs"),
    batch: Annotated[int, typer.Option("--batch", min=1, help="Instances in the mini-batch.")] = 256,
    hidden: Annotated[int, typer.Option("--hidden", min=1, help="The size of the model.")] = 64,
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
    table = _table("workload", "batch", "nodes", "mini-batch", "predicted", "measured", "peak, ever")
    for r in report["rows"]:
        sizes = ("mini_batch_bytes", "predicted_bytes", "measured_bytes")
        said = [amount(r["memory"][k], "B") if r["memory"] else "" for k in sizes]
        peak = amount(r["peak_memory_bytes"], "B")
        table.add_row(r["workload"], str(r["batch"]), str(r["nodes"]), *said, peak)
    _show(table)


@app.command("e2e")
def e2e(
    data: DataDir,
    specs: SpecsDir = Path("specs"),
    hidden: Annotated[int, typer.Option("--hidden", min=1, help="The size of the models.")] = 128,
    batch: Annotated[
        list[int] | None, typer.Option("--batch", min=1, help="Instances in the mini-batch; can be repeated.")
    ] = None,
    runs: Runs = 9,
    as_json: options.Json = False,
) -> None:
    """From text to outputs on one thread: the share of time outside the kernels."""
    from abw.cli.bench.e2e import STEPS, bench_e2e

    report = bench_e2e(data, hidden, batch or [64, 256], runs, specs)
    if as_json:
        print_json(report)
        return
    table = _table("model", "batch", "nodes", *STEPS, "outside")
    for r in report["rows"]:
        times = (duration(r["seconds"][step]) for step in STEPS)
        table.add_row(r["model"], str(r["batch"]), str(r["nodes"]), *times, f"{r['outside']:.1%}")
    _show(table)


@app.command("blas")
def blas(
    data: DataDir,
    specs: SpecsDir = Path("specs"),
    hidden: Annotated[
        list[int] | None, typer.Option("--hidden", min=1, help="Sizes; can be repeated.")
    ] = None,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Trees in the mini-batch.")] = 64,
    runs: Runs = 9,
    as_json: options.Json = False,
) -> None:
    """The executor blas beside PyTorch batched by hand per level: TreeLSTM, one thread (needs torch)."""
    from abw.cli.bench.blas import bench_blas

    report = bench_blas(data, hidden or [64, 128, 256], batch, runs, specs)
    if as_json:
        print_json(report)
        return
    table = _table("hidden", "blas", "torch, split", "torch, dense", "torch's best over blas")
    for r in report["rows"]:
        times = (f"{r[name]:.2f} ms" for name in ("blas_ms", "torch_split_ms", "torch_dense_ms"))
        table.add_row(str(r["hidden"]), *times, f"{r['ratio']:.2f} x")
    _show(table)


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
    table = _table("copies between cells", "batches", "before", "after", "whole graph planned", "batches")
    for r in report["boundaries"]:
        kernels = [
            f"{r[k]['kernels']} / {r[k]['bytes'] / 1024:.0f} KiB" for k in ("before", "after", "together")
        ]
        table.add_row(r["workload"], str(r["batches"]), *kernels, str(r["together"]["batches"]))
    _show(table)
    table = _table("lanes free of copies", "nodes", "batches", "contiguous", "planned", "us a node", "run")
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
    _show(table)


@app.command("cpu")
def cpu(
    data: DataDir,
    specs: SpecsDir = Path("specs"),
    hidden: Annotated[
        list[int] | None, typer.Option("--hidden", min=1, help="Sizes; can be repeated.")
    ] = None,
    batch: Annotated[
        list[int] | None, typer.Option("--batch", min=1, help="Instances in the mini-batch; can be repeated.")
    ] = None,
    threads: Annotated[
        list[int] | None, typer.Option("--threads", min=1, help="Threads; can be repeated.")
    ] = None,
    runs: Runs = 9,
    as_json: options.Json = False,
) -> None:
    """The executor cpu: share of the machine's measured peak, beside PyTorch by level and blas."""
    from abw.cli.bench.cpu import bench_cpu

    report = bench_cpu(
        data, hidden or [64, 128, 256, 512], batch or [64, 8], runs, specs, threads=tuple(threads or (1,))
    )
    if as_json:
        print_json(report)
        return
    table = _table("model", "hidden", "batch", "threads", "time", "of peak", "instances/s", "torch", "blas")
    for r in report["rows"]:
        others = (duration(r[k]) if r.get(k) else "" for k in ("torch_seconds", "blas_seconds"))
        table.add_row(
            r["model"], str(r["hidden"]), str(r["batch"]), str(r["threads"]), duration(r["seconds"]),
            f"{r['share_of_peak']:.0%}", amount(r["instances_per_second"]), *others,
        )  # fmt: skip
    _show(table)
    print(f"measured peak of one thread: {report['peak_gflops']:.1f} GFLOP/s")


Workloads = Annotated[
    str | None, typer.Option("--workloads", metavar="NAME,...", help="As TreeLSTM,LatticeLSTM (all).")
]


@app.command("cuda")
def cuda(
    data: DataDir,
    specs: SpecsDir = Path("specs"),
    workloads: Workloads = None,
    hidden: Annotated[
        list[int] | None, typer.Option("--hidden", min=1, help="Sizes; can be repeated (128, 256, 512).")
    ] = None,
    batch: Annotated[
        list[int] | None,
        typer.Option("--batch", min=1, help="Instances in the mini-batch; can be repeated (1, 8, 64, 256)."),
    ] = None,
    runs: Runs = 15,
    output: Annotated[
        Path | None, typer.Option("--output", metavar="FILE", help="Where the table is written, too.")
    ] = None,
    compile_only: Annotated[
        bool,
        typer.Option(
            "--compile-only",
            help="Only compile all kernels, for compute capability 9.0; this needs no GPU. They are kept "
            "under ABW_HOME/kernels, which another machine can be given.",
        ),
    ] = False,
    quiet: options.QuietFlag = False,
    as_json: options.Json = False,
) -> None:
    """The executor cuda on a GPU: all workloads checked, then timed beside the floor and PyTorch."""
    from abw.cli.bench.cuda import bench_cuda, compile_all, default_executor
    from abw.cli.bench.cuda_table import markdown
    from abw.cli.bench.systems import chosen_cases
    from abw.core.store.files import write_text

    cases, sizes = chosen_cases(workloads), hidden or [128, 256, 512]
    with progress(quiet) as told:
        if compile_only:
            print(f"{compile_all(data, specs, cases, sizes, told)} kernels are compiled")
            return
        from abw.core.exec.cuda.available import open_device

        report = bench_cuda(
            data, specs, cases, sizes, batch or [1, 8, 64, 256], runs, open_device(), told, default_executor
        )
    page = markdown(report)
    if output is not None:
        write_text(output, page)
    if as_json:
        print_json(report)
    else:
        print(page)


@app.command("ablation")
def ablation(
    data: DataDir,
    specs: SpecsDir = Path("specs"),
    workloads: Workloads = "BiLSTM-Tagger,TreeLSTM,LatticeLSTM",
    hidden: Annotated[
        list[int] | None, typer.Option("--hidden", min=1, help="Sizes; can be repeated (128).")
    ] = None,
    batch: Annotated[
        list[int] | None,
        typer.Option("--batch", min=1, help="Instances in the mini-batch; can be repeated (8, 64)."),
    ] = None,
    runs: Runs = 5,
    quiet: options.QuietFlag = False,
    as_json: options.Json = False,
) -> None:
    """Policy, layout, fusion, hoisting and executor, each with each: batches, copies, time by phase."""
    from abw.cli.bench.ablation import bench_ablation

    with progress(quiet) as told:
        report = bench_ablation(specs, data, workloads, hidden or [128], batch or [8, 64], runs, told)
    if as_json:
        print_json(report)
        return
    blocks = dict.fromkeys((r["workload"], r["hidden"], r["batch"]) for r in report["rows"])
    for workload, size, instances in blocks:
        table = _table(
            f"{workload} {size} x {instances}", "layout", "hoist", "fuse", "batches", "copies", "moved",
            "schedule", "execute", "instances/s", "gain",
        )  # fmt: skip
        for r in report["rows"]:
            if (r["workload"], r["hidden"], r["batch"]) == (workload, size, instances):
                table.add_row(
                    f"{r['executor']}, {r['policy']}", r["layout"], "yes" if r["hoist"] else "",
                    "yes" if r["fuse"] else "",
                    str(r["batches"]), str(r["memory_kernels"]), amount(r["bytes_moved"], "B"),
                    duration(r["seconds"]["schedule"]), duration(r["seconds"]["execute"]),
                    amount(r["instances_per_second"]), f"{r['speedup']:.2f} x",
                )  # fmt: skip
        _show(table)
    print("gain: instances a second, over those of the preset cavs-dynet")


@app.command("peers")
def peers(
    data: DataDir,
    specs: SpecsDir = Path("specs"),
    workloads: Workloads = None,
    hidden: Annotated[int, typer.Option("--hidden", min=1, help="The size of the model.")] = 128,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Instances in a mini-batch.")] = 64,
    mini_batches: Annotated[int, typer.Option("--mini-batches", min=1, help="So many of them.")] = 4,
    threads: Annotated[
        list[int] | None, typer.Option("--threads", min=1, help="Threads; can be repeated.")
    ] = None,
    runs: Runs = 5,
    quiet: options.QuietFlag = False,
    as_json: options.Json = False,
) -> None:
    """All workloads end to end, beside the machine's limit and the papers' own programs."""
    from abw.cli.bench.peers import bench_peers

    with progress(quiet) as told:
        report = bench_peers(specs, data, workloads, hidden, batch, mini_batches, threads or [1], runs, told)
    if as_json:
        print_json(report)
        return
    table = _table(
        "workload", "threads", "instances/s", "of the limit", "construct", "schedule", "plan", "execute",
        "vanilla DyNet", "Cavs DyNet", "ED-Batch", "ahead",
    )  # fmt: skip
    for r in report["rows"]:
        found = list(r["peers"].values()) if r["peers"] and r["threads"] == 1 else []
        table.add_row(
            r["workload"], str(r["threads"]), amount(r["instances_per_second"]), f"{r['share_of_limit']:.0%}",
            *(duration(r["seconds"][p]) for p in ("construct", "schedule", "plan", "execute")),
            *(amount(value) for value in found),
            *([f"{r['instances_per_second'] / max(found):.2f} x"] if found else []),
        )  # fmt: skip
    _show(table)
    print(f"measured peak of one thread: {report['peak_gflops']:.1f} GFLOP/s")


@app.command("paper")
def paper(
    data: DataDir,
    specs: SpecsDir = Path("specs"),
    only: Annotated[
        str | None,
        typer.Option(
            "--only", metavar="PART,...", help="fig6, fig7, fig9, table2, table3, table4, table6 (all)."
        ),
    ] = None,
    workloads: Workloads = None,
    hidden: Annotated[
        list[int] | None, typer.Option("--hidden", min=1, help="Sizes of fig6; can be repeated (32 to 512).")
    ] = None,
    batches: Annotated[
        str, typer.Option("--batches", metavar="B,...", help="Mini-batches of fig6 and fig7.")
    ] = "1,8,32,64,128,256",
    runs: Runs = 3,
    quiet: options.QuietFlag = False,
    as_json: options.Json = False,
) -> None:
    """The evaluation of the ED-Batch paper, measured here, with its numbers beside (all: half an hour)."""
    from abw.cli.bench.paper import PARTS, bench_paper
    from abw.cli.bench.paper_tables import tables
    from abw.cli.compare import numbers

    parts = tuple(options.one_of(p.strip(), PARTS, "--only") for p in only.split(",")) if only else PARTS
    sizes = hidden or [32, 64, 128, 256, 512]
    with progress(quiet) as told:
        report = bench_paper(
            specs, data, parts, workloads, sizes, list(numbers(batches, "--batches")), runs, told
        )
    if as_json:
        print_json(report)
        return
    for table in tables(report):
        _show(table)


@app.command("torch")
def torch(
    data: DataDir,
    specs: SpecsDir = Path("specs"),
    hidden: Annotated[
        list[int] | None, typer.Option("--hidden", min=1, help="Sizes; can be repeated.")
    ] = None,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Instances in a mini-batch.")] = 64,
    instances: Annotated[int, typer.Option("--instances", min=1, help="How many of each.")] = 256,
    runs: Runs = 5,
    as_json: options.Json = False,
) -> None:
    """Models with PyTorch's weights, from data file to outputs: abw, PyTorch, PyTorch batched by hand."""
    from abw.cli.bench.trained import bench_torch

    report = bench_torch(data, hidden or [64, 128, 256], batch, instances, runs, specs)
    if as_json:
        print_json(report)
        return
    ways = ("per_instance", "batched", "abw", "abw_hoist")
    table = _table(
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
    _show(table)
    print(f"largest difference of outputs: {max(r['max_error'] for r in report['rows']):.1e}")


@app.command("passes")
def passes(
    data: DataDir,
    specs: SpecsDir = Path("specs"),
    workloads: Workloads = "LatticeLSTM,LatticeGRU,TreeLSTM-2Type",
    hidden: Annotated[
        list[int] | None, typer.Option("--hidden", min=1, help="Sizes; can be repeated (64, 256).")
    ] = None,
    batch: Annotated[
        list[int] | None,
        typer.Option("--batch", min=1, help="Instances in a mini-batch; can be repeated (1, 8, 64)."),
    ] = None,
    threads: Annotated[
        list[int] | None, typer.Option("--threads", min=1, help="Threads; can be repeated (1).")
    ] = None,
    runs: Runs = 9,
    quiet: options.QuietFlag = False,
    as_json: options.Json = False,
) -> None:
    """Fused reductions and grouped launches: batches, launches, time from instances to outputs."""
    from abw.cli.bench.passes import bench_passes

    with progress(quiet) as told:
        report = bench_passes(
            specs, data, workloads, hidden or [64, 256], batch or [1, 8, 64], threads or [1], runs, told
        )
    if as_json:
        print_json(report)
        return
    table = _table(
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
    _show(table)


@app.command("cost")
def cost(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="A model with its data.")] = Path(
        "specs/uneven.yaml"
    ),
    executor: Annotated[str, typer.Option("--executor", help="What computes.")] = "cpu",
    hidden: Annotated[int, typer.Option("--hidden", min=1, help="The size of the model.")] = 512,
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
    table = _table("type", "launch", "row", "error")
    for t in report["types"]:
        table.add_row(t["type"], duration(t["launch"]), duration(t["row"]), f"{t['error']:.0%}")
    _show(table)
    table = _table("policy", "batches", "predicted", "measured")
    for r in report["rows"]:
        name = f"{r['policy']}, by cost" if r["cost"] else r["policy"]
        table.add_row(name, str(r["batches"]), duration(r["predicted"]), duration(r["measured"]))
    _show(table)
