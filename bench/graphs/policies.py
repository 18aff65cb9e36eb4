"""Batches of every policy: on the paper's workloads, with learning times, and on unseen graphs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Annotated, Literal

from abw.bench.graphs.families import families
from abw.bench.options import (
    SPECS,
    Batch,
    DataDir,
    Families,
    MiniBatches,
    Runs,
    SpecsDir,
    Workloads,
    numeric,
    option,
)
from abw.bench.rows import Row, Rows
from abw.bench.timing import interleaved
from abw.bench.workloads import Case, chosen_cases, open_case
from abw.core.base.errors import AbwError
from abw.core.graph.bounds import lower_bound
from abw.core.graph.dag import Dag
from abw.core.policy.learned.choice import SINGLE, ChosenPolicy
from abw.core.policy.learned.fsm import FsmPolicy
from abw.core.policy.learned.learner import learn
from abw.core.policy.learned.states import ENCODINGS, Encoding
from abw.core.policy.registry import get_policy
from abw.core.policy.schedule import Policy
from abw.core.run.learning import Asked, choose_from
from abw.core.run.workload import Workload
from abw.core.tools.compare import cpu_seconds

RULES = (
    *("depth", "agenda", "sufficient", "critical", "critical-free", "share", "share-free", "weight-free"),
    *("linear", "repair"),
)
GranularityName = Literal["cell", "op"]
RATIOS = "batches over the fewest known"
TIMES = "scheduling and launches over the least"
# Microseconds of a launch for which that is compared.
PRICES = (0.2, 1.5, 20.0)
# The most nodes of a mini-batch that is searched.
SEARCHED = 100_000
# Seconds of Table 4 of the paper, and trials.
PAPER = {
    "TreeLSTM": (0.154, 50),
    "TreeGRU": (0.141, 50),
    "MV-RNN": (0.254, 50),
    "TreeLSTM-2Type": (2.217, 1000),
    "BiLSTM-Tagger": (1.629, 50),
    "BiLSTM-Tagger-withchar": (6.268, 50),
    "LatticeLSTM": (21.733, 1000),
    "LatticeGRU": (4.911, 1000),
}


def policies(
    data: DataDir,
    specs: SpecsDir = SPECS,
    batch: Batch = 64,
    train: Annotated[int, numeric("Instances to learn from.", "--train-limit", "N")] = 32,
    granularity: Annotated[GranularityName, option("Whether a node is a cell or an operation.")] = "cell",
    runs: Runs = 3,
    synthetic: Annotated[
        bool, option("Use families of graphs with 3 to 300 types instead.", "--families")
    ] = False,
    unseen: Annotated[bool, option("Use unseen data instead.", "--unseen")] = False,
    workloads: Workloads = None,
    mini_batches: MiniBatches = 4,
    launch: Annotated[float, option("With these two: cost of a batch in microseconds.", "", "US")] = 20.0,
    named: Families = None,
) -> Rows:
    """Count batches by policy and time learning, for all workloads of the paper.

    Means over the first mini-batches. FSMs are learned from the first instances, in CPU time, and not at
    granularity op. For families and unseen data: batches relative to the fewest that any policy found, with
    `auto` chosen by time and by batches alone; and the time of `auto` relative to the quickest rule, for
    several costs of a launch.
    """
    unknown = Unseen(batch, launch * 1e-6, mini_batches)
    if synthetic:
        yield from compared(unknown.families(named))
        return
    cases = chosen_cases(workloads)
    if unseen:
        yield from compared(unknown.workload(c, specs, data, granularity) for c in cases)
        return
    for chosen in cases:
        workload = open_case(chosen, specs, data, max(mini_batches * batch, train), granularity)
        firsts = range(0, mini_batches * batch, batch)
        dags = [workload.graph(first, first + batch).dag for first in firsts]
        found: dict[str, Policy] = {name: get_policy(name) for name in RULES}
        if granularity == "cell":
            found |= {f"fsm-{e}": _learned(workload, train, e) for e in ENCODINGS}
        yield Row(
            "batches",
            workload=chosen.name,
            nodes=sum(map(len, dags)) / len(dags),
            bound=_bound(dags) / len(dags),
            **{name: _batches(policy, dags) / len(dags) for name, policy in found.items()},
        )
        for encoding in ENCODINGS if granularity == "cell" else ():
            yield _learning(chosen, workload, train, encoding, runs)


def _batches(policy: Policy, dags: Iterable[Dag]) -> int:
    return sum(len(policy.schedule(dag)) for dag in dags)


def _bound(dags: Iterable[Dag]) -> int:
    return sum(int(lower_bound(dag).sum()) for dag in dags)


def _learning(chosen: Case, workload: Workload, train: int, encoding: Encoding, runs: int) -> Row:
    """Time learning from the first `train` instances, and count its batches."""
    dag = workload.graph(0, train).dag
    policy = _learned(workload, train, encoding)
    seconds, trials = PAPER.get(chosen.name, (None, None))
    return Row(
        "learning",
        workload=chosen.name,
        encoding=encoding,
        nodes=len(dag),
        bound=_bound([dag]),
        batches=policy.training.batches,
        trials=policy.training.trials,
        states=len(policy.states),
        learning_seconds=interleaved({"": partial(_learned, workload, train, encoding)}, runs)[""],
        paper_seconds=seconds,
        paper_trials=trials,
    )


def _learned(workload: Workload, train: int, encoding: Encoding) -> FsmPolicy:
    return learn(workload.graph(0, train).dag, encoding=encoding, seed=0)


@dataclass(frozen=True, slots=True)
class Compared:
    """Batches and nanoseconds a node by policy, and what `auto` chose, by launch cost.

    `times`: by launch cost, what `auto` takes for scheduling and launches over the least of all single rules.
    """

    name: str
    types: int
    nodes: int
    bound: int
    batches: dict[str, int]
    ns: dict[str, float]
    chosen: dict[str, tuple[ChosenPolicy, float]]
    times: dict[str, float]

    @property
    def ratios(self) -> dict[str, float]:
        """Batches over the fewest."""
        best = min(self.batches.values())
        return {name: batches / best for name, batches in self.batches.items()}


@dataclass(frozen=True, slots=True)
class Unseen:
    """Mini-batches of instances that nothing was learned from; a batch takes `launch` seconds."""

    batch: int
    launch: float
    mini_batches: int

    def families(self, named: str | None) -> Iterator[Compared]:
        """Compare the policies on the families whose names contain a text."""
        used = Asked(batch=self.batch).instances
        for family in families(used + self.mini_batches * self.batch, 0):
            if named is None or named in family.name:
                yield self._compared(family.name, family.dag, used)

    def workload(self, chosen: Case, specs: Path, data: Path, granularity: str) -> Compared:
        """Compare the policies on a workload."""
        wanted = self.mini_batches * self.batch
        limit = Asked(batch=self.batch).instances + wanted
        workload = open_case(chosen, specs, data, limit, granularity)
        used = len(workload.instances) - wanted
        if used < 1:
            many = len(workload.instances)
            raise AbwError(f"{chosen.name} has {many} instances, too few for the mini-batches asked")
        return self._compared(chosen.name, lambda first, last: workload.graph(first, last).dag, used)

    def _compared(self, name: str, dag: Callable[[int, int], Dag], used: int) -> Compared:
        """Batches and times of all policies behind the first `used` instances, on which `auto` is chosen."""
        tests = [dag(used + k * self.batch, used + (k + 1) * self.batch) for k in range(self.mini_batches)]
        autos: dict[str, tuple[ChosenPolicy, float]] = {}
        for auto, launch in (("auto", self.launch), ("auto, batches alone", float("inf"))):
            begun = time.thread_time()
            chosen = choose_from(dag, used, Asked(batch=self.batch, launch=launch))
            autos[auto] = chosen, time.thread_time() - begun
        found: dict[str, Policy] = {rule: get_policy(rule) for rule in RULES}
        found |= {auto: policy for auto, (policy, _) in autos.items()}
        if max(map(len, tests)) <= SEARCHED:
            found["search"] = get_policy("search")
        nodes = sum(map(len, tests))
        batches = {policy: _batches(by, tests) for policy, by in found.items()}
        ns = {policy: 1e9 * min(cpu_seconds(by, tests)) / nodes for policy, by in found.items()}
        times = self._times(dag, used, tests)
        return Compared(name, len(tests[0].types), nodes, _bound(tests), batches, ns, autos, times)

    def _times(self, dag: Callable[[int, int], Dag], used: int, tests: Sequence[Dag]) -> dict[str, float]:
        """What `auto` takes over the quickest single rule, by the cost of a launch."""
        rules = {rule: get_policy(rule) for rule in SINGLE}
        known = {rule: (_batches(by, tests), min(cpu_seconds(by, tests))) for rule, by in rules.items()}
        found = {}
        for price in PRICES:
            chosen = choose_from(dag, used, Asked(batch=self.batch, launch=price * 1e-6))
            alone = chosen.picked.name
            mine = known.get(alone) or (_batches(chosen, tests), min(cpu_seconds(chosen, tests)))
            taken = {batches * price * 1e-6 + seconds for batches, seconds in (*known.values(), mine)}
            found[f"{price:g} us"] = (mine[0] * price * 1e-6 + mine[1]) / min(taken)
        return found


def compared(every: Iterable[Compared]) -> Rows:
    """A row for each, then over all of them; what was chosen."""
    done: list[Compared] = []
    for one in every:
        done.append(one)
        known = {
            "types": one.types,
            "nodes": one.nodes,
            "bound": one.bound,
            "best": min(one.batches.values()),
        }
        yield Row(RATIOS, family=one.name, **known, **one.ratios)
        yield Row(TIMES, family=one.name, **one.times)
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
    names = dict.fromkeys(name for one in done for name in one.batches)
    ratios = {n: [one.ratios[n] for one in done if n in one.batches] for n in names}
    means = {n: math.exp(sum(map(math.log, r)) / len(r)) for n, r in ratios.items()}
    yield Row(RATIOS, family="geometric mean", **means)
    yield Row(RATIOS, family="worst", **{n: max(r) for n, r in ratios.items()})
    yield Row(
        TIMES, family="worst", **{price: max(one.times[price] for one in done) for price in done[0].times}
    )
    ns = {n: median(one.ns[n] for one in done if n in one.ns) for n in names}
    yield Row(RATIOS, family="ns a node", **ns)
