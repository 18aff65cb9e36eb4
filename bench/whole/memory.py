"""Peak memory of whole runs, each in a process of its own."""

from __future__ import annotations

import tempfile
from itertools import product
from pathlib import Path
from typing import Annotated, Any

from abw.bench.options import SPECS, BatchSizes, DataDir, HiddenSizes, SpecsDir, option
from abw.bench.process import report
from abw.bench.rows import Row, Rows
from abw.bench.workloads import CASES, LARGEST_MV, case

# A workload and a size with more than a gigabyte of weights.
LARGE = ("TreeLSTM", 4096)


def memory(
    data: DataDir,
    specs: SpecsDir = SPECS,
    batch: BatchSizes = [256],
    hidden: HiddenSizes = [32, 128, 512],
    training: Annotated[
        bool, option("Measure `abw train` instead, on trees, lattices and growth.", "--training")
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
            spec, folder = specs / chosen.spec, Path(home)
            _, found = (report("run", spec, options, folder) for _ in range(2))
            said = report("check", spec, options, folder)["process_bytes"]
            yield Row(
                "",
                workload=chosen.name,
                hidden=size,
                batch=batch,
                nodes=found["nodes"],
                weights_bytes=said["weights"],
                **_beside(said["total"], found),
            )


def _beside(predicted: int, found: dict[str, Any]) -> dict[str, Any]:
    """A prediction beside the peak, which not every system reports."""
    peak = found["peak_memory_bytes"]
    return {
        "predicted_bytes": predicted,
        "peak_bytes": peak,
        "predicted_over_peak_times": peak and predicted / peak,
    }


# Shipped specs with a section `train`, and their training data: trees, lattices, and a model that grows.
TRAININGS = {"sst": "trees/train.txt", "ner": "lattice/train.txt", "seq2seq": "pairs/tst2012.en-vi.txt"}


def _trainings(specs: Path, data: Path, batches: list[int], hidden: list[int]) -> Rows:
    with tempfile.TemporaryDirectory() as home:
        for (name, source), size, batch in product(TRAININGS.items(), hidden, batches):
            spec = specs / f"{name}.yaml"
            options = ["--batch", str(batch), "--limit", str(10 * batch), "--set", f"hidden={size}"]
            options += ["--data", str(data / source)]
            parts = report("check", spec, options, Path(home))["training_bytes"]
            _, found = (report("train", spec, [*options, "--epochs", "2"], Path(home)) for _ in range(2))
            yield Row(
                "",
                training=name,
                hidden=size,
                batch=batch,
                **{f"{part}_bytes": taken for part, taken in parts.items() if part != "total"},
                **_beside(parts["total"], found),
            )
