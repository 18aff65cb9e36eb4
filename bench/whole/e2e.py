"""From a file's text to outputs on one thread: what all but the kernels takes."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from itertools import islice, product
from statistics import median

from abw.bench.options import SPECS, BatchSizes, DataDir, Hidden, Runs, SpecsDir
from abw.bench.rows import Row, Rows
from abw.bench.timing import interleaved
from abw.bench.workloads import CASES, Ready, model_of, outputs_of, ready
from abw.core.base.progress import Clock
from abw.core.ir.model import Model
from abw.core.run.onepass.onepass import Passes
from abw.core.run.options import PRESETS
from abw.core.run.workload import open_workload, read_instances
from abw.core.store.outputs import outputs_of as outputs_of_model

STEPS = ("read", "construct", "schedule", "plan", "execute", "outputs")


def e2e(
    data: DataDir,
    specs: SpecsDir = SPECS,
    hidden: Hidden = 128,
    batch: BatchSizes = [64, 256],
    runs: Runs = 9,
) -> Rows:
    """Time each step from text to outputs, on one thread and one mini-batch.

    `pass` is the time of the same work by one compiled pass, `pass_outside` its share outside the kernels;
    both are missing where a pass cannot run the mini-batch.
    """
    for chosen, instances in product(CASES, batch):
        ours = ready(model_of(chosen, specs, data, hidden, instances), PRESETS["abw"])
        clocks, nodes = [], 0
        for _ in range(runs + 1):
            step = Clock(*STEPS, timer=time.thread_time)
            with step("read"):
                found = read_instances(ours.model.data, instances)
            with step("construct"):
                workload = open_workload(ours.model, found, ours.networks)
            made = ours.planned(workload, 0, len(found), step)
            with step("execute"):
                result = ours.executor.run(made.plan)
            with step("outputs"):
                outputs_of(result, made.graph)
            clocks.append(step)
            nodes = len(made.graph)
        seconds = {name: median(clock.seconds[name] for clock in clocks[1:]) for name in STEPS}
        total = sum(seconds.values())
        passed, kernels = _passed(ours, instances, runs)
        yield Row(
            "",
            model=chosen.name,
            batch=instances,
            nodes=nodes,
            **{f"{step}_seconds": taken for step, taken in seconds.items()},
            outside_share=1 - seconds["execute"] / total,
            pass_seconds=passed,
            pass_outside_share=None if passed is None else 1 - kernels / passed,
            instances_per_second=instances / total,
        )


def _passed(ours: Ready, instances: int, runs: int) -> tuple[float | None, float]:
    """The seconds of one pass, and of its kernels; None where there is no pass."""
    networks = replace(ours.networks, equal=None)  # all nodes are computed, as by the steps
    made = Passes(ours.model, networks, ours.executor, outputs_of_model(ours.model)).make(ours.policy)
    texts = texts_of(ours.model, instances)
    if made is None or not made.reading or made.objects(texts) is None:
        return None, 0.0
    taken = interleaved({"pass": partial(made.objects, texts), "kernels": made.kernels}, runs, warming=1)
    return taken["pass"], taken["kernels"]


def texts_of(model: Model, instances: int) -> list[str]:
    """The texts of a file's first instances."""
    with model.data.path.open(encoding="utf-8") as file:
        lines = (line.rstrip("\n") for line in file if line.strip())
        if model.data.format != "lattice":
            return list(islice(lines, instances))
        next(lines)
        lengths = islice(lines, instances)
        return ["\n".join([length, *islice(lines, int(length) + 1)]) for length in lengths]
