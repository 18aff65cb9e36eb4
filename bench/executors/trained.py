"""Models with weights from PyTorch, from a file of real data to outputs: abw beside PyTorch itself."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from abw.bench.executors.blas import import_torch
from abw.bench.executors.byhand import BiLSTM, ByHand, Floats, Rows, TreeLSTM
from abw.bench.process import abw_run
from abw.bench.timing import interleaved
from abw.bench.workloads import Case, learned_policy
from abw.core.base.errors import AbwError
from abw.core.base.progress import Clock

if TYPE_CHECKING:
    from abw.core.data.instances import Instances

STEPS = ("construct", "schedule", "plan", "execute")

TOLERANCE = 1e-5
"""How far outputs, of order 1 and in float32, may be apart."""


@dataclass(frozen=True, slots=True)
class Task:
    """A model by hand, with its spec and its file under `--data`."""

    case: Case
    write: Callable[[Rows, int], ByHand]
    words: Callable[[str], list[str]]


TASKS = (
    Task(
        Case("TreeLSTM", "torch-treelstm.yaml", "trees/train.txt"),
        TreeLSTM,
        lambda line: [piece.rstrip(")") for piece in line.split() if piece.endswith(")")],
    ),
    Task(
        Case("BiLSTM", "torch-bilstm.yaml", "tags/dev.txt"),
        BiLSTM,
        lambda line: [token.rpartition("|")[0] for token in line.split()],
    ),
)


def bench_torch(
    data: Path, hidden: list[int], batch: int, instances: int, runs: int, specs: Path = Path("specs")
) -> dict[str, Any]:
    """Instances per second of CPU time, one thread each, medians of `runs` rounds in which all take turns.

    Everything from opening the data file to outputs as arrays counts; weights, vocabulary, compilation and
    abw's learned policy are there before. Of each mini-batch abw and PyTorch by hand find out themselves
    what to do together. `batched_reading_share` is the part of the latter's time that goes into reading.
    `command_per_second` is what `abw run` in a process of its own says, once and by the wall clock. Errors:
    AbwError where PyTorch or a file is absent, or where outputs differ.
    """
    torch = import_torch()
    torch.set_num_threads(1)
    rows = []
    for task in TASKS:
        for size in hidden:
            with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
                rows.append(_row(torch, task, specs, data, Path(folder), size, batch, instances, runs))
    return {
        "schema_version": 1,
        "torch": torch.__version__,
        "batch": batch,
        "runs": runs,
        "threads": 1,
        "rows": rows,
    }


def _row(
    torch: Any,  # noqa: ANN401
    task: Task,
    specs: Path,
    data: Path,
    folder: Path,
    hidden: int,
    batch: int,
    instances: int,
    runs: int,
) -> dict[str, Any]:
    spec, file, rows = _prepared(task, specs, data, folder, instances)
    torch.manual_seed(0)
    written = task.write(rows, hidden)
    weights = folder / "weights.pt"
    torch.save(written.module.state_dict(), weights)
    contenders: dict[str, Callable[[], Floats]] = {
        "per_instance": lambda: written.one_by_one(file),
        "batched": lambda: written.batched(file, batch),
        "abw": AbwRuns(spec, file, weights, hidden, batch, hoist=False).run,
    }
    hoisted = AbwRuns(spec, file, weights, hidden, batch, hoist=True)
    if hoisted.changed:
        contenders["abw_hoist"] = hoisted.run
    expected = contenders["per_instance"]()
    errors = {name: _error(run(), expected, name, task, hidden) for name, run in contenders.items()}
    seconds = interleaved(
        {**contenders, "reading": lambda: written.read(file)},
        runs,
        time.process_time,  # of all threads: PyTorch has its own
    )
    reading = seconds.pop("reading")
    options = ["--data", str(file), "--weights", str(weights), "--set", f"hidden={hidden}"]
    options += ["--batch", str(batch), "--threads", "1"]
    report = abw_run(spec, options, folder / "home")
    with np.load(Path(report["path"]) / "outputs.npz") as kept:
        errors["command"] = _error(kept[kept.files[0]], expected, "abw run", task, hidden)
    with file.open(encoding="utf-8") as lines:
        count = sum(1 for _ in lines)
    return {
        "model": task.case.name,
        "hidden": hidden,
        "instances": count,
        "outputs": len(expected),
        "max_error": max(errors.values()),
        **{f"{name}_per_second": count / taken for name, taken in seconds.items()},
        "batched_reading_share": reading / seconds["batched"],
        "command_per_second": report["instances_per_second"],
    }


def _prepared(task: Task, specs: Path, data: Path, folder: Path, instances: int) -> tuple[Path, Path, Rows]:
    """The spec with a vocabulary of the first instances beside it, their file, and the vocabulary's rows."""
    source = data / task.case.data
    if not (specs / task.case.spec).is_file():
        raise AbwError(f"there is no {specs / task.case.spec}", hint="say where the specs are: --specs DIR")
    if not source.is_file():
        raise AbwError(f"there is no {source}", hint="say where the data is: --data DIR")
    shutil.copytree(specs, folder / "specs")
    with source.open(encoding="utf-8") as lines:
        chosen = list(islice((line for line in lines if line.strip()), instances))
    file = folder / source.name
    file.write_text("".join(chosen), encoding="utf-8")
    counts = Counter(word for line in chosen for word in task.words(line))
    words = ["<unk>", *sorted(word for word, count in counts.items() if count > 1 and word != "<unk>")]
    (folder / "specs/data/words.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    return folder / "specs" / task.case.spec, file, {word: row for row, word in enumerate(words)}


def _error(found: Floats, expected: Floats, name: str, task: Task, hidden: int) -> float:
    same = found.shape == expected.shape
    worst = float(np.abs(found - expected).max()) if same else float("inf")
    if not worst < TOLERANCE:
        raise AbwError(f"{task.case.name}, hidden {hidden}: the outputs of {name} differ by {worst:.1e}")
    return worst


class AbwRuns:
    """What `abw run SPEC --data FILE --weights FILE --threads 1` does between reading and writing a file."""

    def __init__(
        self, spec: Path, file: Path, weights: Path | None, hidden: int, batch: int, *, hoist: bool
    ) -> None:
        from abw.core.exec.registry import get_executor
        from abw.core.exec.trained import load_weights, make_params
        from abw.core.run.workload import open_model, open_networks
        from abw.core.spec.load import Overrides

        overrides = Overrides({"hidden": hidden}, file, batch=batch, weights=weights, hoist=hoist)
        self._model = open_model(spec, overrides)
        self.changed = any(t.name.endswith("-hoisted") for t in self._model.types)
        self._networks = open_networks(self._model, "cell")
        self._executor = get_executor("cpu")
        params = make_params(self._networks.network, load_weights(self._model), 0)
        self._executor.prepare(self._networks.network, params, 1)
        self._policy = learned_policy(self._model, self._networks, name="auto")

    def run(self) -> Floats:
        """Read the file; outputs in the order of instances and vertices."""
        return self.run_on(self.read(), Clock(*STEPS))

    def read(self) -> Instances:
        """The file's instances."""
        from abw.core.run.workload import read_instances

        return read_instances(self._model.data, None)

    def run_on(self, instances: Instances, clock: Clock) -> Floats:
        """Outputs in the order of instances and vertices; `clock` counts the steps."""
        from abw.core.run.minibatches import run_all
        from abw.core.run.workload import open_workload

        with clock("construct"):
            workload = open_workload(self._model, instances, self._networks)
        outputs = [
            result.values(batch.graph.results[0].reference)
            for batch, result in run_all(workload, self._policy, self._executor, clock)
        ]
        return np.concatenate(outputs)
