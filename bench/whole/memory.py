"""Peak memory of whole runs, each in a process of its own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from abw.bench.process import abw_check, abw_run, abw_train
from abw.bench.workloads import CASES, case
from abw.core.base.progress import Progress, each

LARGE = ("TreeLSTM", 4096)
"""A workload and a size with more than a gigabyte of weights."""

LARGEST_MV = 128
"""MV-RNN has matrices at every node: beyond this size a mini-batch takes gigabytes."""


def bench_memory(
    specs: Path, data: Path, batch: int, hidden: list[int], progress: Progress
) -> dict[str, Any]:
    """What `abw check` predicts of each workload's process, and the peak of `abw run` on one mini-batch.

    Each is a process of its own, after another has compiled all that is kept on disk. `memory`: what was
    predicted of the mini-batch when it was run, and the peak then (null where that cannot be measured).
    """
    rows = []
    jobs = [(c, h) for c in CASES for h in hidden if c.name != "MV-RNN" or h <= LARGEST_MV]
    jobs.append((case(LARGE[0]), LARGE[1]))
    progress.phase("runs", len(jobs))
    with tempfile.TemporaryDirectory() as home:
        for chosen, size in jobs:
            options = ["--data", str(data / chosen.data), "--limit", str(batch), "--batch", str(batch)]
            options += ["--set", f"hidden={size}"]
            _, report = (abw_run(specs / chosen.spec, options, Path(home)) for _ in range(2))
            said = abw_check(specs / chosen.spec, options, Path(home))["process_bytes"]
            rows.append(
                {
                    "workload": chosen.name,
                    "hidden": size,
                    "batch": batch,
                    "nodes": report["nodes"],
                    "weights_bytes": said["weights"],
                    "predicted_bytes": said["total"],
                    "peak_memory_bytes": report["peak_memory_bytes"],
                    "memory": report["memory"],
                }
            )
            progress.reached(len(rows))
    return {"schema_version": 1, "hidden": hidden, "rows": rows}


@dataclass(frozen=True, slots=True)
class Trained:
    """A training: a shipped spec, in which some text is `replaced`, with more of it, and its data."""

    name: str
    spec: str
    data: str = ""
    replaced: Mapping[str, str] = field(default_factory=dict)
    more: str = ""

    def write(self, specs: Path, folder: Path) -> Path:
        """The spec, beside copies of what it names."""
        text = (specs / f"{self.spec}.yaml").read_text(encoding="utf-8")
        for old, new in self.replaced.items():
            text = text.replace(old, new)
        path = folder / f"{self.name}.yaml"
        path.write_text(text + self.more, encoding="utf-8")
        return path


TRAININGS = (
    Trained("sst", "sst", "trees/train.txt"),
    Trained(
        "sst-sgd",
        "sst",
        "trees/train.txt",
        {"{name: adagrad, rate: 0.05, decay: 0.0001}": "{name: sgd, rate: 0.05}"},
    ),
    Trained("ner", "ner", "lattice/train.txt"),
    Trained("bilstm", "bilstm", "tags/dev.txt", {}, "train: {loss: {of: tags, target: coin, over: token}}\n"),
    Trained("seq2seq", "seq2seq"),
)
"""Trees by AdaGrad and without a state, lattices and chains by Adam, and a model that grows."""


def bench_training_memory(
    specs: Path, data: Path, batches: list[int], hidden: list[int], progress: Progress
) -> dict[str, Any]:
    """What `abw check` predicts of a training's process, and the peak of two epochs of `abw train`.

    Of at most ten mini-batches an epoch; each is a process of its own, after another has compiled all that is
    kept on disk. `parts`: what was predicted.
    """
    rows = []
    with tempfile.TemporaryDirectory() as made:
        home, folder = Path(made, "home"), Path(made, "specs")
        for part in ("cells", "data"):
            shutil.copytree(specs / part, folder / part)
        for name in ("trees", "lattice"):  # the specs' dev data
            shutil.copy(data / name / "dev.txt", folder / "data" / f"{name}.txt")
        jobs = [(t, h, b) for t in TRAININGS for h in hidden for b in batches]
        for trained, size, batch in each(jobs, progress, "trainings"):
            spec = trained.write(specs, folder)
            options = ["--batch", str(batch), "--limit", str(10 * batch), "--set", f"hidden={size}"]
            if trained.data:
                options += ["--data", str(data / trained.data)]
            parts = abw_check(spec, options, home)["training_bytes"]
            _, report = (abw_train(spec, [*options, "--epochs", "2"], home) for _ in range(2))
            rows.append(
                {
                    "training": trained.name,
                    "hidden": size,
                    "batch": batch,
                    "parts": parts,
                    "predicted_bytes": parts["total"],
                    "peak_memory_bytes": report["peak_memory_bytes"],
                }
            )
    return {"schema_version": 1, "rows": rows}
