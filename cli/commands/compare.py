"""`abw compare`: batching policies side by side."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from abw.cli import completion, options
from abw.cli.console import counted, duration, grid, print_json, progress, say_random

if TYPE_CHECKING:
    from abw.viz.drawing.chart import Chart

# The policies compared unless told otherwise, the FSM apart.
USUAL = ("depth", "agenda", "sufficient", "phases", "critical", "search", "auto")


def compare(
    spec: options.Spec,
    policies: Annotated[
        str | None,
        typer.Option(
            "--policies",
            metavar="NAME,...",
            autocompletion=completion.policies,
            help="Policies as for `abw run`; fsm-base, fsm-max, ..., fsm-best for an encoding (depth, "
            "agenda, sufficient, phases, critical, search, auto, fsm; at granularity op no fsm).",
        ),
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, metavar="N", help="Repeat with N seeds.")] = 1,
    data: options.Data = None,
    skip: Annotated[
        int,
        typer.Option("--skip", min=0, metavar="N", help="Skip the first N instances."),
    ] = 0,
    limit: options.Limit = None,
    train_limit: options.TrainLimit = 32,
    trials: options.Trials = 1000,
    batch: options.Batch = None,
    batches: Annotated[
        str | None,
        typer.Option(
            "--batches",
            metavar="B,...",
            help="Also use mini-batches of these sizes, for example 1,8,32,64,128,256.",
        ),
    ] = None,
    sizes: options.Set = None,
    weights: options.Weights = None,
    encoding: options.Encoding = "best",
    granularity: options.Granularity = "cell",
    fuse: options.Fuse = False,
    group: options.Group = False,
    cost: Annotated[
        Path | None,
        typer.Option(
            "--cost",
            metavar="FILE",
            help="Costs from `abw calibrate`: shown in a column, and minimised by search, "
            "critical-free and the choice among learned policies.",
        ),
    ] = None,
    bound: Annotated[
        Literal["paper", "tight"],
        typer.Option("--bound", help="Lower bound for ratios; tight also considers pairs of instances."),
    ] = "paper",
    plot: Annotated[
        Path | None,
        typer.Option("--plot", metavar="FILE.svg", help="Draw training and batch sizes to this file."),
    ] = None,
    seed: options.Seed = None,
    allow_outside: options.AllowOutside = False,
    quiet: options.QuietFlag = False,
    as_json: options.Json = False,
) -> None:
    """Compare batching policies: batches, their ratio to the lower bound, time to schedule and to learn.

    Executes and keeps nothing. --fuse and --group show the effect of fewer nodes or types.
    """
    changes = options.overrides(data, limit, batch, sizes, seed, weights=weights, allow_outside=allow_outside)
    from abw.core.tools.compare import LEARNED_WITH, CompareOptions
    from abw.core.tools.compare import compare as run_compare

    usual = USUAL if granularity == "op" else (*USUAL, "fsm")
    names = tuple(dict.fromkeys(n.strip() for n in policies.split(","))) if policies else usual
    for name in names:
        options.require_policy(name, "--policies", *LEARNED_WITH)
    chosen = CompareOptions(
        policies=names,
        encoding=encoding,
        granularity=granularity,
        seeds=seeds,
        train_limit=train_limit,
        trials=trials,
        skip=skip,
        fuse=fuse,
        group=group,
        sizes=numbers(batches, "--batches") if batches else (),
        cost=cost,
        plot=plot,
        tight=bound == "tight",
    )
    with progress(quiet) as told:
        report = run_compare(spec, changes, chosen, told)
    if plot:
        save_charts(charts(report), plot)
    if as_json:
        print_json(report)
    else:
        _print(report, plot)


def numbers(text: str, option: str) -> tuple[int, ...]:
    """`1,8,32` as numbers; anything else is a usage error."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise typer.BadParameter(f"'{text}' is not a list of sizes, as in 1,8,32", param_hint=option)
    return tuple(dict.fromkeys(int(part) for part in parts))


def charts(report: dict[str, Any]) -> list[Chart]:
    """Batches over training trials, and over batch sizes, where the report has them."""
    from abw.viz.drawing.chart import Chart, Line

    drawn = []
    training = report["training"]
    if training and any(training["curves"].values()):
        lines = [Line(n, tuple((t, b) for t, b in points)) for n, points in training["curves"].items()]
        ends = [lines[0].points[0][0], max(line.points[-1][0] for line in lines)]
        bound = Line("lower bound", tuple((x, training["lower_bound"]) for x in ends))
        drawn.append(Chart(f"learning {report['model']}", "trials", "batches", (*lines, bound)))
    if report["batch_sizes"]:
        drawn.append(size_chart(report["model"], report["batch_sizes"]))
    return drawn


def size_chart(name: str, rows: Sequence[dict[str, Any]]) -> Chart:
    """A chart as the paper's Fig. 7: batches over batch sizes, a line a policy."""
    from abw.viz.drawing.chart import Chart, Line

    policies = [p["policy"] for p in rows[0]["policies"]]
    lines = [
        Line(n, tuple((r["batch"], r["policies"][i]["batches"] / r["mini_batches"]) for r in rows))
        for i, n in enumerate(policies)
    ]
    bound = Line("lower bound", tuple((r["batch"], r["lower_bound"] / r["mini_batches"]) for r in rows))
    return Chart(name, "instances in a mini-batch", "batches", (*lines, bound), even=True)


def save_charts(found: Sequence[Chart], path: Path) -> None:
    """Write charts into one SVG file, under each other. Errors: AbwError where there are none."""
    from abw.core.base.errors import AbwError
    from abw.core.base.files import write_text
    from abw.viz.drawing.chart import chart_svg
    from abw.viz.drawing.svg import document, stacked

    if not found:
        raise AbwError("there is nothing to plot", hint="compare fsm, or several sizes: --batches 1,8,32")
    write_text(path, document(stacked([chart_svg(chart) for chart in found])))


def size_table(title: str, rows: Sequence[dict[str, Any]]) -> Any:  # noqa: ANN401
    """Mean batches of a mini-batch, a column a size."""
    table = grid(title, *(str(row["batch"]) for row in rows))
    table.add_row("lower bound", *(_short(row["lower_bound"] / row["mini_batches"]) for row in rows))
    for i, policy in enumerate(rows[0]["policies"]):
        means = (row["policies"][i]["batches"] / row["mini_batches"] for row in rows)
        table.add_row(policy["policy"], *map(_short, means))
    return table


def _print(report: dict[str, Any], plot: Path | None) -> None:
    from rich.text import Text

    from abw.core.base.console import Console
    from abw.viz.drawing.chart import chart_text

    console = Console()
    seeds = f", mean of {len(report['seeds'])} seeds" if len(report["seeds"]) > 1 else ""
    after = f" after the first {report['skip']}" if report["skip"] else ""
    say_random(report["random_weights"])
    console.print(Text.assemble((report["model"], "bold"), f" on {report['data']}"))
    console.print(
        f"{counted(report['instances'], 'instance')}{after} in "
        f"{counted(report['mini_batches'], 'mini-batch', 'es')} of "
        f"{report['batch']}: {_short(report['nodes'])} nodes, lower bound "
        f"{_short(report['lower_bound'])}{seeds}",
        soft_wrap=True,
    )
    if report["tight_bound"] is not None:
        tight = _short(report["tight_bound"])
        console.print(f"no schedule has fewer than {tight} batches, because pairs of instances need so many")
    without = report["without_passes"]
    if without:
        console.print(
            f"after {' and '.join(report['passes'])}; without: {_short(without['nodes'])} nodes, "
            f"lower bound {_short(without['lower_bound'])}"
        )
    if report["cost"]:
        console.print(
            f"cost by {report['cost']}: no schedule below {report['least_cost']:.4g}", soft_wrap=True
        )
    console.print()
    console.print(_policies(report))
    own = report["instances_trained_on"]
    if report["training"]:
        where = (
            (f"{own} of these {'is' if own == 1 else 'are'} among them", "yellow")
            if own
            else "none of them is here"
        )
        first = f"learned from the first {counted(report['train_limit'], 'instance')}: "
        console.print(Text.assemble(first, where, style="dim"))
    if report["batch_sizes"]:
        console.print()
        console.print(size_table("instances in a mini-batch", report["batch_sizes"]))
        console.print("mean batches of up to 16 mini-batches", style="dim")
    for chart in charts({**report, "batch_sizes": []}):
        console.print()
        console.print(chart_text(chart))
    if plot:
        console.print(f"\nplot: {plot}", soft_wrap=True)


def _policies(report: dict[str, Any]) -> Any:  # noqa: ANN401
    several, without = len(report["seeds"]) > 1, report["without_passes"]
    costs = report["cost"] is not None
    columns = ["policy", "batches", "to the bound", *(["worst"] if several else [])]
    columns += ["cost"] if costs else []
    columns += ["without passes"] if without else []
    tight = report["tight_bound"]
    fsm = any(p["states"] is not None or p["train_seconds"] is not None for p in report["policies"])
    table = grid(*columns, "ns a node", *(["states", "unseen", "training"] if fsm else []))
    before = {p["policy"]: p["batches"] for p in without["policies"]} if without else {}
    for p in sorted(report["policies"], key=lambda p: p["cost" if costs else "batches"]):
        learned = p["train_seconds"] is not None
        name = f"{p['policy']} ({p['picked']})" if p["picked"] else p["policy"]
        row = [name, _proven(p), _ratio(p["batches"] / tight if tight else p["ratio"])]
        row += [_ratio(p["worst_ratio"])] if several else []
        row += [f"{p['cost']:.4g}"] if costs else []
        row += [_short(before[p["policy"]])] if without else []
        row += [f"{p['ns_per_node']:.0f}"]
        if fsm:
            row += [_short(p[key]) if p["states"] is not None else "" for key in ("states", "unseen_states")]
            row += [duration(p["train_seconds"]) if learned else ""]
        table.add_row(*row)
    return table


def _proven(policy: dict[str, Any]) -> str:
    """The batches, and of a search what is proven: that they are fewest, or how many there must be."""
    said, least = _short(policy["batches"]), policy["at_least"]
    if least is None or policy["cost"] is not None:
        return said
    return f"{said} (proven)" if least >= policy["batches"] else f"{said} (at least {-int(-least // 1)})"


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _short(value: float) -> str:
    """A whole number as it is, a mean with one decimal."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"
