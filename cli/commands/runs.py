"""`abw runs`: what was run here."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from abw.cli import completion, options
from abw.cli.console import amount, counted, duration, give, grid, print_json, say, show
from abw.cli.groups import Command, Several
from abw.cli.report import print_run
from abw.cli.trainings import print_training, print_training_diff, training_document, trainings_table
from abw.cli.usage import one_of
from abw.core.base.errors import AbwError

if TYPE_CHECKING:
    from abw.core.store.runs import StoredRun
    from abw.core.store.trainings import StoredTraining

app = typer.Typer(
    cls=Several,
    help="List, show, compare, annotate and remove runs and trainings (t1, t2).",
    invoke_without_command=True,
    add_completion=False,
)


# So many runs are listed unless told otherwise: a screen or two.
LAST = 50

# What runs can be sorted by.
KEYS: dict[str, Callable[[StoredRun], Any]] = {
    "run": lambda run: run.number,
    "date": lambda run: run.date,
    "model": lambda run: run.report["model"],
    "policy": lambda run: run.report["policy"],
    "batches": lambda run: run.report["batches"],
    "rate": lambda run: run.report["instances_per_second"],
}

Which = Annotated[
    list[str],
    typer.Argument(
        metavar="RUN...",
        help="Numbers or folders; 3-7 means 3 to 7; t1 is a training.",
        autocompletion=completion.runs,
    ),
]


@app.callback()
def list_all(
    context: typer.Context,
    last: Annotated[
        int | None,
        typer.Option(
            "--last", min=1, metavar="N", help="List the last N runs.", show_default=f"{LAST}; --json: all"
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", metavar="TEXT", help="Only models whose name contains TEXT.")
    ] = None,
    policy: Annotated[
        str | None, typer.Option("--policy", metavar="TEXT", help="Only policies whose name contains TEXT.")
    ] = None,
    tags: Annotated[
        list[str] | None, typer.Option("--tag", metavar="WORD", help="Only runs with this tag; repeatable.")
    ] = None,
    sort: Annotated[
        str, typer.Option("--sort", metavar="KEY", help=f"One of {', '.join(KEYS)}; the largest last.")
    ] = "run",
    as_json: options.Json = False,
) -> None:
    """List the runs kept here, the latest last; `abw runs show` explains one."""
    if context.invoked_subcommand:
        return
    key = KEYS[one_of(sort, tuple(KEYS), "--sort")]
    from abw.core.store.runs import list_runs, run_folders, runs_folder
    from abw.core.store.trainings import list_trainings

    filters = {"model": model, "policy": policy}
    chosen = any((*filters.values(), tags))
    stored = list_runs(None if chosen else last if last or as_json else LAST)
    if chosen:
        stored = [run for run in stored if not run.damage and _meant(run, filters, tags or [])]
        stored = stored[-(last or len(stored)) :]
    stored.sort(key=lambda run: (not run.damage, run.number if run.damage else key(run)))
    # what is not said of trainings chooses none of them
    several = last if last or as_json else LAST
    trainings = [] if policy or sort != "run" else list_trainings(None if chosen else several)
    trainings = [t for t in trainings if not chosen or _meant_too(t, model, tags or [])]
    if as_json:
        trained = [training_document(t) for t in trainings]
        print_json({"schema_version": 1, "runs": [_document(run) for run in stored], "trainings": trained})
        return
    if trainings and not stored:
        show(trainings_table(trainings))
        return
    if not stored:
        if chosen and run_folders():
            show("none of the runs is like that: `abw runs` lists them all")
        else:
            show(f"no runs in {runs_folder()}: make one with `abw run SPEC`")
        return
    show(_table(stored))
    for run in stored:
        if run.damage:
            show(f"run {run.number} is damaged: {run.damage}")
    if not chosen and (earlier := len(run_folders()) - len(stored)):
        show(f"and {counted(earlier, 'earlier run')}: --last N lists more")
    if trainings:
        show("", trainings_table(trainings))


def _meant(run: StoredRun, filters: dict[str, str | None], tags: list[str]) -> bool:
    """Whether a run is one of those asked for."""
    named = all(text is None or text in run.report[key] for key, text in filters.items())
    return named and set(tags) <= set(run.tags)


def _meant_too(training: StoredTraining, model: str | None, tags: list[str]) -> bool:
    """The same of a training."""
    named = not training.damage and (model is None or model in training.about["model"])
    return named and set(tags) <= set(training.tags)


def _document(run: StoredRun) -> dict[str, Any]:
    """A run as --json lists it."""
    if run.damage:
        return {"path": str(run.path), "damage": run.damage}
    return {"path": str(run.path), "note": run.note, "tags": list(run.tags), **run.report}


def _table(stored: list[StoredRun]) -> Any:  # noqa: ANN401
    left = ["date", "model", "data", "policy", "executor", "tags"]
    table = grid(
        "run", "date", "model", "data", "policy", "executor", "batches", "bound", "instances/s", "tags",
        "note", left=left, prose="note",
        optional=["instances/s", "policy", "date", "tags", "bound", "executor", "data"],
    )  # fmt: skip
    for run in stored:
        report = run.report
        date = f"{run.date:%Y-%m-%d %H:%M}"
        if run.damage:
            table.add_row(str(run.number), date, "damaged", *[""] * 8, style="red")
            continue
        least = report.get("kept_bound_by_rounds") or report["lower_bound"]
        bound = "" if report["lower_bound"] is None else f"{least:,}"
        table.add_row(
            str(run.number), date, report["model"], report["data"], report["policy"], report["executor"],
            f"{report['batches']:,}", bound, amount(report["instances_per_second"]),
            " ".join(run.tags), run.note,
        )  # fmt: skip
    return table


@app.command("show", cls=Command)
def show_one(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="RUN",
            help="A run's number or folder; by default the latest.",
            autocompletion=completion.runs,
        ),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Show a run's summary, command and files."""
    from abw.core.store.runs import find_run
    from abw.core.store.trainings import is_training, stored_training

    if is_training(name):
        training = stored_training(name)
        give(training_document(training), as_json, lambda _: print_training(training))
        return
    found = find_run(name)
    report = {**found.report, "path": str(found.path)}
    if as_json:
        print_json({**report, "note": found.note, "tags": list(found.tags)})
        return
    print_run(report)
    say(f"date: {found.date:%Y-%m-%d %H:%M:%S}")
    if found.note or found.tags:
        say(f"note: {' '.join([found.note, *(f'[{tag}]' for tag in found.tags)]).strip()}")
    say(f"command: {report['command']}")
    say(f"files: {', '.join(sorted(p.name for p in found.path.iterdir()))}")
    say("versions: " + ", ".join(f"{name} {v}" for name, v in report["versions"].items()))


@app.command("note", cls=Command)
def note(
    name: Annotated[
        str, typer.Argument(metavar="RUN", help="A run's number or folder.", autocompletion=completion.runs)
    ],
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="The note; '' removes it.")] = None,
    tags: options.Tags = None,
    untag: Annotated[
        list[str] | None, typer.Option("--untag", metavar="WORD", help="Remove a tag; repeatable.")
    ] = None,
) -> None:
    """Set a run's note or tags, by which `abw runs` finds it."""
    from abw.core.store.runs import find_run, write_note
    from abw.core.store.trainings import is_training, stored_training

    if text is None and not tags and not untag:
        raise typer.BadParameter("say a note, --tag or --untag")
    run = stored_training(name) if is_training(name) else find_run(name)
    kept = {*run.tags, *(tags or ())} - set(untag or ())
    write_note(run.path, run.note if text is None else text, kept)


@app.command("rm", cls=Command)
def remove(which: Which) -> None:
    """Remove runs with everything in their folders."""
    _remove([path for name in which for path in _named(name)])


@app.command("prune", cls=Command)
def prune(
    keep: Annotated[int, typer.Option("--keep", min=0, metavar="N", help="Number of latest runs to keep.")],
) -> None:
    """Remove all runs except the latest N and those with a note or a tag."""
    from abw.core.store.runs import list_runs

    stored = list_runs()
    _remove([run.path for run in stored[: max(0, len(stored) - keep)] if not (run.note or run.tags)])


@app.command("diff", cls=Command)
def diff(
    one: Annotated[
        str, typer.Argument(metavar="A", help="A run's number or folder.", autocompletion=completion.runs)
    ],
    other: Annotated[
        str,
        typer.Argument(metavar="B", help="Another run's number or folder.", autocompletion=completion.runs),
    ],
    as_json: options.Json = False,
) -> None:
    """Show how two runs differ: spec, options, counts, times, batches, and outputs beyond the tolerance."""
    from abw.core.store.runs import find_run
    from abw.core.store.trainings import is_training, stored_training
    from abw.core.tools.diff import diff_runs, diff_trainings

    if is_training(one) and is_training(other):
        pair = stored_training(one), stored_training(other)
        give(diff_trainings(*pair), as_json, lambda report: print_training_diff(report, *pair))
        return
    if is_training(one) or is_training(other):
        raise AbwError("a run and a training are not compared", hint="two of either: 1 and 2, t1 and t2")
    give(diff_runs(find_run(one), find_run(other)), as_json, _print_diff)


def _named(name: str) -> list[Path]:
    """The folders of the runs that a number, a range or a folder means, or of a training (t3).

    Errors: AbwError where there are none, or the training goes on.
    """
    from abw.core.store.folders import held
    from abw.core.store.runs import list_runs
    from abw.core.store.trainings import find_training, is_training

    if is_training(name):
        folder = find_training(name)
        with held(folder):
            return [folder]
    span = re.fullmatch(r"(\d+)(?:-(\d+))?", name)
    first, last = (int(span[1]), int(span[2] or span[1])) if span else (0, -1)
    found = [
        run.path
        for run in list_runs()
        if first <= run.number <= last or name in (run.path.name, str(run.path))
    ]
    if not found:
        raise AbwError(f"there is no run '{name}'", hint="`abw runs` lists them")
    return found


def _remove(folders: list[Path]) -> None:
    from abw.core.store.runs import remove_run

    unique = dict.fromkeys(folders)
    size = sum(map(remove_run, unique))
    show(f"{counted(len(unique), 'run')} removed: {amount(size, 'B')}")


def _print_diff(report: dict[str, Any]) -> None:
    from abw.core.base.console import Console

    console = Console()
    one, other = (f"run {report[side]['number']}" for side in ("a", "b"))
    for line in report["spec"]:
        colour = {"+": "green", "-": "red"}.get(line[:1])
        console.print(line, style=colour, soft_wrap=True)
    table = grid("", one, other, "ratio", optional=["ratio"])
    for name, pair in report["options"].items():
        table.add_row(name, *map(str, pair), "")
    for name, pair in report["counts"].items():
        table.add_row(name.replace("_", " "), *(f"{n:,}" for n in pair), _ratio(*pair))
    rates = report["instances_per_second"]
    table.add_row("instances/s", *map(amount, rates), _ratio(*rates))
    for step, pair in report["seconds"].items():
        table.add_row(step, *map(duration, pair), _ratio(*pair))
    memory = report["peak_memory_bytes"]
    table.add_row("peak memory", *(amount(n, "B") for n in memory), _ratio(*memory))
    console.print(table)
    batches = report["batches"]
    console.print(f"\nschedules: {batches['said']}")
    for name, found in report["outputs"].items():
        console.print(f"output {name}: {found['said']}", style=None if found["within"] else "red")
    if report["outputs_said"]:
        console.print(f"outputs: {report['outputs_said']}")


def _ratio(a: float, b: float) -> str:
    return f"{b / a:.3f}" if a else ""
