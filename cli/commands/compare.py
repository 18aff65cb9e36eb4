"""`abw compare`: batching policies side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from abw.cli import completion, options
from abw.cli.console import Columns, counted, duration, grid, say_random, show, table
from abw.cli.groups import filled, group, option

if TYPE_CHECKING:
    from abw.viz.drawing.chart import Chart

# The policies compared by default, besides the FSM.
USUAL = ("depth", "agenda", "sufficient", "phases", "critical", "search", "auto")


@group
class Comparison(options.Passes):
    """What is compared, on which instances."""

    policies: str | None = option(
        "Policies as for `abw run`; fsm-base, fsm-max, ..., fsm-best for an encoding (depth, agenda, "
        "sufficient, phases, critical, search, auto, fsm; at granularity op no fsm).",
        "NAME,...",
        autocompletion=completion.policies,
    )
    seeds: int = option("Repeat with N seeds.", "N", default=1, least=1)
    skip: int = option("Skip the first N instances.", "N", default=0, least=0)
    train_limit: int = option("Learn from the first N instances.", "N", default=32, least=1)
    trials: int = options.TRIALS
    batches: str | None = option(
        "Also use mini-batches of these sizes, for example 1,8,32,64,128,256.", "B,..."
    )
    encoding: options.EncodingName = option(options.ENCODING_HELP, default="best")
    granularity: Literal["cell", "op"] = options.GRANULARITY
    cost: Path | None = option(
        "Costs from `abw calibrate`: shown in a column, and minimised by search, critical-free and the "
        "choice among learned policies.",
        "FILE",
    )
    bound: Literal["paper", "tight"] = option(
        "Lower bound for ratios; tight: also by pairs of instances and groups of types.",
        default="paper",
    )
    plot: Path | None = option("Draw training and batch sizes to this file.", "FILE.svg")


def compare(
    spec: options.Spec, comparison: Comparison, changes: options.Changes, output: options.Output
) -> None:
    """Compare batching policies: batches, their ratio to the lower bound, time to schedule and to learn.

    Executes and keeps nothing. --fuse and --group show the effect of fewer nodes or types.
    """
    overrides = changes.overrides()
    from abw.core.tools.compare import LEARNED_WITH, CompareOptions
    from abw.core.tools.compare import compare as run_compare

    usual = USUAL if comparison.granularity == "op" else (*USUAL, "fsm")
    names: tuple[str, ...] = usual
    if comparison.policies:
        names = tuple(dict.fromkeys(n.strip() for n in comparison.policies.split(",")))
    for name in names:
        options.require_policy(name, "--policies", *LEARNED_WITH)
    sizes = numbers(comparison.batches, "--batches") if comparison.batches else ()
    tight = comparison.bound == "tight"
    chosen = filled(CompareOptions, comparison, policies=names, sizes=sizes, tight=tight)
    with output.progress() as progress:
        report = run_compare(spec, overrides, chosen, progress)
    if comparison.plot:
        save_charts(charts(report), comparison.plot)
    output.give(report, lambda report: _print(report, comparison.plot))


def numbers(text: str, option: str) -> tuple[int, ...]:
    """Parse sizes such as `1,8,32`. Errors: a usage error."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise typer.BadParameter(f"'{text}' is not a list of sizes, as in 1,8,32", param_hint=option)
    return tuple(dict.fromkeys(int(part) for part in parts))


def charts(report: dict[str, Any]) -> list[Chart]:
    """Chart batches over training trials and over batch sizes, if the report has them."""
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
    """Chart batches over batch sizes, a line for each policy (the paper's Fig. 7)."""
    from abw.viz.drawing.chart import Chart, Line

    policies = [p["policy"] for p in rows[0]["policies"]]
    lines = [
        Line(n, tuple((r["batch"], r["policies"][i]["batches"] / r["mini_batches"]) for r in rows))
        for i, n in enumerate(policies)
    ]
    bound = Line("lower bound", tuple((r["batch"], r["lower_bound"] / r["mini_batches"]) for r in rows))
    return Chart(name, "instances in a mini-batch", "batches", (*lines, bound), even=True)


def save_charts(found: Sequence[Chart], path: Path) -> None:
    """Write charts into one SVG file, one below the other. Errors: AbwError if there are none."""
    from abw.core.base.errors import AbwError
    from abw.core.base.files import write_text
    from abw.viz.drawing.chart import chart_svg
    from abw.viz.drawing.svg import document, stacked

    if not found:
        raise AbwError("there is nothing to plot", hint="compare fsm, or several sizes: --batches 1,8,32")
    write_text(path, document(stacked([chart_svg(chart) for chart in found])))


def size_table(title: str, rows: Sequence[dict[str, Any]]) -> Any:  # noqa: ANN401
    """Tabulate the mean batches of a mini-batch, a column for each size."""
    made = grid(title, *(str(row["batch"]) for row in rows))
    made.add_row("lower bound", *(_short(row["lower_bound"] / row["mini_batches"]) for row in rows))
    for i, policy in enumerate(rows[0]["policies"]):
        means = (row["policies"][i]["batches"] / row["mini_batches"] for row in rows)
        made.add_row(policy["policy"], *map(_short, means))
    return made


def _print(report: dict[str, Any], plot: Path | None) -> None:
    from abw.viz.drawing.chart import chart_text

    seeds = f", mean of {len(report['seeds'])} seeds" if len(report["seeds"]) > 1 else ""
    after = f" after the first {report['skip']}" if report["skip"] else ""
    say_random(report["random_weights"])
    show([(report["model"], "bold"), f" on {report['data']}"])
    show(
        f"{counted(report['instances'], 'instance')}{after} in "
        f"{counted(report['mini_batches'], 'mini-batch', 'es')} of "
        f"{report['batch']}: {_short(report['nodes'])} nodes, lower bound "
        f"{_short(report['lower_bound'])}{seeds}",
        whole=True,
    )
    if report["tight_bound"] is not None:
        tight = _short(report["tight_bound"])
        why = "pairs of instances or groups of types need that many"
        show(f"no schedule has fewer than {tight} batches, because {why}")
    without = report["without_passes"]
    if without:
        show(
            f"after {' and '.join(report['passes'])}; without: {_short(without['nodes'])} nodes, "
            f"lower bound {_short(without['lower_bound'])}"
        )
    if report["cost"]:
        show(f"cost by {report['cost']}: no schedule below {report['least_cost']:.4g}", whole=True)
    show("", _policies(report))
    own = report["instances_trained_on"]
    if report["training"]:
        verb = "is" if own == 1 else "are"
        where = (f"{own} of these {verb} included", "yellow") if own else "none of these is included"
        first = f"learned from the first {counted(report['train_limit'], 'instance')}: "
        show([first, where], style="dim")
    if report["batch_sizes"]:
        show("", size_table("instances in a mini-batch", report["batch_sizes"]))
        show("mean batches of up to 16 mini-batches", style="dim")
    for chart in charts({**report, "batch_sizes": []}):
        show("", chart_text(chart))
    if plot:
        show(f"\nplot: {plot}", whole=True)


def _policies(report: dict[str, Any]) -> Any:  # noqa: ANN401
    without, tight, costs = report["without_passes"], report["tight_bound"], report["cost"] is not None
    before = {p["policy"]: p["batches"] for p in without["policies"]} if without else {}
    proven = [p["at_least"] for p in report["policies"] if p["at_least"] is not None and not costs]
    least = max(report["lower_bound"], tight or 0, *proven)

    def states(key: str) -> Callable[[Any], str]:
        return lambda p: _short(p[key]) if p["states"] is not None else ""

    columns: Columns = {
        "policy": lambda p: f"{p['policy']} ({p['picked']})" if p["picked"] else p["policy"],
        "batches": lambda p: _proven(p, least),
        "to the bound": lambda p: _ratio(p["batches"] / tight if tight else p["ratio"]),
    }
    if len(report["seeds"]) > 1:
        columns["worst"] = lambda p: _ratio(p["worst_ratio"])
    if costs:
        columns["cost"] = "cost:.4g"
    if without:
        columns["without passes"] = lambda p: _short(before[p["policy"]])
    columns["ns a node"] = "ns_per_node:.0f"
    if any(p["states"] is not None or p["train_seconds"] is not None for p in report["policies"]):
        columns |= {"states": states("states"), "unseen": states("unseen_states")}
        columns["training"] = lambda p: "" if p["train_seconds"] is None else duration(p["train_seconds"])
    return table(sorted(report["policies"], key=lambda p: p["cost" if costs else "batches"]), columns)


def _proven(policy: dict[str, Any], least: float) -> str:
    """The number of batches, and whether none has fewer; of a search, how many any schedule has at least."""
    said = _short(policy["batches"])
    if least >= policy["batches"] > 0:
        return f"{said} (optimal)"
    searched = policy["at_least"] is not None and policy["cost"] is None
    return f"{said} (at least {-int(-least // 1)})" if searched else said


def _ratio(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _short(value: float) -> str:
    """Format a whole number as it is, a mean with one decimal."""
    return f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"
