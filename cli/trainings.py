"""Trainings for `abw runs` and `abw train`: tables, curves, documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from abw.cli.console import amount, grid, say, show

if TYPE_CHECKING:
    from abw.core.store.trainings import StoredTraining
    from abw.viz.drawing.chart import Chart


def trainings_table(trainings: Sequence[StoredTraining]) -> Any:  # noqa: ANN401 (a table)
    """Tabulate trainings."""
    made = grid(
        "training", "date", "model", "epochs", "steps", "loss", "best", "of epoch", "instances/s", "tags",
        "note",
        left=["training", "date", "model", "best", "tags"], prose="note",
        optional=["instances/s", "steps", "date", "tags", "of epoch"],
    )  # fmt: skip
    for each in trainings:
        if each.damage:
            made.add_row(each.name, "", "damaged", *[""] * 7, each.damage, style="red")
            continue
        numbers = ["", "", ""]
        if each.rows:
            last = each.rows[-1]
            numbers = [f"{last['steps']:,}", f"{last['loss']:.4g}", amount(last["instances_per_second"])]
        made.add_row(
            each.name, f"{each.date:%Y-%m-%d %H:%M}", each.about["model"], str(len(each.rows)), *numbers[:2],
            best_said(each), str(each.best_epoch or ""), numbers[2], " ".join(each.tags), each.note,
        )  # fmt: skip
    return made


def best_said(training: StoredTraining) -> str:
    """The metric of the best epoch, with its name."""
    if training.best is None:
        return ""
    name, value = training.best
    return f"{name} -" if value is None else f"{name} {value:.4g}"


def training_document(training: StoredTraining) -> dict[str, Any]:
    """The document of a training in a list."""
    found = {"name": training.name, "path": str(training.path)}
    if training.damage:
        return {**found, "damage": training.damage}
    return {
        **found,
        "date": training.date.isoformat(),
        "note": training.note,
        "tags": list(training.tags),
        "best_epoch": training.best_epoch,
        "best": training.best and dict([training.best]),
        **training.about,
        "curve": list(training.rows),
    }


def charts_of(*trainings: StoredTraining) -> list[Chart]:
    """Chart loss and metrics over epochs, with lines for each training."""
    from abw.viz.drawing.chart import curve_charts

    title = " and ".join(dict.fromkeys(str(each.about["model"]) for each in trainings))
    metrics = dict.fromkeys(name for each in trainings for name in each.metrics)
    return curve_charts(title, {each.name: each.rows for each in trainings}, metrics)


def show_curves(*trainings: StoredTraining) -> None:
    """Print the curves."""
    from abw.viz.drawing.chart import chart_text

    show(*map(chart_text, charts_of(*trainings)))


def print_training(training: StoredTraining) -> None:
    """Print everything about a training."""
    show(trainings_table([training]), "")
    show_curves(training)
    about = training.about
    say(f"command: {about['command']}")
    say(f"files: {', '.join(sorted(p.name for p in training.path.iterdir()))}")
    say("versions: " + ", ".join(f"{name} {v}" for name, v in about.get("versions", {}).items()))


def print_training_diff(report: dict[str, Any], one: StoredTraining, other: StoredTraining) -> None:
    """Print how two trainings differ."""
    table = grid("", one.name, other.name)
    for name, pair in report["options"].items():
        table.add_row(name, *map(str, pair))
    table.add_row("epochs", *map(str, report["epochs"]))
    table.add_row("best", best_said(one), best_said(other))
    table.add_row("of epoch", *(str(epoch or "") for epoch in report["best_epoch"]))
    show(table)
    for name in report["files"]:
        say(f"not the same: {name}")
    show_curves(one, other)
