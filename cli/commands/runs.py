"""`abw runs`: what was run here."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from abw.cli import completion, options
from abw.cli.console import amount, counted, duration, grid, say, show
from abw.cli.groups import Group, flattened, group, option
from abw.cli.report import print_run
from abw.cli.trainings import print_training, print_training_diff, training_document, trainings_table
from abw.cli.usage import one_of
from abw.core.base.errors import AbwError

if TYPE_CHECKING:
    from abw.core.store.runs import StoredRun
    from abw.core.store.trainings import StoredTraining


class Runs(Group):
    """What `abw runs --help` lists."""

    places: ClassVar = {
        "show": f"{__name__}:show_one",
        **{name: f"{__name__}:{name}" for name in ("note", "rm", "prune", "diff")},
    }


app = typer.Typer(
    cls=Runs,
    help="List, show, compare, annotate and remove runs and trainings (t1, t2).",
    invoke_without_command=True,
    add_completion=False,
)


# Runs that are listed by default: a screen or two.
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


def _argument(metavar: str, help: str) -> Any:  # noqa: ANN401 (as typer.Argument)
    return typer.Argument(metavar=metavar, help=help, autocompletion=completion.runs)


OneRun = Annotated[str, _argument("RUN", "A run's number or folder.")]


@group
class Listing:
    """Which runs are listed, in which order."""

    last: int | None = option("List the last N runs.", "N", least=1, shown=f"{LAST}; --json: all")
    model: str | None = option("Only models whose name contains TEXT.", "TEXT")
    policy: str | None = option("Only policies whose name contains TEXT.", "TEXT")
    tags: list[str] | None = option("Only runs with this tag; repeatable.", "WORD", "--tag")
    sort: str = option(f"One of {', '.join(KEYS)}; the largest last.", "KEY", default="run")

    @property
    def filters(self) -> bool:
        """Whether some runs are left out by what they are."""
        return bool(self.model or self.policy or self.tags)

    def matches(self, one: StoredRun | StoredTraining) -> bool:
        """Whether a run or a training is one of those asked for."""
        about = getattr(one, "report", None) or getattr(one, "about", {})
        texts = {"model": self.model, "policy": self.policy}
        named = all(text is None or text in about[key] for key, text in texts.items())
        return not one.damage and named and {*(self.tags or ())} <= {*one.tags}


def list_all(context: typer.Context, listing: Listing, output: options.Output) -> None:
    """List the runs kept here, the latest last; `abw runs show` explains one."""
    if context.invoked_subcommand:
        return
    key = KEYS[one_of(listing.sort, tuple(KEYS), "--sort")]
    from abw.core.store.runs import list_runs
    from abw.core.store.trainings import list_trainings

    most = None if listing.filters else listing.last or (None if output.as_json else LAST)
    stored = list_runs(most)
    if listing.filters:
        stored = [run for run in stored if listing.matches(run)]
        stored = stored[-(listing.last or len(stored)) :]
    stored.sort(key=lambda run: (not run.damage, run.number if run.damage else key(run)))
    # options that do not apply to trainings leave all of them out
    trainings = [] if listing.policy or listing.sort != "run" else list_trainings(most)
    trainings = [t for t in trainings if not listing.filters or listing.matches(t)]
    report = {
        "schema_version": 1,
        "runs": [_document(run) for run in stored],
        "trainings": [training_document(t) for t in trainings],
    }
    output.give(report, lambda _: _print_list(listing, stored, trainings))


app.callback()(flattened(list_all))


def _print_list(listing: Listing, stored: list[StoredRun], trainings: list[StoredTraining]) -> None:
    from abw.core.store.runs import run_folders, runs_folder

    if stored:
        show(_table(stored))
        for run in stored:
            if run.damage:
                show(f"run {run.number} is damaged: {run.damage}")
        if not listing.filters and (earlier := len(run_folders()) - len(stored)):
            show(f"and {counted(earlier, 'earlier run')}: --last N lists more")
    if trainings:
        show(*([""] if stored else []), trainings_table(trainings))
    elif not stored and listing.filters and run_folders():
        show("none of the runs is like that: `abw runs` lists them all")
    elif not stored:
        show(f"no runs in {runs_folder()}: make one with `abw run SPEC`")


def _document(run: StoredRun) -> dict[str, Any]:
    """The document of a run in a list."""
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


def show_one(
    output: options.Output,
    name: Annotated[str | None, _argument("RUN", "A run's number or folder; by default the latest.")] = None,
) -> None:
    """Show a run's summary, command and files."""
    from abw.core.store.trainings import StoredTraining

    found = _stored(name)
    if isinstance(found, StoredTraining):
        output.give(training_document(found), lambda _: print_training(found))
        return
    report = {**found.report, "path": str(found.path), "note": found.note, "tags": list(found.tags)}
    output.give(report, lambda report: _print_one(found, report))


def _print_one(found: StoredRun, report: dict[str, Any]) -> None:
    print_run(report)
    say(f"date: {found.date:%Y-%m-%d %H:%M:%S}")
    if found.note or found.tags:
        say(f"note: {' '.join([found.note, *(f'[{tag}]' for tag in found.tags)]).strip()}")
    say(f"command: {report['command']}")
    say(f"files: {', '.join(sorted(p.name for p in found.path.iterdir()))}")
    say("versions: " + ", ".join(f"{name} {v}" for name, v in report["versions"].items()))


@group
class Tags:
    """The tags that are added and removed."""

    tags: list[str] | None = options.TAGS
    untag: list[str] | None = option("Remove a tag; repeatable.", "WORD")


def note(
    name: OneRun,
    tags: Tags,
    output: options.Output,
    text: Annotated[str | None, typer.Argument(metavar="TEXT", help="The note; '' removes it.")] = None,
) -> None:
    """Set a run's note or tags, by which `abw runs` finds it."""
    from abw.core.store.runs import write_note

    if text is None and not tags.tags and not tags.untag:
        raise typer.BadParameter("say a note, --tag or --untag")
    run = _stored(name)
    kept = {*run.tags, *(tags.tags or ())} - set(tags.untag or ())
    said = run.note if text is None else text
    write_note(run.path, said, kept)
    report = {"schema_version": 1, "path": str(run.path), "note": said, "tags": sorted(kept)}
    output.give(report, lambda _: None)


def rm(
    which: Annotated[
        list[str], _argument("RUN...", "Numbers or folders; 3-7 means 3 to 7; t1 is a training.")
    ],
    output: options.Output,
) -> None:
    """Remove runs with everything in their folders."""
    _remove([path for name in which for path in _named(name)], output)


@group
class Pruning:
    """Which runs are kept."""

    keep: int = option("Number of latest runs to keep.", "N", default=..., least=0)


def prune(pruning: Pruning, output: options.Output) -> None:
    """Remove all runs except the latest N and those with a note or a tag."""
    from abw.core.store.runs import list_runs

    stored = list_runs()
    older = stored[: max(0, len(stored) - pruning.keep)]
    _remove([run.path for run in older if not (run.note or run.tags)], output)


def diff(
    one: Annotated[str, _argument("A", "A run's number or folder.")],
    other: Annotated[str, _argument("B", "Another run's number or folder.")],
    output: options.Output,
) -> None:
    """Show how two runs differ: spec, options, counts, times, batches, and outputs beyond the tolerance."""
    from abw.core.store.runs import StoredRun
    from abw.core.store.trainings import StoredTraining, is_training
    from abw.core.tools.diff import diff_runs, diff_trainings

    if is_training(one) != is_training(other):
        raise AbwError("a run and a training are not compared", hint="two of either: 1 and 2, t1 and t2")
    a, b = _stored(one), _stored(other)
    if isinstance(a, StoredRun) and isinstance(b, StoredRun):
        output.give(diff_runs(a, b), _print_diff)
    elif isinstance(a, StoredTraining) and isinstance(b, StoredTraining):
        output.give(diff_trainings(a, b), lambda report: print_training_diff(report, a, b))


def _stored(name: str | None) -> StoredRun | StoredTraining:
    """A run, or a training (t1). Errors: AbwError."""
    from abw.core.store.runs import find_run
    from abw.core.store.trainings import is_training, stored_training

    return stored_training(name) if is_training(name) else find_run(name)


def _named(name: str) -> list[Path]:
    """The folders of the runs that a number, a range or a folder names, or of a training (t3).

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


def _remove(folders: list[Path], output: options.Output) -> None:
    from abw.core.store.runs import remove_run

    unique = list(dict.fromkeys(folders))
    size = sum(map(remove_run, unique))
    report = {"schema_version": 1, "removed": [str(path) for path in unique], "bytes": size}
    output.give(report, lambda _: show(f"{counted(len(unique), 'run')} removed: {amount(size, 'B')}"))


def _print_diff(report: dict[str, Any]) -> None:
    one, other = (f"run {report[side]['number']}" for side in ("a", "b"))
    for line in report["spec"]:
        show(line, style={"+": "green", "-": "red"}.get(line[:1]), whole=True)
    table = grid("", one, other, "ratio", optional=["ratio"])

    def compared(name: str, pair: list[Any], shown: Callable[[Any], str]) -> None:
        table.add_row(name, *map(shown, pair), f"{pair[1] / pair[0]:.3f}" if pair[0] else "")

    for name, pair in report["options"].items():
        table.add_row(name, *map(str, pair), "")
    for name, pair in report["counts"].items():
        compared(name.replace("_", " "), pair, "{:,}".format)
    compared("instances/s", report["instances_per_second"], amount)
    for step, pair in report["seconds"].items():
        compared(step, pair, duration)
    compared("peak memory", report["peak_memory_bytes"], lambda n: amount(n, "B"))
    show(table, f"\nschedules: {report['batches']['said']}")
    for name, found in report["outputs"].items():
        show(f"output {name}: {found['said']}", style=None if found["within"] else "red")
    if report["outputs_said"]:
        show(f"outputs: {report['outputs_said']}")
