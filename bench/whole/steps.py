"""Training on several threads beside one: whole steps, planning and the optimiser included."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from abw.bench.timing import interleaved
from abw.core.base.errors import AbwError
from abw.core.base.progress import Progress, Quiet, each
from abw.core.spec.load import Overrides
from abw.core.train.checkpoint import Position
from abw.core.train.loop import Loop
from abw.core.train.session import TrainOptions, begin
from abw.core.train.steps import Alone

MODELS = {"sst": "trees/train.txt", "ner": "lattice/train.txt"}
"""Specs that are trained, and their data."""


def bench_steps(
    data: Path,
    hidden: list[int],
    batch: list[int],
    threads: list[int],
    steps: int,
    runs: int,
    specs: Path,
    progress: Progress,
) -> dict[str, Any]:
    """Medians of `runs` rounds by the wall clock, in which all numbers of threads take turns with one.

    A row a model, size and mini-batch: `seconds` a step on one thread, of epochs of so many `steps`; `times`
    how many times as fast each number of threads is, `same` whether its weights are the same bits in the end.
    Errors: AbwError.
    """
    rows = []
    for name, size, count in each(
        [(m, h, b) for m in MODELS for h in hidden for b in batch], progress, "steps"
    ):
        source = data / MODELS[name]
        if not source.is_file():
            raise AbwError(f"the data {source} does not exist", hint="say where the data is: --data DIR")
        work = {n: Epochs(specs / f"{name}.yaml", source, size, count, n, steps) for n in (1, *threads)}
        contenders = {str(n): epochs.run for n, epochs in work.items()}
        interleaved(contenders, 2)
        seconds = interleaved(contenders, runs, time.perf_counter)
        weights = {n: epochs.weights() for n, epochs in work.items()}
        rows.append(
            {
                "model": name,
                "hidden": size,
                "batch": count,
                "seconds": seconds["1"] / steps,
                "times": {str(n): seconds["1"] / seconds[str(n)] for n in threads},
                "same": {str(n): weights[1] == weights[n] for n in threads},
            }
        )
    return {"schema_version": 1, "steps": steps, "runs": runs, "rows": rows}


class Epochs:
    """A training that goes on for an epoch at a time."""

    def __init__(self, spec: Path, data: Path, hidden: int, batch: int, threads: int, steps: int) -> None:
        """Begin it, with data for so many steps an epoch."""
        overrides = Overrides({"hidden": hidden}, data, batch=batch, limit=batch * steps)
        begun = begin(spec, overrides, TrainOptions(threads=threads, epochs=1 << 20))
        self.learner, count = begun.learner, len(begun.instances)
        self._loop = Loop(
            self.learner, Alone(self.learner, begun.instances), count, None, None, {}, Position()
        )

    def run(self) -> None:
        """Go on for an epoch."""
        self._loop.ended = False
        self._loop.run(Quiet(), _end)

    def weights(self) -> bytes:
        """All of them, as they are now."""
        assert self.learner.params.flat is not None
        return self.learner.params.flat.tobytes()


def _end(row: Mapping[str, Any]) -> None:
    raise StopIteration
