"""From a file's text to outputs on one thread: what all but the kernels takes."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import Any

from abw.bench.workloads import CASES, Case, learned_policy
from abw.core.base.progress import Clock

STEPS = ("read", "construct", "schedule", "plan", "execute", "outputs")


def bench_e2e(
    data: Path, hidden: int, batches: list[int], runs: int, specs: Path = Path("specs")
) -> dict[str, Any]:
    """Medians over `runs` of each step's thread CPU time, one mini-batch on one thread, policies as learned.

    `execute` is the executor's run, `outputs` reading what the model gives back; `outside` is the share of
    all steps but `execute`. Errors: AbwError.
    """
    rows = [_row(chosen, specs, data, hidden, batch, runs) for chosen in CASES for batch in batches]
    return {"schema_version": 1, "hidden": hidden, "runs": runs, "rows": rows}


def _row(chosen: Case, specs: Path, data: Path, hidden: int, batch: int, runs: int) -> dict[str, Any]:
    from abw.core.exec.params import init_params
    from abw.core.exec.registry import get_executor
    from abw.core.run.minibatches import planned
    from abw.core.run.workload import open_model, open_networks, open_workload, read_instances
    from abw.core.spec.load import Overrides

    overrides = Overrides(data=data / chosen.data, batch=batch, limit=batch, dims={"hidden": hidden})
    model = open_model(specs / chosen.spec, overrides)
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
    return {
        "model": chosen.name,
        "batch": batch,
        "nodes": nodes,
        "seconds": seconds,
        "outside": 1 - seconds["execute"] / total,
        "instances_per_second": batch / total,
    }
