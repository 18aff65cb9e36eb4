"""Peak memory of whole runs, each in a process of its own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Annotated, Any

import typer

from abw.bench.options import SPECS, BatchSizes, DataDir, HiddenSizes, SpecsDir
from abw.bench.process import abw_check, abw_run, abw_train
from abw.bench.rows import Row, Rows
from abw.bench.workloads import CASES, case

# A workload and a size with more than a gigabyte of weights.
LARGE = ("TreeLSTM", 4096)

# MV-RNN has matrices at every node: beyond this size a mini-batch takes gigabytes.
LARGEST_MV = 128


def memory(
    data: DataDir,
    specs: SpecsDir = SPECS,
    batch: BatchSizes = [256],
    hidden: HiddenSizes = [32, 128, 512],
    training: Annotated[
        bool,
        typer.Option(
            "--training", help="Measure `abw train` instead, on trees, lattices, chains and growth."
        ),
    ] = False,
) -> Rows:
    """Compare the memory that `abw check` predicts with the peak of `abw run`, for each workload.

    Each run is a process of its own with warm caches. The last row has more than 1 GB of weights; a
    training has two epochs of at most ten mini-batches.
    """
    yield from (_trainings if training else _runs)(specs, data, batch, hidden)


def _runs(specs: Path, data: Path, batches: list[int], hidden: list[int]) -> Rows:
    jobs = [(c, h) for c in CASES for h in hidden if c.name != "MV-RNN" or h <= LARGEST_MV]
    jobs.append((case(LARGE[0]), LARGE[1]))
    with tempfile.TemporaryDirectory() as home:
        for (chosen, size), batch in product(jobs, batches):
            options = ["--data", str(data / chosen.data), "--limit", str(batch), "--batch", str(batch)]
            options += ["--set", f"hidden={size}"]
            _, report = (abw_run(specs / chosen.spec, options, Path(home)) for _ in range(2))
            said = abw_check(specs / chosen.spec, options, Path(home))["process_bytes"]
            yield Row(
                "",
                workload=chosen.name,
                hidden=size,
                batch=batch,
                nodes=report["nodes"],
                weights_bytes=said["weights"],
                **_beside(said["total"], report),
            )


def _beside(predicted: int, report: dict[str, Any]) -> dict[str, Any]:
    """A prediction beside the peak, which not every system tells."""
    peak = report["peak_memory_bytes"]
    return {
        "predicted_bytes": predicted,
        "peak_bytes": peak,
        "predicted_over_peak_times": peak and predicted / peak,
    }


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


# Trees by AdaGrad and without a state, lattices and chains by Adam, and a model that grows.
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


def _trainings(specs: Path, data: Path, batches: list[int], hidden: list[int]) -> Rows:
    with tempfile.TemporaryDirectory() as made:
        home, folder = Path(made, "home"), Path(made, "specs")
        for part in ("cells", "data"):
            shutil.copytree(specs / part, folder / part)
        for name in ("trees", "lattice"):  # the specs' dev data
            shutil.copy(data / name / "dev.txt", folder / "data" / f"{name}.txt")
        for trained, size, batch in product(TRAININGS, hidden, batches):
            spec = trained.write(specs, folder)
            options = ["--batch", str(batch), "--limit", str(10 * batch), "--set", f"hidden={size}"]
            if trained.data:
                options += ["--data", str(data / trained.data)]
            parts = abw_check(spec, options, home)["training_bytes"]
            _, report = (abw_train(spec, [*options, "--epochs", "2"], home) for _ in range(2))
            yield Row(
                "",
                training=trained.name,
                hidden=size,
                batch=batch,
                **{f"{part}_bytes": taken for part, taken in parts.items() if part != "total"},
                **_beside(parts["total"], report),
            )
