"""Batches of every policy on graphs that nothing was learned from, against the best known."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from abw.bench.graphs.families import Family, families
from abw.bench.workloads import case, open_case
from abw.core.base.errors import AbwError
from abw.core.base.progress import Progress, each
from abw.core.graph.dag import Dag

if TYPE_CHECKING:
    from abw.core.policy.learned.choice import ChosenPolicy
    from abw.core.policy.schedule import Policy

RULES = ("depth", "agenda", "sufficient", "critical", "critical-free", "weight-free", "share-free", "share")
TRAINED, HELD = 32, 4
"""Instances that an FSM is made from, and mini-batches that candidates are judged on, as in a run."""
SEARCHED = 100_000
"""The most nodes of a mini-batch that is searched."""


def bench_families(
    data: Path, batch: int, launch: float, mini_batches: int, named: str | None, progress: Progress
) -> dict[str, Any]:
    """Each policy's batches on mini-batches of families of graphs, few types and many.

    `auto` is chosen where a batch takes `launch` seconds besides its rows, `auto, any launch` where only the
    number of batches counts. `best` is the fewest that anything found. Times are CPU time of this thread,
    those a node medians of the families.
    """
    many = TRAINED + (HELD + mini_batches) * batch
    chosen = [f for f in families(data, many, 0) if named is None or named in f.name]
    rows = [_of_family(f, batch, launch, mini_batches) for f in each(chosen, progress, "families")]
    return _report(rows, batch, launch, mini_batches)


def _of_family(family: Family, batch: int, launch: float, mini_batches: int) -> dict[str, Any]:
    from abw.core.policy.learned.choice import choose

    first = TRAINED
    lessons = [family.dag(0, first), family.dag(0, first // 2), family.dag(first // 2, first)]
    dags = [family.dag(first + k * batch, first + (k + 1) * batch) for k in range(HELD + mini_batches)]
    return _row(family.name, lambda launch: choose(lessons, dags[:HELD], launch=launch), dags[HELD:], launch)


def bench_unseen(
    specs: Path,
    data: Path,
    workloads: Sequence[str],
    granularity: str,
    batch: int,
    launch: float,
    mini_batches: int,
    progress: Progress,
) -> dict[str, Any]:
    """The same of the paper's workloads: on mini-batches behind the instances that `auto` was chosen on."""
    rows = [
        _of_workload(specs, data, name, granularity, batch, launch, mini_batches)
        for name in each(workloads, progress, "workloads")
    ]
    return _report(rows, batch, launch, mini_batches) | {"granularity": granularity}


def _of_workload(
    specs: Path, data: Path, name: str, granularity: str, batch: int, launch: float, mini_batches: int
) -> dict[str, Any]:
    from abw.core.run.learning import Asked, choose_from

    asked = Asked(batch=batch, launch=launch)
    workload = open_case(case(name), specs, data, asked.instances + mini_batches * batch, granularity)
    used = len(workload.instances) - mini_batches * batch
    if used < 1:
        raise AbwError(f"{name} has {len(workload.instances)} instances, too few for the mini-batches asked")

    def dag(first: int, last: int) -> Dag:
        return workload.graph(first, last).dag

    def chosen(launch: float) -> ChosenPolicy:
        return choose_from(dag, used, replace(asked, launch=launch))

    begins = range(used, used + mini_batches * batch, batch)
    return _row(name, chosen, [dag(begin, begin + batch) for begin in begins], launch)


def _report(rows: list[dict[str, Any]], batch: int, launch: float, mini_batches: int) -> dict[str, Any]:
    names = list(dict.fromkeys(name for r in rows for name in r["batches"]))
    ratios = {n: [r["batches"][n] / r["best"] for r in rows if n in r["batches"]] for n in names}
    return {
        "schema_version": 1, "batch": batch, "mini_batches": mini_batches, "launch": launch, "rows": rows,
        "geometric_mean": {n: math.exp(sum(map(math.log, r)) / len(r)) for n, r in ratios.items()},
        "worst": {n: max(r) for n, r in ratios.items()},
        "ns_per_node": {n: median(r["ns_per_node"][n] for r in rows if n in r["batches"]) for n in names},
    }  # fmt: skip


def _row(
    name: str, chosen: Callable[[float], ChosenPolicy], tests: Sequence[Dag], launch: float
) -> dict[str, Any]:
    """Batches and times of all policies on the mini-batches; `chosen` is told what a batch takes."""
    from abw.core.graph.bounds import lower_bound
    from abw.core.policy.registry import get_policy

    policies: dict[str, Policy] = {name: get_policy(name) for name in RULES}
    auto, learning = _timed(chosen, launch)
    every, learning_any = _timed(chosen, float("inf"))
    policies |= {"auto": auto, "auto, any launch": every}
    if max(map(len, tests)) <= SEARCHED:
        policies["search"] = get_policy("search")
    taken = {name: _measured(policy, tests) for name, policy in policies.items()}
    batches = {name: found for name, (found, _) in taken.items()}
    return {
        "family": name, "types": len(tests[0].types), "nodes": sum(map(len, tests)),
        "lower_bound": sum(int(lower_bound(d).sum()) for d in tests), "best": min(batches.values()),
        "batches": batches, "ns_per_node": {name: ns for name, (_, ns) in taken.items()},
        "picked": auto.picked.name, "picked_any_launch": every.picked.name,
        "learning": learning, "learning_any_launch": learning_any,
        "states": max((t.states or 0 for t in every.tried), default=0),
        "refused": [t.refused for t in every.tried if t.refused],
        "file_bytes": len(every.to_json().encode()),
    }  # fmt: skip


def _timed(chosen: Callable[[float], ChosenPolicy], launch: float) -> tuple[ChosenPolicy, float]:
    """What was chosen, and the thread CPU seconds that it took."""
    begun = time.thread_time()
    return chosen(launch), time.thread_time() - begun


def _measured(policy: Policy, dags: Sequence[Dag]) -> tuple[int, float]:
    """Batches, and the least thread CPU nanoseconds a node of a few runs."""
    batches = sum(len(policy.schedule(dag)) for dag in dags)
    taken: list[float] = []
    while len(taken) < 5 and sum(taken) < 0.1:
        begun = time.thread_time()
        for dag in dags:
            policy.schedule(dag)
        taken.append(time.thread_time() - begun)
    return batches, 1e9 * min(taken) / sum(map(len, dags))
