"""Nanoseconds a node for reading, construction, each policy and planning, on real trees and lattices."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from abw.bench.timing import cpu_seconds
from abw.bench.workloads import case, open_case

if TYPE_CHECKING:
    from abw.core.run.workload import Workload


TIMED = (
    "depth", "agenda", "agenda-static", "sufficient", "critical", "critical-free", "share", "share-free",
    "weight", "weight-free", "critical-reversed", "beam",
)  # fmt: skip


def bench_graph(specs: Path, data: Path, instances: int, runs: int) -> dict[str, Any]:
    """Thread CPU time, medians; the policy `fsm` is learned (encoding sort) from the first 32 instances."""
    from abw.core.graph.bounds import lower_bound
    from abw.core.plan.plan import plan
    from abw.core.policy.foreign import checked
    from abw.core.policy.learned.learner import learn
    from abw.core.policy.registry import LEARNED, get_policy
    from abw.core.run.learning import TRAIN_LIMIT
    from abw.core.run.workload import read_instances

    rows = []
    for name in ("TreeLSTM", "LatticeLSTM"):
        workload = open_case(case(name), specs, data, instances)
        model = workload.model
        graph = workload.graph(0, instances)
        learned = learn(workload.graph(0, TRAIN_LIMIT).dag, encoding="sort", seed=0)
        schedule = learned.schedule(graph.dag)

        steps: dict[str, Callable[[], object]] = {
            "read": partial(read_instances, model.data, instances),
            "construct": partial(_build, workload, instances),
            "lower bound": partial(lower_bound, graph.dag),
            **{p: partial(get_policy(p).schedule, graph.dag) for p in TIMED},
            LEARNED: partial(learned.schedule, graph.dag),
            "check one's own": partial(checked, schedule, graph.dag, LEARNED),
            "plan": partial(plan, graph, schedule),
        }
        for step, work in steps.items():
            seconds = cpu_seconds(work, runs)
            rows.append(
                {
                    "workload": name,
                    "nodes": len(graph),
                    "step": step,
                    "ns_per_node": seconds / len(graph) * 1e9,
                }
            )
    return {"schema_version": 1, "instances": instances, "runs": runs, "rows": rows}


def _build(workload: Workload, instances: int) -> object:
    """Bind and construct, as for a run."""
    from abw.core.run.workload import Networks, open_workload

    networks = Networks(workload.network, workload.binding.program, None)
    return open_workload(workload.model, workload.instances, networks).graph(0, instances)
