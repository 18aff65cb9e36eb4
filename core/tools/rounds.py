"""How a mini-batch grew, and where the time of that goes: what `abw explain` says of models that grow."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from abw.core.base.progress import Clock
from abw.core.exec.interface import Executor
from abw.core.graph.growing.history.history import History
from abw.core.ir.model import Model
from abw.core.policy.rules.critical import Critical
from abw.core.run.growing.grown import Grown
from abw.core.run.minibatches import run_all
from abw.core.run.workload import Workload, open_networks, open_workload, read_instances, usual_executor

# A mini-batch is grown so often for its time, of which the least counts.
TIMES = 3
STEPS = ("construct", "schedule", "plan", "execute")


def rounds_of(found: History, first: int) -> dict[str, Any]:
    """Rounds as they stand in `abw explain --json`; instances are counted from `first`."""
    ends = found.ends
    nodes = np.bincount(found.node_round, minlength=found.rounds + 2)
    came = found.kind[found.round > 0]
    cut = [(int(k), {"instance": int(i) + first, "round": int(r)}) for k, i, r in found.cut]
    return {
        "rounds": found.rounds,
        "instances": len(ends),
        "growing": found.growing.tolist(),
        "nodes": nodes.tolist(),
        "vertices": {name: int((came == k).sum()) for k, name in enumerate(found.kinds) if (came == k).any()},
        "decisions": len(found.decision),
        "longest": [int(i) + first for i in np.flatnonzero(ends == found.rounds)[:8]],
        "cut": [
            {
                "kind": found.kinds[kind],
                "most": int(found.most[kind]),
                "instances": [where for k, where in cut if k == kind],
            }
            for kind in np.unique(found.cut[:, 0]).tolist()
        ],
    }


def growth_seconds(model: Model, first: int, last: int, seed: int = 0) -> dict[str, Any] | None:
    """Time growing instances `first` to `last` (exclusive) on the executor cpu: one thread's CPU time.

    `seconds` by phase, the least of some times; of `execute` so many are in `kernels`, which is measured with
    rounds driven one by one: by plan in `by_plan`, what comes before growth first. `driven`: why Python
    drives the rounds, if it does. None where nothing grows. Errors: DataError, InstanceError; TooLargeError.
    Cost: growing them some times.
    """
    networks = open_networks(model, "cell")
    workload = open_workload(model, read_instances(model.data, last - first, first), networks)
    if workload.growing is None:
        return None
    executor = usual_executor(model, networks, seed)
    grown = _grown(workload, executor)  # compiles what is left to compile
    clocks = [Clock(*STEPS, timer=time.thread_time) for _ in range(TIMES)]
    for clock in clocks:
        _grown(workload, executor, clock)
    seconds = min((clock.seconds for clock in clocks), key=lambda s: sum(s.values()))
    recorder = executor.profiler
    assert recorder is not None
    recorder.record(TIMES * (grown.rounds + 2))
    for _ in range(TIMES):
        _grown(workload, executor)
    taken = [float((run.end - run.start).sum()) for run in recorder.recorded()]
    by_plan = np.reshape(taken, (TIMES, -1)).min(axis=0)
    return {
        "seconds": seconds,
        "kernels": float(by_plan.sum()),
        "by_plan": by_plan.tolist(),
        "driven": grown.driven,
    }


def _grown(workload: Workload, executor: Executor, clock: Clock | None = None) -> Grown:
    batch, _ = next(run_all(workload, Critical(), executor, clock or Clock(*STEPS)))
    assert batch.grown is not None
    return batch.grown
