"""From a file's text to outputs on one thread: what all but the kernels takes."""

from __future__ import annotations

import time
from itertools import product
from statistics import median

from abw.bench.options import SPECS, BatchSizes, DataDir, Hidden, Runs, SpecsDir
from abw.bench.rows import Row, Rows
from abw.bench.workloads import CASES, model_of, outputs_of, ready
from abw.core.base.progress import Clock
from abw.core.run.options import PRESETS
from abw.core.run.workload import open_workload, read_instances

STEPS = ("read", "construct", "schedule", "plan", "execute", "outputs")


def e2e(
    data: DataDir,
    specs: SpecsDir = SPECS,
    hidden: Hidden = 128,
    batch: BatchSizes = [64, 256],
    runs: Runs = 9,
) -> Rows:
    """Time each step from text to outputs, on one thread and one mini-batch."""
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
        yield Row(
            "",
            model=chosen.name,
            batch=instances,
            nodes=nodes,
            **{f"{step}_seconds": taken for step, taken in seconds.items()},
            outside_share=1 - seconds["execute"] / total,
            instances_per_second=instances / total,
        )
