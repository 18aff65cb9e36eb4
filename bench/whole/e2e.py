"""From a file's text to outputs on one thread: what all but the kernels takes."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median

from abw.bench.options import SPECS, BatchSizes, DataDir, Hidden, Runs, SpecsDir
from abw.bench.rows import Row, Rows
from abw.bench.workloads import CASES, Case, files_of, learned_policy
from abw.core.base.progress import Clock

STEPS = ("read", "construct", "schedule", "plan", "execute", "outputs")


def e2e(
    data: DataDir,
    specs: SpecsDir = SPECS,
    hidden: Hidden = 128,
    batch: BatchSizes = [64, 256],
    runs: Runs = 9,
) -> Rows:
    """Time each step from text to outputs, on one thread and one mini-batch."""
    for chosen in CASES:
        for instances in batch:
            yield _row(chosen, specs, data, hidden, instances, runs)


def _row(chosen: Case, specs: Path, data: Path, hidden: int, batch: int, runs: int) -> Row:
    from abw.core.exec.params import init_params
    from abw.core.exec.registry import get_executor
    from abw.core.run.minibatches import planned
    from abw.core.run.workload import open_model, open_networks, open_workload, read_instances
    from abw.core.spec.load import Overrides

    spec, source = files_of(chosen, specs, data)
    model = open_model(spec, Overrides(data=source, batch=batch, limit=batch, dims={"hidden": hidden}))
    networks = open_networks(model, "cell")
    policy = learned_policy(model, networks, name="auto")
    executor = get_executor("cpu")
    executor.prepare(networks.network, init_params(networks.network, 0), 1)
    clocks = []
    nodes = 0
    for _ in range(runs + 1):
        step = Clock(*STEPS, timer=time.thread_time)
        with step("read"):
            instances = read_instances(model.data, batch)
        with step("construct"):
            workload = open_workload(model, instances, networks)
        made = planned(workload, policy, executor, 0, len(instances), step)
        with step("execute"):
            result = executor.run(made.plan)
        with step("outputs"):
            for refs in made.graph.results:
                result.values(refs.reference)
        clocks.append(step)
        nodes = len(made.graph)
    seconds = {name: median(clock.seconds[name] for clock in clocks[1:]) for name in STEPS}
    total = sum(seconds.values())
    return Row(
        "",
        model=chosen.name,
        batch=batch,
        nodes=nodes,
        **{f"{step}_seconds": taken for step, taken in seconds.items()},
        outside_share=1 - seconds["execute"] / total,
        instances_per_second=batch / total,
    )
