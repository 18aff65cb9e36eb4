"""Shipped models of graphs and attention end to end, beside PyTorch by hand: same weights, same outputs."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from itertools import cycle, islice
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from abw.bench.options import SPECS, Batch, HiddenSizes, Instances, Runs, SpecsDir, option
from abw.bench.pytorch.install import torch_or_none
from abw.bench.rows import Row, Rows
from abw.bench.timing import rounds
from abw.bench.workloads import STEPS, ready, refuse_different
from abw.core.base.errors import AbwError
from abw.core.base.progress import Clock
from abw.core.run.minibatches import run_all
from abw.core.run.options import PRESETS
from abw.core.run.workload import open_model, open_workload, read_instances
from abw.core.spec.load import Overrides

# How far outputs, of order 1 and in float32, may be apart.
TOLERANCE = 1e-5
# The data of each model, which ships with it.
DATA = {
    "rgcn": "molecules.jsonl",
    "set-transformer": "tags.txt",
    "bidag": "expressions.jsonl",
}


def models(
    specs: SpecsDir = SPECS,
    names: Annotated[str | None, option("For example rgcn,bidag.", "--models", "NAME,...", "all")] = None,
    hidden: HiddenSizes = [64, 256],
    batch: Batch = 64,
    instances: Instances = 256,
    runs: Runs = 15,
) -> Rows:
    """Compare the shipped models of graphs and attention with PyTorch, from instances to outputs.

    CPU time of one thread on the shipped instances, repeated. PyTorch is batched by hand: `computation`
    excludes indices and masks, `all of it` includes them. Factors are medians of interleaved rounds.
    """
    chosen = list(DATA) if names is None else names.split(",")
    for name in chosen:
        if name not in DATA:
            hint = f"one of {', '.join(DATA)}"
            raise AbwError(f"this bench has no model {name!r}", hint=hint, exit_code=2)
        if not (shipped := specs / "data" / DATA[name]).is_file():
            raise AbwError(f"there is no {shipped}", hint="say where the specs are: --specs DIR")
        lines = list(islice(cycle(shipped.read_text(encoding="utf-8").splitlines()), instances))
        for size in hidden:
            yield from _rows(name, lines, specs, size, batch, runs)
    if torch_or_none() is None:
        yield "PyTorch is not installed: nothing to compare with (pip install torch, the build for the CPU)"


def _rows(name: str, lines: list[str], specs: Path, hidden: int, batch: int, runs: int) -> Rows:
    theirs: dict[str, dict[str, Callable[[], NDArray[Any]]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        file, weights = Path(folder) / DATA[name], None
        file.write_text("\n".join(lines) + "\n", encoding="utf-8")
        if torch := torch_or_none():
            from abw.bench.pytorch.gallery import written

            torch.manual_seed(0)
            made = written(name, specs / "data", hidden)
            theirs = {model.way: model.runs(lines, batch) for model in made}
            weights = Path(folder) / "weights.pt"
            torch.save(made[0].state(), weights)
        overrides = Overrides({"hidden": hidden}, file, batch=batch, weights=weights)
        ours = ready(open_model(specs / f"{name}.yaml", overrides), PRESETS["abw"])
        read = read_instances(ours.model.data, None)
    clocks: list[Clock] = []

    def run() -> NDArray[Any]:
        clocks.append(clock := Clock(*STEPS, timer=time.process_time))
        with clock("construct"):
            workload = open_workload(ours.model, read, ours.networks)
        return np.concatenate(
            [
                result.values(made.graph.results[0].reference)
                for made, result in run_all(workload, ours.policy, ours.executor, clock)
            ]
        )

    found = run()
    others = {(way, what): work for way, some in theirs.items() for what, work in some.items()}
    who = f"{name}, hidden {hidden}, PyTorch"
    error = max((refuse_different(work(), found, TOLERANCE, who) for work in others.values()), default=None)
    work: dict[Any, Callable[[], object]] = {"abw": run, **others}
    taken: Any = rounds(work, runs, time.process_time)
    steps = {f"{step}_seconds": median(clock.seconds[step] for clock in clocks[1:]) for step in STEPS}
    rate = len(lines) / median(taken["abw"])
    yield Row("abw", model=name, hidden=hidden, instances_per_second=rate, **steps)
    for way in theirs:
        times = {
            what: median(np.divide(taken[way, what], taken["abw"]).tolist())
            for what in ("over_computation_times", "over_all_of_it_times")
        }
        yield Row(
            "PyTorch by hand", model=name, hidden=hidden, batched_by=way, abw_per_second=rate,
            **times, output_error=error
        )  # fmt: skip
