"""Runs on disk: a folder each, never overwritten.

A run's folder `NNNN-model/` holds:

- `run.json`: the report that `abw run --json` prints, with versions, options and the command line, and a hash
  of all that (`sha256`);
- `spec/`: the model's file and its cells as they were;
- `policy.json`: the learned policy, its Q-values included (where one was used);
- `batches/NNNN.npz`, one for each of the first mini-batches (`kept` in the report): the graph (`type`,
  `succ_ptr`, `succ`, `vertex`, `instance`), the schedule (`batch_type`, `batch_ptr`, `nodes`) and `ready`,
  the ready nodes by type before each step; where equal nodes were left out also `stands`, `stands_instance`
  and perhaps `part` (`abw.core.store.checked.Equal`);
- `times/NNNN.npz`, where the run was profiled or traced: when each batch of these was executed, and on which
  thread (`abw.core.run.observing.trace`);
- `growth/NNNN.npz`, of each of these that has grown: in which round what came, and every decision with its
  margin (`abw.core.store.checked`);
- `outputs.npz`, as `docs/outputs.md` describes it, of a program `outputs.jsonl`, unless they went elsewhere;
- `note.json`, the one file that may change: a note and tags.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.base.files import home, read_json, write_json, writing
from abw.core.graph.dag import Dag
from abw.core.graph.graph import Graph
from abw.core.policy.registry import CHOSEN, LEARNED
from abw.core.policy.schedule import Schedule
from abw.core.store.checked import Equal, arrays_file, equal_of, read_batch, read_equal, write_arrays
from abw.core.store.folders import discard, number_of, numbered


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run on disk: its folder and its report; `damage` says why there is no report to go by."""

    path: Path
    report: dict[str, Any]
    damage: str = ""
    note: str = ""
    tags: tuple[str, ...] = ()

    @property
    def number(self) -> int:
        """The number that `abw runs show` takes."""
        return number_of(self.path)

    @property
    def date(self) -> datetime:
        """When it ended, in local time; of a run that does not say it, when its report was written."""
        if said := self.report.get("date"):
            return datetime.fromisoformat(said).astimezone()
        return datetime.fromtimestamp((self.path / REPORT).stat().st_mtime).astimezone()

    @property
    def kept(self) -> int:
        """The number of mini-batches, from the first on, whose graph and schedule are there."""
        return int(self.report.get("kept", self.report["mini_batches"]))


# The version of reports: other ones are not read.
SCHEMA_VERSION = 1
# Files of a run's folder: its report, without which it is no run, the learned policy, outputs, what programs
# returned, note and tags.
REPORT, POLICY, OUTPUTS, RETURNED, NOTE = (
    "run.json", "policy.json", "outputs.npz", "outputs.jsonl", "note.json",
)  # fmt: skip


def runs_folder() -> Path:
    """Where runs lie."""
    return home() / "runs"


def run_folders() -> list[Path]:
    """The folders of all runs, the latest last. Cost: one listing, of no file's content."""
    return numbered(runs_folder())


def list_runs(last: int | None = None) -> list[StoredRun]:
    """All runs, or the `last` ones, oldest first; a folder without a report is not one.

    Cost: reading the reports of those listed.
    """
    found: list[StoredRun] = []
    for folder in reversed(run_folders()):
        if last is not None and len(found) == last:
            break
        if (folder / REPORT).is_file():
            found.append(_read(folder))
    return found[::-1]


def find_run(name: str | None) -> StoredRun:
    """A run by its number, its folder's name or path; the latest for None. Errors: AbwError, also where it is
    damaged.
    """
    folders = [folder for folder in run_folders() if name is None or _called(folder, name)]
    for folder in reversed(folders) if name is None else folders:
        if (folder / REPORT).is_file():
            run = _read(folder)
            if run.damage:
                hint = "`abw runs` lists the others; run it again: `abw run SPEC`"
                raise AbwError(f"run {run.number} is damaged: {run.damage}", hint=hint)
            return run
    known = [number_of(folder) for folder in run_folders() if (folder / REPORT).is_file()]
    if not known:
        raise AbwError(f"there are no runs in {runs_folder()}", hint="make one: `abw run SPEC`")
    hint = f"`abw runs` lists them; numbers here: {known[0]} to {known[-1]}"
    raise AbwError(f"there is no run '{name}'", hint=hint)


def _called(folder: Path, name: str) -> bool:
    if name.isascii() and name.isdigit():
        return number_of(folder) == int(name)
    return name in (folder.name, str(folder))


def _read(folder: Path) -> StoredRun:
    try:
        report = read_json(folder / REPORT, "run")
        if report.pop("sha256", "") != _digest(report) and not _unhashed(report):
            raise AbwError(f"{folder / REPORT} is not as abw wrote it")
        if report["schema_version"] != SCHEMA_VERSION:
            said = f"its report has version {report['schema_version']}"
            raise AbwError(f"{said}, this abw reads {SCHEMA_VERSION}")
    except AbwError as error:
        return StoredRun(folder, {}, error.message)
    return StoredRun(folder, report, "", *read_note(folder))


def read_note(folder: Path) -> tuple[str, tuple[str, ...]]:
    """The note and tags of a run or training; nothing where there are none, or none that can be read."""
    try:
        found = read_json(folder / NOTE, "note")
        return str(found["note"]), tuple(map(str, found["tags"]))
    except (AbwError, KeyError, TypeError):
        return "", ()


def write_note(folder: Path, note: str, tags: Iterable[str]) -> None:
    """Give a run or training a note and tags instead of those it had. Errors: AbwError."""
    write_json(folder / NOTE, {"note": note, "tags": sorted(set(tags))})


def remove_run(path: Path) -> int:
    """Remove a run's or training's folder; returns the bytes that its files had.

    It disappears whole; what is left of its folder where that is interrupted, later runs clear away. Errors:
    AbwError.
    """
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    discard(path)
    return size


def _unhashed(report: dict[str, Any]) -> bool:
    """Whether a report is of abw 0.1.0, which wrote no hash; then all that is read of it must be there."""
    versions = report.get("versions")
    old = isinstance(versions, dict) and versions.get("abw") == "0.1.0"
    return old and report.keys() >= {"schema_version", "model", "spec", "policy", "mini_batches", "batches"}


def _digest(report: dict[str, Any]) -> str:
    """A hash of what a report says, however it is written."""
    return hashlib.sha256(json.dumps(report, sort_keys=True).encode()).hexdigest()


def save_batch(
    folder: Path, number: int, graph: Graph, dag: Dag, schedule: Schedule, ready: NDArray[np.int32]
) -> None:
    """Write one mini-batch's graph, schedule and ready nodes into a run's folder. Errors: AbwError.

    `dag`: what the policy saw of the graph, and the schedule is of.
    """
    batches = {
        "batch_type": schedule.type,
        "batch_ptr": schedule.ptr,
        "nodes": schedule.nodes,
        "ready": ready,
    }
    edges = {"type": dag.type, "succ_ptr": dag.succ_ptr, "succ": dag.succ}
    places = {"vertex": graph.vertex, "instance": graph.instance}
    if (equal := equal_of(graph)) is not None:
        places |= {"stands": equal.stands, "stands_instance": equal.instance}
        places |= {"part": equal.part} if equal.part is not None else {}
    write_arrays(folder, "batches", number, {"types": np.array(dag.types), **edges, **places, **batches})


def load_batch(run: StoredRun, number: int) -> tuple[Dag, Schedule, NDArray[np.int32], NDArray[np.int32]]:
    """A mini-batch that `save_batch` wrote: its dag, its schedule, its nodes' instances and vertices.

    Errors: AbwError where the file is missing or damaged.
    """
    return read_batch(arrays_file(run.path, "batches", number), run.report["batch"])


def load_equal(run: StoredRun, number: int) -> Equal | None:
    """Which nodes of a mini-batch stand for equal ones; None where none were looked for.

    Errors: AbwError where the file is missing or damaged.
    """
    return read_equal(arrays_file(run.path, "batches", number), run.report["batch"])


def in_range(number: int, mini_batches: int) -> int:
    """The number of a mini-batch that is there. Errors: AbwError."""
    if not mini_batches:
        raise AbwError("the run has no mini-batches: there were no instances")
    if not 0 <= number < mini_batches:
        raise AbwError(f"there is no mini-batch {number}", hint=f"numbers here: 0 to {mini_batches - 1}")
    return number


def policy_name(report: dict[str, Any]) -> str:
    """The name of a run's policy: `fsm` or `auto` where it was a file."""
    if not report["policy"].endswith(".json"):
        return str(report["policy"])
    return LEARNED if report["encoding"] else CHOSEN


def save_report(
    folder: Path, report: dict[str, Any], files: tuple[Path, ...], policy: Path | None = None
) -> None:
    """Write a run's report, and copies of the policy's file and of the spec's: the model's, then its cells',
    where they lay. Errors: AbwError.
    """
    copies = [(policy, folder / POLICY)] if policy else []
    for file in files:
        name = Path(os.path.relpath(file, files[0].parent))
        copies.append((file, folder / "spec" / (name.name if ".." in name.parts else name)))
    for source, target in copies:
        content = source.read_bytes()
        with writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
    report = json.loads(json.dumps(report))  # as it will be read
    write_json(folder / REPORT, {**report, "sha256": _digest(report)})
