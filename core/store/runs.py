"""Runs on disk: a folder each, never overwritten.

A run's folder `NNNN-model/` holds:

- `run.json`: the report that `abw run --json` prints, with versions, options and the command line;
- `spec/`: the model's file and its cells as they were;
- `policy.json`: the learned policy, its Q-values included (where one was used);
- `batches/NNNN.npz`, one for each of the first mini-batches (`kept` in the report): the graph (`type`,
  `succ_ptr`, `succ`, `vertex`, `instance`), the schedule (`batch_type`, `batch_ptr`, `nodes`) and `ready`,
  the ready nodes by type before each step;
- `outputs.npz`, as `docs/outputs.md` describes it, unless the outputs went elsewhere.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from abw.core.errors import AbwError
from abw.core.graph.dag import Dag
from abw.core.graph.graph import Graph
from abw.core.policy.schedule import Schedule
from abw.core.store.files import home, read_json, write_json


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A run on disk: its folder and its report."""

    path: Path
    report: dict[str, Any]

    @property
    def number(self) -> int:
        """The number that `abw runs show` takes."""
        return int(self.path.name.split("-")[0])

    @property
    def kept(self) -> int:
        """Of how many mini-batches, from the first on, the graph and schedule are there."""
        return int(self.report.get("kept", self.report["mini_batches"]))


OUTPUTS = "outputs.npz"
"""The file of a run's outputs in its folder."""


def runs_folder() -> Path:
    """Where runs lie."""
    return home() / "runs"


def list_runs() -> list[StoredRun]:
    """All runs, oldest first; a folder without a report is not one."""
    folders = sorted(p for p in runs_folder().glob("[0-9]*-*") if (p / "run.json").is_file())
    return [StoredRun(p, read_json(p / "run.json", "run")) for p in folders]


def find_run(name: str | None) -> StoredRun:
    """A run by its number, its folder's name or path; the latest for None. Errors: AbwError."""
    runs = list_runs()
    if not runs:
        raise AbwError(f"there are no runs in {runs_folder()}", hint="make one: `abw run SPEC`")
    if name is None:
        return runs[-1]
    for run in runs:
        if name in (run.path.name, str(run.path)) or (name.isdigit() and int(name) == run.number):
            return run
    known = f"{runs[0].number} to {runs[-1].number}"
    raise AbwError(f"there is no run '{name}'", hint=f"`abw runs` lists them; numbers here: {known}")


def save_batch(
    folder: Path, number: int, graph: Graph, dag: Dag, schedule: Schedule, ready: NDArray[np.int32]
) -> None:
    """Write one mini-batch's graph, schedule and ready nodes into a run's folder.

    `dag`: what the policy saw of the graph, and the schedule is of.
    """
    target = folder / "batches"
    target.mkdir(exist_ok=True)
    np.savez(
        target / f"{number:04d}.npz",
        types=np.array(dag.types),
        type=dag.type,
        succ_ptr=dag.succ_ptr,
        succ=dag.succ,
        vertex=graph.vertex,
        instance=graph.instance,
        batch_type=schedule.type,
        batch_ptr=schedule.ptr,
        nodes=schedule.nodes,
        ready=ready,
    )


def load_batch(run: StoredRun, number: int) -> tuple[Dag, Schedule, NDArray[np.int32], NDArray[np.int32]]:
    """A mini-batch that `save_batch` wrote: its dag, its schedule, its nodes' instances and vertices.

    Errors: AbwError where the file is missing or damaged.
    """
    file = run.path / "batches" / f"{number:04d}.npz"
    try:
        with np.load(file) as kept:
            succ = kept["succ"]
            indegree = np.bincount(succ, minlength=len(kept["type"])).astype(np.int32)
            dag = Dag(tuple(map(str, kept["types"])), kept["type"], kept["succ_ptr"], succ, indegree)
            schedule = Schedule(kept["batch_type"], kept["batch_ptr"], kept["nodes"])
            return dag, schedule, kept["instance"], kept["vertex"]
    except (OSError, KeyError, ValueError, BadZipFile) as error:
        raise AbwError(f"cannot read {file}: {error}", hint="run it anew: `abw run SPEC`") from None


def in_range(number: int, mini_batches: int) -> int:
    """The number of a mini-batch that is there. Errors: AbwError."""
    if not mini_batches:
        raise AbwError("the run has no mini-batches: there were no instances")
    if not 0 <= number < mini_batches:
        raise AbwError(f"there is no mini-batch {number}", hint=f"numbers here: 0 to {mini_batches - 1}")
    return number


def save_report(folder: Path, report: dict[str, Any], files: tuple[Path, ...]) -> None:
    """Write a run's report, and copies of the spec's files: the model's, then its cells', where they lay."""
    base = files[0].resolve().parent
    for file in files:
        whole = file.resolve()
        name = whole.relative_to(base) if whole.is_relative_to(base) else Path(whole.name)
        target = folder / "spec" / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)
    write_json(folder / "run.json", report)
