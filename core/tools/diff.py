"""How two runs, or two trainings, differ: what `abw runs diff` says."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import unified_diff
from pathlib import Path
from typing import Any

import numpy as np

from abw.core.exec.agreement import error_of
from abw.core.run.checks import TOLERANCE
from abw.core.store.checked import read_arrays
from abw.core.store.runs import OUTPUTS, RETURNED, StoredRun, load_batch
from abw.core.store.trainings import StoredTraining

# What was asked for, and what was counted, by the names in reports.
OPTIONS = (
    "model", "spec", "data", "dims", "policy", "picked", "executor", "precision", "granularity",
    "layout", "passes", "hoist", "hoisted", "seed", "weights", "threads", "batch", "versions", "program",
)  # fmt: skip
COUNTS = (
    "instances", "skipped", "mini_batches", "nodes", "batches", "lower_bound", "unseen_states", "launches",
    "memory_kernels", "bytes_moved", "not_finite",
)  # fmt: skip
# Said of outputs and returned values that are not in a run's folder.
NOT_COMPARED = "not compared: those of a run that was given --output are not in its folder"


def diff_runs(one: StoredRun, other: StoredRun) -> dict[str, Any]:
    """Compare two runs, as one document; options and counts that are equal are left out.

    `batches`: whether the kept mini-batches have the same schedules. `outputs`: of those in both runs'
    folders the largest difference, to the root mean square of the first run's; labels and decisions are to be
    the same. Errors: AbwError where a run is damaged.
    """
    a, b = one.report, other.report
    steps = [step for step in a["seconds"] if a["seconds"][step] or b["seconds"].get(step)]
    outputs, said = _outputs(one.path / OUTPUTS, other.path / OUTPUTS)
    if all("program" in report for report in (a, b)):
        said = _returned(one.path / RETURNED, other.path / RETURNED)
    return {
        "schema_version": 1,
        "a": {"number": one.number, "path": str(one.path)},
        "b": {"number": other.number, "path": str(other.path)},
        "spec": list(_spec(one, other)),
        "options": _differing(a, b, OPTIONS),
        "counts": _differing(a, b, COUNTS),
        "seconds": {step: [a["seconds"][step], b["seconds"].get(step, 0.0)] for step in steps},
        "instances_per_second": [a["instances_per_second"], b["instances_per_second"]],
        "peak_memory_bytes": [a["peak_memory_bytes"], b["peak_memory_bytes"]],
        "batches": _batches(one, other),
        "outputs": outputs,
        "outputs_said": said,
        "tolerance": TOLERANCE,
    }


def diff_trainings(one: StoredTraining, other: StoredTraining) -> dict[str, Any]:
    """Compare two trainings, as one document; options that are equal are left out.

    `files`: those of the spec and its data that are not the same in both, or not of both. `curves`: the rows
    of both.
    """
    a, b = ({"model": x["model"], **x["overrides"], **x["options"]} for x in (one.about, other.about))
    files, others = (training.about.get("files", {}) for training in (one, other))
    return {
        "schema_version": 1,
        "a": {"name": one.name, "path": str(one.path)},
        "b": {"name": other.name, "path": str(other.path)},
        "files": [name for name in sorted({*files, *others}) if files.get(name) != others.get(name)],
        "options": {
            key: [a.get(key), b.get(key)] for key in dict.fromkeys((*a, *b)) if a.get(key) != b.get(key)
        },
        "epochs": [len(one.rows), len(other.rows)],
        "best": [one.best, other.best],
        "best_epoch": [one.best_epoch, other.best_epoch],
        "curves": [list(one.rows), list(other.rows)],
    }


def _differing(a: dict[str, Any], b: dict[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """Find what differs, by name; inside of nested documents by `name.key`."""
    found: dict[str, Any] = {}
    for name in names:
        mine, theirs = a.get(name), b.get(name)
        if isinstance(mine, dict) and isinstance(theirs, dict):
            inner = _differing(mine, theirs, dict.fromkeys((*mine, *theirs)))
            found |= {f"{name}.{key}": pair for key, pair in inner.items()}
        elif mine != theirs:
            found[name] = [mine, theirs]
    return found


def _spec(one: StoredRun, other: StoredRun) -> Iterator[str]:
    """The lines in which the spec and its cells differ, as `diff -u` shows them."""
    folders = [run.path / "spec" for run in (one, other)]
    names = {str(file.relative_to(f)) for f in folders for file in f.rglob("*") if file.is_file()}
    for name in sorted(names):
        mine, theirs = (_lines(folder / name) for folder in folders)
        titles = f"run {one.number}: {name}", f"run {other.number}: {name}"
        yield from unified_diff(mine, theirs, *titles, n=1, lineterm="")


def _lines(file: Path) -> list[str]:
    return file.read_text("utf-8", errors="backslashreplace").splitlines() if file.is_file() else []


def _batches(one: StoredRun, other: StoredRun) -> dict[str, Any]:
    """Whether the kept mini-batches were executed in the same batches, and the first that was not."""
    kept = min(one.kept, other.kept)
    for number in range(kept):
        (dag, mine, *_), (other_dag, theirs, *_) = (load_batch(run, number) for run in (one, other))
        graphs = ("types", "type", "succ_ptr", "succ")
        if not all(np.array_equal(getattr(dag, n), getattr(other_dag, n)) for n in graphs):
            return {"same": False, "first": number, "said": f"mini-batch {number} is another graph"}
        if not all(np.array_equal(getattr(mine, n), getattr(theirs, n)) for n in ("type", "ptr", "nodes")):
            said = f"mini-batch {number} is the first that differs: {len(mine)} batches, {len(theirs)}"
            return {"same": False, "first": number, "said": said}
    said = f"the same in {kept} mini-batches" if kept != 1 else "the same in the one mini-batch"
    return {"same": True, "first": None, "said": said if kept else "no mini-batch is kept"}


def _outputs(one: Path, other: Path) -> tuple[dict[str, Any], str]:
    """Each output's difference; or why there is nothing to compare."""
    if not (one.is_file() and other.is_file()):
        return {}, NOT_COMPARED
    mine, theirs = read_arrays(one), read_arrays(other)
    names = [n for n in mine if not n.startswith("instance.") and not n.endswith((".offsets", ".vertex"))]
    return {n: _difference(mine[n], theirs.get(n)) for n in names}, ""


def _returned(one: Path, other: Path) -> str:
    """Count the instances whose programs returned something else."""
    if not (one.is_file() and other.is_file()):
        return NOT_COMPARED
    mine, theirs = one.read_bytes().splitlines(), other.read_bytes().splitlines()
    if len(mine) != len(theirs):
        return f"of {len(mine)} instances, and of {len(theirs)}"
    others = [number for number, (a, b) in enumerate(zip(mine, theirs, strict=True)) if a != b]
    if not others:
        return "the same"
    return f"{len(others)} of {len(mine)} are others, the first on line {others[0] + 1}"


def _difference(mine: Any, theirs: Any) -> dict[str, Any]:  # noqa: ANN401 (arrays of any kind)
    """Measure how far apart two arrays are."""
    if theirs is None or mine.shape != theirs.shape or mine.dtype != theirs.dtype:
        shapes = [f"{a.shape} of {a.dtype}" if a is not None else "absent" for a in (mine, theirs)]
        return {"within": False, "error": None, "said": f"{shapes[0]}; {shapes[1]}"}
    if mine.dtype.kind != "f":
        other = int((mine != theirs).sum())
        return {"within": not other, "error": None, "said": f"{other:,} of {mine.size:,} are others"}
    if np.array_equal(mine, theirs, equal_nan=True):
        return {"within": True, "error": 0.0, "said": "the same, bit for bit"}
    error = error_of(theirs.astype(np.float64), mine.astype(np.float64))
    within = error <= TOLERANCE
    said = f"differs by {error:.1e} of its root mean square; {TOLERANCE:.0e} is tolerated"
    return {"within": within, "error": error, "said": said}
