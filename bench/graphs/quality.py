"""Batches of every policy on families of graphs, few types and many, against the best known."""

from __future__ import annotations

import math
import time
from pathlib import Path
from statistics import median
from typing import Any

from abw.bench.graphs.families import Family, families
from abw.core.base.progress import Progress
from abw.core.graph.dag import Dag
from abw.core.policy.registry import Policy

RULES = ("depth", "agenda", "sufficient", "critical", "critical-free", "weight-free", "share-free", "share")
TRAINED = 32
"""Instances that an FSM is made from."""


def bench_families(
    data: Path, batch: int, launch: float, named: str | None, progress: Progress
) -> dict[str, Any]:
    """Each policy's batches on one mini-batch of instances that nothing was learned from.

    `auto` is chosen where a batch takes `launch` seconds besides its rows, `auto, any launch` where only the
    number of batches counts. `best` is the fewest that anything found. Of the times the median is told.
    """
    many = TRAINED + 3 * batch
    chosen = [f for f in families(data, many, 0) if named is None or named in f.name]
    progress.phase("families", len(chosen))
    rows = []
    for family in chosen:
        rows.append(_row(family, batch, launch))
        progress.reached(len(rows))
    names = list(rows[0]["batches"]) if rows else []
    ratios = {name: [r["batches"][name] / r["best"] for r in rows if r["batches"][name]] for name in names}
    means = {n: math.exp(sum(map(math.log, found)) / len(found)) for n, found in ratios.items() if found}
    worst = {n: max(found) for n, found in ratios.items() if found}
    typical = {name: median(r["ns_per_node"][name] for r in rows) for name in names}
    return {
        "schema_version": 1, "batch": batch, "launch": launch, "rows": rows,
        "geometric_mean": means, "worst": worst, "ns_per_node": typical,
    }  # fmt: skip


def _row(family: Family, batch: int, launch: float) -> dict[str, Any]:
    from abw.core.graph.bounds import lower_bound
    from abw.core.policy.learned.choice import choose
    from abw.core.policy.registry import get_policy

    first = TRAINED
    lessons = [family.dag(0, first), family.dag(0, first // 2), family.dag(first // 2, first)]
    held = [family.dag(first, first + batch), family.dag(first + batch, first + 2 * batch)]
    test = family.dag(first + 2 * batch, first + 3 * batch)
    policies: dict[str, Policy] = {name: get_policy(name) for name in RULES}
    auto = choose(lessons, held, launch=launch)
    policies["auto"] = auto
    policies["auto, any launch"] = every = choose(lessons, held)
    policies["search"] = get_policy("search")
    batches, nanoseconds = {}, {}
    for name, policy in policies.items():
        batches[name], nanoseconds[name] = _measured(policy, test)
    refused = [t.refused for t in every.tried if t.refused]
    return {
        "family": family.name, "types": len(family.types), "nodes": len(test),
        "lower_bound": int(lower_bound(test).sum()), "best": min(batches.values()),
        "batches": batches, "ns_per_node": nanoseconds, "picked": auto.picked.name,
        "picked_any_launch": every.picked.name,
        "learning": auto.seconds, "learning_any_launch": every.seconds,
        "states": max((t.states or 0 for t in every.tried), default=0), "refused": refused,
        "file_bytes": len(every.to_json().encode()),
    }  # fmt: skip


def _measured(policy: Policy, dag: Dag) -> tuple[int, float]:
    """Batches, and the least thread CPU nanoseconds a node of a few runs."""
    batches = len(policy.schedule(dag))
    taken: list[float] = []
    while len(taken) < 5 and sum(taken) < 0.1:
        begun = time.thread_time()
        policy.schedule(dag)
        taken.append(time.thread_time() - begun)
    return batches, 1e9 * min(taken) / len(dag)
