"""`abw bench`: graphs, policies, layouts, memory."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from abw.cli import options
from abw.cli.bench.app import SPECS, Batch, DataDir, HiddenSizes, Runs, Shown, SpecsDir, Workloads, bench
from abw.cli.console import amount, duration, grid
from abw.core.base.progress import Progress


@bench
def graph(
    data: DataDir,
    specs: SpecsDir = SPECS,
    instances: Annotated[int, typer.Option("--instances", min=32, help="How many of each.")] = 256,
    runs: Runs = 9,
) -> Shown:
    """Nanoseconds a node for reading, construction, each policy and planning."""
    from abw.bench.graphs.graph import bench_graph

    report = bench_graph(specs, data, instances, runs)
    yield report
    table = grid("step", *dict.fromkeys(f"{r['workload']} ({r['nodes']:,} nodes)" for r in report["rows"]))
    for step in dict.fromkeys(r["step"] for r in report["rows"]):
        table.add_row(step, *(f"{r['ns_per_node']:.1f} ns" for r in report["rows"] if r["step"] == step))
    yield table


@bench
def policies(
    told: Progress,
    data: DataDir,
    specs: SpecsDir = SPECS,
    batch: Batch = 64,
    train: options.TrainLimit = 32,
    granularity: options.Granularity = "cell",
    runs: Runs = 3,
    families: Annotated[
        bool, typer.Option("--families", help="On families of graphs with 3 to 300 types instead.")
    ] = False,
    unseen: Annotated[
        bool, typer.Option("--unseen", help="The same for the workloads, on unseen data.")
    ] = False,
    workloads: Workloads = None,
    mini_batches: Annotated[
        int, typer.Option("--mini-batches", min=1, metavar="N", help="Of these two: how many are scheduled.")
    ] = 4,
    launch: Annotated[
        float, typer.Option("--launch", metavar="US", help="Of these two: a batch's microseconds.")
    ] = 20.0,
    named: Annotated[
        str | None, typer.Option("--family", metavar="TEXT", help="Only families whose names contain it.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="FILE.svg", help="Draw quality against cost here.")
    ] = None,
) -> Shown:
    """Batches by policy, and learning time beside the paper's Table 4, for all its workloads."""
    if families or unseen:
        from abw.bench.graphs.quality import bench_families, bench_unseen
        from abw.bench.systems import chosen_cases

        if families:
            report = bench_families(data, batch, launch * 1e-6, mini_batches, named, told)
        else:
            cases = [c.name for c in chosen_cases(workloads)]
            report = bench_unseen(specs, data, cases, granularity, batch, launch * 1e-6, mini_batches, told)
        if plot:
            _plot(report, plot)
        yield report
        yield from _quality(report)
        return
    from abw.bench.graphs.policies import bench_policies

    report = bench_policies(specs, data, batch, train, granularity, runs, told)
    yield report
    names = list(report["rows"][0]["batches"])
    table = grid("batches", "nodes", "bound", *names)
    for r in report["rows"]:
        table.add_row(
            r["workload"],
            f"{r['nodes']:,.0f}",
            f"{r['lower_bound']:.1f}",
            *(f"{r['batches'][n]:.1f}" for n in names),
        )
    yield table
    if report["granularity"] == "op":
        return
    table = grid(
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
        table.add_row(
            r["workload"], f"{r['training_nodes']:,}", str(r["training_lower_bound"]), *cells, paper
        )
    yield table


def _plot(report: dict[str, Any], file: Path) -> None:
    """Quality against cost, a mark a policy."""
    from abw.core.base.files import write_text
    from abw.viz.drawing.scatter import Mark, scatter_svg
    from abw.viz.drawing.svg import document

    marks = [
        Mark(name, report["ns_per_node"][name], 100 * (report["geometric_mean"][name] - 1))
        for name in report["geometric_mean"]
    ]
    write_text(file, document(scatter_svg("Batching policies", "ns a node", "% above the best", marks)))


def _quality(report: dict[str, Any]) -> Shown:
    """What `policies --families` and `--unseen` show."""
    names = list(report["geometric_mean"])
    table = grid("batches to the best known", "types", "nodes", "bound", "best", *names)
    for r in report["rows"]:
        ratios = (f"{r['batches'][n] / r['best']:.3f}" if n in r["batches"] else "" for n in names)
        numbers = (r["types"], r["nodes"], r["lower_bound"], r["best"])
        table.add_row(r["family"], *map(str, numbers), *ratios)
    for said in ("geometric_mean", "worst"):
        table.add_row(said.replace("_", " "), "", "", "", "", *(f"{report[said][n]:.3f}" for n in names))
    table.add_row("ns a node", "", "", "", "", *(f"{report['ns_per_node'][n]:.0f}" for n in names))
    yield table
    table = grid("chosen", "picked", "learning", "states", "file", "by batches alone", "learning")
    for r in report["rows"]:
        kept = (str(r["states"]), f"{r['file_bytes'] / 1000:.0f} kB")
        free = (r["picked_any_launch"], duration(r["learning_any_launch"]))
        table.add_row(r["family"], r["picked"], duration(r["learning"]), *kept, *free)
    yield table


@bench
def fig7(
    told: Progress,
    data: DataDir,
    specs: SpecsDir = SPECS,
    policies: Annotated[
        str | None, typer.Option("--policies", metavar="NAME,...", help="As of `abw compare` (all).")
    ] = None,
    batches: Annotated[
        str, typer.Option("--batches", metavar="B,...", help="Instances in a mini-batch.")
    ] = "1,8,32,64,128,256",
    skip: Annotated[int, typer.Option("--skip", min=0, help="Skip the first N instances.")] = 64,
    train: options.TrainLimit = 32,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE.svg", help="Draw it here.")] = None,
) -> Shown:
    """The paper's Fig. 7: batches by policy and batch size for all its workloads."""
    from abw.bench.graphs.fig7 import POLICIES, bench_fig7
    from abw.cli.commands.compare import numbers, save_charts, size_chart, size_table

    names = tuple(policies.split(",")) if policies else POLICIES
    report = bench_fig7(specs, data, names, numbers(batches, "--batches"), skip, train, told)
    if plot:
        save_charts([size_chart(r["workload"], r["batch_sizes"]) for r in report["rows"]], plot)
    yield report
    for row in report["rows"]:
        yield size_table(row["workload"], row["batch_sizes"])


@bench
def layout(
    told: Progress,
    data: DataDir,
    specs: SpecsDir = SPECS,
    batch: Batch = 64,
) -> Shown:
    """Copies between cells, before and after planning; noisy programs beside the order planted in them."""
    from abw.bench.graphs.layout import bench_layout

    report = bench_layout(specs, data, batch, told)
    yield report
    table = grid("copies between cells", "batches", "before", "after")
    for r in report["boundaries"]:
        kernels = (f"{r[k]['kernels']:,} / {r[k]['bytes'] / 1024:,.0f} KiB" for k in ("before", "after"))
        table.add_row(r["workload"], str(r["batches"]), *kernels)
    yield table
    table = grid("noisy programs", "cost", "planted", "reached", "proven", "longest")
    for r in report["planted"]:
        costs = (f"{r[k] / 1024:.0f} KiB" for k in ("cost", "planted"))
        shares = (f"{r[k]} of {r['programs']}" for k in ("reached", "proven"))
        table.add_row(
            f"{r['variables']} variables, {r['noise']:.0%}", *costs, *shares, duration(r["seconds"])
        )
    yield table


@bench
def memory(
    told: Progress,
    data: DataDir,
    specs: SpecsDir = SPECS,
    batch: Annotated[
        list[int], typer.Option("--batch", min=1, help="Instances in a mini-batch; --training: repeated.")
    ] = [256],
    hidden: HiddenSizes = [32, 128, 512],
    training: Annotated[
        bool, typer.Option("--training", help="Of `abw train` instead, with trees, lattices, chains, growth.")
    ] = False,
) -> Shown:
    """Memory of whole runs of each workload: what `abw check` predicts beside the peak of `abw run`.

    The last row has more than 1 GB of weights.
    """
    from abw.bench.whole.memory import bench_memory, bench_training_memory

    if training:
        report = bench_training_memory(specs, data, batch, hidden, told)
        yield report
        yield _training_memory(report["rows"])
        return
    report = bench_memory(specs, data, batch[-1], hidden, told)
    yield report
    table = grid("workload", "hidden", "nodes", "mini-batch", "weights", "predicted", "peak", "off by")
    for r in report["rows"]:
        sizes = (r["memory"] and r["memory"]["mini_batch_bytes"], r["weights_bytes"], r["predicted_bytes"])
        peak = r["peak_memory_bytes"]
        said = [amount(size, "B") if size else "" for size in (*sizes, peak)]
        off = f"{r['predicted_bytes'] / peak - 1:+.1%}"
        table.add_row(r["workload"], str(r["hidden"]), f"{r['nodes']:,}", *said, off)
    yield table


def _training_memory(rows: list[dict[str, Any]]) -> Any:  # noqa: ANN401
    """What trainings take, beside what was said of them."""
    parts = {"weights": "weights", "gradient": "gradient", "optimizer": "optimiser",
             "instances": "instances", "mini_batches": "mini-batches", "moment": "a while"}  # fmt: skip
    table = grid("training", "hidden", "batch", *parts.values(), "predicted", "peak", "off by")
    for r in rows:
        sizes = (*(r["parts"][part] for part in parts), r["predicted_bytes"], r["peak_memory_bytes"])
        off = f"{r['predicted_bytes'] / r['peak_memory_bytes'] - 1:+.1%}"
        table.add_row(
            r["training"], str(r["hidden"]), str(r["batch"]), *(amount(size, "B") for size in sizes), off
        )
    return table
