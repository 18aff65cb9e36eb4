"""Batches of every policy on graphs that nothing was learned from, against the best known."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from abw.bench.graphs.families import Family, families
from abw.bench.rows import Row, Rows
from abw.bench.workloads import Case, open_case
from abw.core.base.errors import AbwError
from abw.core.graph.dag import Dag

if TYPE_CHECKING:
    from abw.core.policy.learned.choice import ChosenPolicy
    from abw.core.policy.schedule import Policy

RULES = ("depth", "agenda", "sufficient", "critical", "critical-free", "weight-free", "share-free", "share")
# Instances that an FSM is made from, and mini-batches that candidates are judged on, as in a run.
TRAINED, HELD = 32, 4
RATIOS = "batches over the fewest known"
# The most nodes of a mini-batch that is searched.
SEARCHED = 100_000


def of_families(data: Path, batch: int, launch: float, mini_batches: int, named: str | None) -> Rows:
    """Each policy's batches on mini-batches of families of graphs, few types and many.

    `auto` is chosen where a batch takes `launch` seconds besides its rows, `auto, batches alone` where only
    the number of batches counts. Ratios are to the fewest that anything found. CPU time of this thread.
    """
    many = TRAINED + (HELD + mini_batches) * batch
    chosen = [f for f in families(data, many, 0) if named is None or named in f.name]
    yield from _compared(_of_family(f, batch, launch, mini_batches) for f in chosen)


def _of_family(family: Family, batch: int, launch: float, mini_batches: int) -> Compared:
    from abw.core.policy.learned.choice import choose

    first = TRAINED
    lessons = [family.dag(0, first), family.dag(0, first // 2), family.dag(first // 2, first)]
    dags = [family.dag(first + k * batch, first + (k + 1) * batch) for k in range(HELD + mini_batches)]
    return _measure(
        family.name, lambda launch: choose(lessons, dags[:HELD], launch=launch), dags[HELD:], launch
    )


def of_unseen(
    specs: Path,
    data: Path,
    cases: Sequence[Case],
    granularity: str,
    batch: int,
    launch: float,
    mini_batches: int,
) -> Rows:
    """As `of_families`, on the paper's workloads behind the instances that `auto` was chosen on."""
    yield from _compared(
        _of_workload(specs, data, chosen, granularity, batch, launch, mini_batches) for chosen in cases
    )


def _of_workload(
    specs: Path, data: Path, case: Case, granularity: str, batch: int, launch: float, mini_batches: int
) -> Compared:
    from abw.core.run.learning import Asked, choose_from

    asked = Asked(batch=batch, launch=launch)
    workload = open_case(case, specs, data, asked.instances + mini_batches * batch, granularity)
    used = len(workload.instances) - mini_batches * batch
    if used < 1:
        raise AbwError(
            f"{case.name} has {len(workload.instances)} instances, too few for the mini-batches asked"
        )

    def dag(first: int, last: int) -> Dag:
        return workload.graph(first, last).dag

    def chosen(launch: float) -> ChosenPolicy:
        return choose_from(dag, used, replace(asked, launch=launch))

    begins = range(used, used + mini_batches * batch, batch)
    return _measure(case.name, chosen, [dag(begin, begin + batch) for begin in begins], launch)


@dataclass(frozen=True, slots=True)
class Compared:
    """One family: batches and nanoseconds a node by policy, and what `auto` chose, by launch cost."""

    name: str
    types: int
    nodes: int
    bound: int
    batches: dict[str, int]
    ns: dict[str, float]
    chosen: dict[str, tuple[ChosenPolicy, float]]

    @property
    def ratios(self) -> dict[str, float]:
        """Batches over the fewest."""
        best = min(self.batches.values())
        return {name: batches / best for name, batches in self.batches.items()}


def _compared(every: Iterable[Compared]) -> Rows:
    """A row a family, then over all of them; what was chosen."""
    done: list[Compared] = []
    for one in every:
        done.append(one)
        best = min(one.batches.values())
        yield Row(
            RATIOS,
            family=one.name,
            types=one.types,
            nodes=one.nodes,
            bound=one.bound,
            best=best,
            **one.ratios,
        )
        for name, (policy, seconds) in one.chosen.items():
            yield Row(
                "chosen",
                family=one.name,
                policy=name,
                picked=policy.picked.name,
                learning_seconds=seconds,
                states=max((t.states or 0 for t in policy.tried), default=0),
                file_bytes=len(policy.to_json().encode()),
            )
    names = list(dict.fromkeys(name for one in done for name in one.batches))
    ratios = {n: [one.ratios[n] for one in done if n in one.batches] for n in names}
    yield Row(
        RATIOS,
        family="geometric mean",
        **{n: math.exp(sum(map(math.log, r)) / len(r)) for n, r in ratios.items()},
    )
    yield Row(RATIOS, family="worst", **{n: max(r) for n, r in ratios.items()})
    yield Row(
        RATIOS, family="ns a node", **{n: median(one.ns[n] for one in done if n in one.ns) for n in names}
    )


def _measure(
    name: str, chosen: Callable[[float], ChosenPolicy], tests: Sequence[Dag], launch: float
) -> Compared:
    """Batches and times of all policies on the mini-batches; `chosen` is given what a batch takes."""
    from abw.core.graph.bounds import lower_bound
    from abw.core.policy.registry import get_policy

    autos = {"auto": _timed(chosen, launch), "auto, batches alone": _timed(chosen, float("inf"))}
    policies: dict[str, Policy] = {rule: get_policy(rule) for rule in RULES}
    policies |= {auto: policy for auto, (policy, _) in autos.items()}
    if max(map(len, tests)) <= SEARCHED:
        policies["search"] = get_policy("search")
    taken = {policy: _measured(found, tests) for policy, found in policies.items()}
    return Compared(
        name,
        len(tests[0].types),
        sum(map(len, tests)),
        sum(int(lower_bound(d).sum()) for d in tests),
        {policy: batches for policy, (batches, _) in taken.items()},
        {policy: ns for policy, (_, ns) in taken.items()},
        autos,
    )


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
