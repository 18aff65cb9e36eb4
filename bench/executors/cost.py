"""Costs that are predicted beside those that are measured, for schedules of several policies."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import Any

PLAIN = ("depth", "agenda", "critical", "search")
WARMING = 2


def bench_cost(spec: Path, executor: str, hidden: int, batch: int | None, runs: int) -> dict[str, Any]:
    """Measure what launches and rows cost on one mini-batch, then run it by several schedules, in turns.

    `rows`: a policy (with `cost` those that minimise it), its batches, the seconds that the cost predicts and
    the median measured: CPU time of one thread, less that of a run without batches. `types`: the costs.
    Errors: SpecError, DataError, AbwError.
    """
    import numpy as np

    from abw.core.exec.params import init_params
    from abw.core.exec.registry import get_executor
    from abw.core.plan.plan import plan
    from abw.core.policy.cost import Cost, cost_of
    from abw.core.policy.registry import COSTED, get_policy
    from abw.core.run.measure import measure, section
    from abw.core.run.workload import load_workload, open_model
    from abw.core.spec.load import Overrides

    model = open_model(spec, Overrides(dims={"hidden": hidden}, batch=batch))
    workload = load_workload(model, "cell")
    chosen = get_executor(executor)
    chosen.prepare(workload.network, init_params(workload.network, 0), 1)
    graph = workload.graph(*next(workload.windows()))
    measured = measure(graph, chosen, clock=time.thread_time)
    costs = np.array([(m.launch, m.row) for m in measured])
    cost = Cost(costs[:, 0], costs[:, 1], np.ones(len(measured), np.int32))
    policies = {(name, False): get_policy(name) for name in PLAIN}
    policies |= {(name, True): get_policy(name, cost=cost) for name in COSTED}
    schedules = {key: policy.schedule(graph.dag) for key, policy in policies.items()}
    plans = {key: plan(graph, schedule) for key, schedule in schedules.items()}
    nothing = section(plans["search", False], 0, 0)
    taken: dict[tuple[str, bool], list[float]] = {key: [] for key in plans}
    for _ in range(runs):
        for key, planned in plans.items():
            for _ in range(WARMING):
                chosen.run(planned)
            times = [time.thread_time()]
            for each in (planned, nothing):
                chosen.run(each)
                times.append(time.thread_time())
            taken[key].append(times[1] - times[0] - (times[2] - times[1]))
    return {
        "schema_version": 1,
        "model": model.name,
        "executor": executor,
        "hidden": hidden,
        "runs": runs,
        "types": [{"type": m.type, "launch": m.launch, "row": m.row, "error": m.error} for m in measured],
        "rows": [
            {
                "policy": name,
                "cost": with_cost,
                "batches": len(schedules[name, with_cost]),
                "predicted": cost_of(schedules[name, with_cost], cost),
                "measured": median(seconds),
            }
            for (name, with_cost), seconds in taken.items()
        ],
    }
