"""Learning time and batches of every workload, beside the paper's Table 4."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from abw.bench.timing import cpu_seconds
from abw.bench.workloads import CASES, open_case
from abw.core.base.progress import Progress, each

HEURISTICS = ("depth", "agenda", "agenda-static", "sufficient", "critical", "critical-free")

PAPER = {
    # Table 4 of the paper: seconds, trials
    "TreeLSTM": (0.154, 50),
    "TreeGRU": (0.141, 50),
    "MV-RNN": (0.254, 50),
    "TreeLSTM-2Type": (2.217, 1000),
    "BiLSTM-Tagger": (1.629, 50),
    "BiLSTM-Tagger-withchar": (6.268, 50),
    "LatticeLSTM": (21.733, 1000),
    "LatticeGRU": (4.911, 1000),
}


def bench_policies(
    specs: Path, data: Path, batch: int, train: int, granularity: str, runs: int, progress: Progress
) -> dict[str, Any]:
    """Batches by policy, means over four mini-batches from the first instance on, and learning time.

    The FSMs are learned from the first `train` instances; their time is this thread's CPU time. At
    granularity `op` none is learned: the states of its dozens of types are too many.
    """
    from abw.core.graph.bounds import lower_bound
    from abw.core.policy.learned.learner import learn
    from abw.core.policy.learned.states import ENCODINGS
    from abw.core.policy.registry import get_policy

    rows: list[dict[str, Any]] = []
    for chosen in each(CASES, progress, "policies"):
        workload = open_case(chosen, specs, data, max(4 * batch, train), granularity)
        graphs = [workload.graph(first, first + batch).dag for first in range(0, 4 * batch, batch)]
        batches = {name: sum(len(get_policy(name).schedule(g)) for g in graphs) / 4 for name in HEURISTICS}
        learning = {}
        training = workload.graph(0, train).dag
        for encoding in ENCODINGS if granularity == "cell" else ():
            policy = learn(training, encoding=encoding, seed=0)
            schedules = [policy.schedule(g) for g in graphs]
            batches[f"fsm-{encoding}"] = sum(len(s) for s in schedules) / 4
            learning[encoding] = {
                "seconds": cpu_seconds(partial(learn, training, encoding=encoding, seed=0), runs),
                "trials": policy.training.trials,
                "states": len(policy.states),
                "batches": policy.training.batches,
                "unseen_states": sum(s.unseen for s in schedules),
            }
        rows.append(
            {
                "workload": chosen.name,
                "nodes": sum(len(g) for g in graphs) / 4,
                "lower_bound": sum(int(lower_bound(g).sum()) for g in graphs) / 4,
                "batches": batches,
                "training_nodes": len(training),
                "training_lower_bound": int(lower_bound(training).sum()),
                "learning": learning,
                "paper": PAPER.get(chosen.name),
            }
        )
    return {"schema_version": 1, "batch": batch, "train": train, "granularity": granularity, "rows": rows}
