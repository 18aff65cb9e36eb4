"""Nanoseconds a node for reading, construction, each policy and planning, on real trees and lattices."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from abw.cli.bench.workloads import case, cpu_seconds, open_case


def bench_graph(specs: Path, data: Path, instances: int, runs: int) -> dict[str, Any]:
    """Thread CPU time, medians; the policy `fsm` is learned (encoding sort) from the first 32 instances."""
    from abw.core.graph.bounds import lower_bound
    from abw.core.learning import TRAIN_LIMIT
    from abw.core.plan.plan import plan
    from abw.core.policy.learner import learn
    from abw.core.policy.registry import POLICIES, get_policy
    from abw.core.workload import open_workload, read_instances

    rows = []
    for name in ("TreeLSTM", "LatticeLSTM"):
        workload = open_case(case(name), specs, data, instances)
        model = workload.model
        graph = workload.graph(0, instances)
        learned = learn(workload.graph(0, TRAIN_LIMIT).dag, encoding="sort", seed=0)
        schedule = learned.schedule(graph.dag)

        def read(model: Any = model) -> object:  # noqa: ANN401
            return read_instances(model.data, instances)

        def build(model: Any = model, workload: Any = workload) -> object:  # noqa: ANN401
            return open_workload(model, workload.instances, "cell").graph(0, instances)

        steps: dict[str, Callable[[], object]] = {
            "read": read,
            "construct": build,
            "lower bound": lambda dag=graph.dag: lower_bound(dag),
            **{p: (lambda p=p, dag=graph.dag: get_policy(p).schedule(dag)) for p in POLICIES},
            "fsm": lambda learned=learned, dag=graph.dag: learned.schedule(dag),
            "plan": lambda graph=graph, schedule=schedule: plan(graph, schedule),
        }
        for step, work in steps.items():
            seconds = cpu_seconds(work, runs)
            rows.append({"workload": name, "nodes": len(graph), "step": step,
                         "ns_per_node": seconds / len(graph) * 1e9})
    return {"schema_version": 1, "instances": instances, "runs": runs, "rows": rows}
