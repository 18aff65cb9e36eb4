"""The report of `abw compare`: batching policies side by side on one model's graphs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from abw.core.base.errors import AbwError
from abw.core.base.files import refuse_overwrite
from abw.core.base.progress import Progress, Quiet
from abw.core.graph.bounds import lower_bound
from abw.core.graph.dag import Dag
from abw.core.graph.equal.consing import DedupMode
from abw.core.graph.group import Groups, group_types
from abw.core.ir.model import Model
from abw.core.ir.network import Granularity
from abw.core.policy.cost import Cost, cost_of, least_cost
from abw.core.policy.costfile import read_cost
from abw.core.policy.learned.choice import ChosenPolicy
from abw.core.policy.learned.fsm import FsmPolicy
from abw.core.policy.learned.states import ENCODINGS
from abw.core.policy.registry import CHOSEN, COSTED, LEARNED, NAMES, REVERSED, get_policy, require_name
from abw.core.policy.schedule import Policy
from abw.core.policy.search.search import Search
from abw.core.policy.tightbounds import tight_bound
from abw.core.run.learning import TRAIN_LIMIT, TRIALS, Asked, Choice, choose_from, named_policy, train
from abw.core.run.workload import (
    Workload,
    grows_at_random,
    open_model,
    open_networks,
    open_workload,
    read_instances,
    whole,
)
from abw.core.spec.load import Overrides
from abw.core.tools.opened import report_head

# The names of learned policies that say their encoding; `best` tries several.
LEARNED_WITH: dict[str, Choice] = {
    f"{LEARNED}-best": "best",
    **{f"{LEARNED}-{encoding}": encoding for encoding in ENCODINGS},
}

COMPARABLE = (*NAMES, *LEARNED_WITH)

# So many mini-batches of each size are looked at, at most; more than that are spread over the data.
MOST_BATCHES = 16


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """Options of `abw compare`.

    `encoding` is that of the policy `fsm`; a name as `fsm-base` says its own. With `seeds` > 1 all is done
    for so many seeds of learning, of weights not given and of the data's coin. The policies are learned from
    the file's first `train_limit` instances and applied to those behind the first `skip`. `sizes`:
    mini-batches of these many instances, beside the usual comparison. `cost`: a file of costs (see
    `abw.core.policy.costfile`), which the policies of `COSTED` then minimise, and by which the best learned
    policy is chosen. `tight`: the bounds of pairs of instances and groups of types, too. `plot`: the file
    that the report will be drawn to, which is refused before any work where it is one of those read.
    """

    policies: tuple[str, ...]
    encoding: Choice = "best"
    granularity: Granularity = "cell"
    seeds: int = 1
    train_limit: int = TRAIN_LIMIT
    trials: int = TRIALS
    skip: int = 0
    fuse: bool = False
    group: bool = False
    dedup: DedupMode = "auto"
    sizes: tuple[int, ...] = ()
    cost: Path | None = None
    plot: Path | None = None
    tight: bool = False


@dataclass(frozen=True, slots=True)
class Graphs:
    """A workload's dags, after passes (see `abw.core.graph.fuse`, `group`), and what batches of them cost."""

    workload: Workload
    fuse: bool = False
    groups: Groups | None = None
    costs: Cost | None = None

    @property
    def cost(self) -> Cost | None:
        """The cost of the types there are; `costs` also has that of those that fusing takes away."""
        fusion = self.workload.networks.fusion
        if self.costs is None or fusion is None or not self.fuse:
            return self.costs
        left = ~fusion.gone
        return Cost(self.costs.launch[left], self.costs.row[left], self.costs.tile[left])

    def dag(self, first: int, last: int) -> Dag:
        """The dag of instances `first` to `last` (exclusive). Errors: SpecError."""
        dag = (self.workload.graph if self.fuse else self.workload.distinct)(first, last).dag
        return self.groups.apply(dag) if self.groups else dag

    def windows(self) -> list[Dag]:
        """The dags of all mini-batches."""
        return [self.dag(*window) for window in self.workload.windows()]


# Policies by name, with the CPU seconds that learning took: None where nothing is learned.
Timed = dict[str, tuple[Policy, float | None]]


def compare(
    spec: Path, overrides: Overrides, options: CompareOptions, progress: Progress | None = None
) -> dict[str, Any]:
    """Learn, schedule and count; returns the document of `abw compare --json`.

    Batches, nodes and bounds are sums over the mini-batches, and means over the seeds. Errors: SpecError,
    DataError, AbwError.
    """
    progress = progress or Quiet()
    require(options.policies)
    if options.cost and options.group:
        message = "a cost is that of a type: groups of types have none"
        raise AbwError(message, hint="leave --group or --cost out", exit_code=2)
    model = open_model(spec, overrides)
    if options.plot:
        refuse_overwrite(options.plot, options.cost, *model.reads)
    passes = [name for name, on in (("fuse", options.fuse), ("group", options.group)) if on]
    first = overrides.seed or 0
    seeds = range(first, first + options.seeds)
    rows: list[dict[str, Any]] = []
    plain: list[dict[str, Any]] = []
    by_size: list[list[dict[str, Any]]] = []
    for seed in seeds:
        tested, training = _open(spec, overrides, options, seed)
        trained = train_all(training, options.policies, options, seed, progress)
        rows.append(_measured(tested, trained, options.tight, progress))
        if passes:
            bare, seen = (replace(g, fuse=False, groups=None) for g in (training, tested))
            policies = train_all(bare, options.policies, options, seed, progress)
            plain.append(_counted(seen.windows(), policies, seen.cost))
        if options.sizes:
            progress.phase("batch sizes", len(options.sizes))
            by_size.append(sizes_of(tested, trained, options.sizes, progress))
    instances = len(tested.workload.instances)
    return {
        **report_head(model),
        "granularity": options.granularity,
        "passes": passes,
        "cost": str(options.cost) if options.cost else None,
        "skip": options.skip,
        "instances": instances,
        "batch": model.data.batch,
        "train_limit": len(training.workload.instances),
        "instances_trained_on": max(0, min(len(training.workload.instances) - options.skip, instances)),
        "seeds": list(seeds),
        "random_weights": grows_at_random(model),
        **_mean_of(rows),
        "training": rows[0]["training"],
        "without_passes": _mean_of(plain) if passes else None,
        "batch_sizes": [_mean_of(list(same)) for same in zip(*by_size, strict=True)],
    }


def require(policies: Iterable[str]) -> None:
    """Raise AbwError for a policy that is not known."""
    for name in policies:
        if not name.endswith(".json"):
            require_name(name, COMPARABLE)


def _open(spec: Path, overrides: Overrides, options: CompareOptions, seed: int) -> tuple[Graphs, Graphs]:
    """Open the graphs that policies are applied to, and those that they are learned from."""
    # one seed: the coin stays the spec's unless another was asked for
    model = open_model(spec, overrides if options.seeds == 1 else replace(overrides, seed=seed))
    networks = open_networks(
        model, options.granularity, fuse=options.fuse, finished=True, dedup=options.dedup
    )
    types = tuple(t.name for t in networks.unfused.types)
    costs = read_cost(options.cost, types) if options.cost else None

    def opened(model: Model, limit: int | None, skip: int) -> Graphs:
        workload = whole(open_workload(model, read_instances(model.data, limit, skip), networks), seed=seed)
        groups = group_types(networks.network) if options.group else None
        return Graphs(workload, options.fuse, groups, costs)

    return opened(model, model.data.limit, options.skip), opened(model, _lessons(model, options), 0)


def _lessons(model: Model, options: CompareOptions) -> int:
    """How many instances policies are learned or chosen from."""
    if CHOSEN not in options.policies:
        return options.train_limit
    return max(options.train_limit, Asked(CHOSEN, batch=model.data.batch).instances)


def train_all(
    training: Graphs,
    names: Sequence[str],
    options: CompareOptions,
    seed: int,
    progress: Progress,
) -> Timed:
    """Make each policy; the learned ones are learned from all of `training`."""
    trained: Timed = {}
    used = len(training.workload.instances)
    for name in names:
        encoding = LEARNED_WITH.get(name, options.encoding)
        if name == CHOSEN:
            progress.phase(f"choose {name} (seed {seed})")
            start = time.thread_time()
            asked = Asked(name, seed=seed, batch=training.workload.model.data.batch, launch=float("inf"))
            picked = choose_from(training.dag, used, asked, cost=training.cost)
            trained[name] = picked, time.thread_time() - start
        elif name == LEARNED or name in LEARNED_WITH:
            first, dag, cost = min(used, options.train_limit), training.dag, training.cost
            train(dag, min(first, 2), encoding, seed, trials=1)  # compiles
            progress.phase(f"learn {name} (seed {seed})", options.trials)
            start = time.thread_time()
            tell = progress.reached
            policy = train(dag, first, encoding, seed, trials=options.trials, cost=cost, progress=tell)
            trained[name] = policy, time.thread_time() - start
        elif training.cost and name.removesuffix(REVERSED) in COSTED:
            trained[name] = get_policy(name, cost=training.cost), None
        else:
            trained[name] = named_policy(name, training.dag(0, 1).types), None
    return trained


def _measured(tested: Graphs, trained: Timed, tight: bool, progress: Progress) -> dict[str, Any]:
    """Measure the batches and time of policies on the mini-batches, and describe what was learned."""
    dags = tested.windows()
    progress.phase("schedule", 2 * len(trained))
    row = _counted(dags, trained, tested.cost, tight, progress.reached)
    learned = {n: policy for n, (policy, _) in trained.items() if isinstance(policy, FsmPolicy)}
    for number, entry in enumerate(row["policies"]):
        name = entry["policy"]
        policy, seconds = trained[name]
        entry["ns_per_node"] = 1e9 * sum(median(cpu_seconds(policy, [dag])) for dag in dags) / row["nodes"]
        entry["states"] = len(learned[name].states) if name in learned else None
        entry["picked"] = policy.picked.name if isinstance(policy, ChosenPolicy) else None
        entry["train_seconds"] = seconds
        progress.reached(len(trained) + number + 1)
    lesson = next((policy.training for policy in learned.values()), None)
    row["training"] = lesson and {
        "nodes": lesson.nodes,
        "lower_bound": lesson.lower_bound,
        "curves": {name: [list(p) for p in policy.training.curve] for name, policy in learned.items()},
    }
    return row


def _counted(
    dags: list[Dag],
    trained: Timed,
    cost: Cost | None,
    tight: bool = False,
    tell: Callable[[int], None] = lambda _: None,
) -> dict[str, Any]:
    """Nodes, bounds, and each policy's batches and cost: sums over mini-batches. `tell` hears of policies."""
    least = sum(least_cost(dag, cost) for dag in dags) if cost else None
    bound = sum(int(lower_bound(dag).sum()) for dag in dags)
    policies = []
    for name, (policy, _) in trained.items():
        proven = None
        if isinstance(policy, Search):
            searched = [policy.find(dag) for dag in dags]
            schedules = [f.schedule for f in searched]
            proven = sum(f.at_least for f in searched)
        else:
            schedules = [policy.schedule(dag) for dag in dags]
        batches = sum(len(s) for s in schedules)
        policies.append(
            {
                "policy": name,
                "batches": batches,
                "ratio": batches / bound if bound else None,
                "cost": sum(cost_of(s, cost) for s in schedules) if cost else None,
                "at_least": proven,
                "unseen_states": sum(s.unseen for s in schedules),
            }
        )
        tell(len(policies))
    nodes = sum(len(dag) for dag in dags)
    return {
        "mini_batches": len(dags),
        "nodes": nodes,
        "lower_bound": bound,
        "tight_bound": sum(map(tight_bound, dags)) if tight else None,
        "least_cost": least,
        "policies": policies,
    }


def sizes_of(
    tested: Graphs, trained: Timed, sizes: Sequence[int], progress: Progress
) -> list[dict[str, Any]]:
    """Count, as `_counted`, mini-batches of each size in instances: at most 16 of a size, all full.

    Errors: AbwError for a size larger than the number of instances.
    """
    count, rows = len(tested.workload.instances), []
    for size in sizes:
        if size > count:
            message = f"a mini-batch of {size} instances cannot be made of {count}"
            raise AbwError(message, hint="give smaller sizes (--batches), or more data (--limit)")
        every = range(0, count - size + 1, size)
        many = min(len(every), MOST_BATCHES)
        starts = [every[k * len(every) // many] for k in range(many)]  # from all parts of the data
        dags = [tested.dag(first, first + size) for first in starts]
        rows.append({"batch": size, **_counted(dags, trained, tested.cost)})
        progress.reached(len(rows))
    return rows


def cpu_seconds(policy: Policy, dags: Iterable[Dag]) -> list[float]:
    """The CPU times of up to five schedules of dags, by this thread; of one only where it takes long."""
    taken: list[float] = []
    while len(taken) < 5 and sum(taken) < 0.1:
        start = time.thread_time()
        for dag in dags:
            policy.schedule(dag)
        taken.append(time.thread_time() - start)
    return taken


def _mean_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over the seeds of what `_counted` and `_measured` say; of one seed its numbers as they are."""
    policies, bounds = [], sum(row["lower_bound"] for row in rows)
    for same in zip(*(row["policies"] for row in rows), strict=True):
        numbers = same[0].keys() - {"policy", "picked", "ratio"}
        policies.append(
            {
                **same[0],
                **{key: _mean([entry[key] for entry in same]) for key in same[0] if key in numbers},
                "ratio": sum(entry["batches"] for entry in same) / bounds if bounds else None,
                "worst_ratio": max((e["ratio"] for e in same if e["ratio"] is not None), default=None),
                "batches_by_seed": [entry["batches"] for entry in same],
            }
        )
    sums = ("nodes", "lower_bound", "tight_bound", "least_cost")
    head = {key: _mean([row[key] for row in rows]) for key in sums}
    size: dict[str, Any] = {key: rows[0][key] for key in ("batch", "mini_batches") if key in rows[0]}
    return {**size, **head, "policies": policies}


def _mean(values: list[Any]) -> Any:  # noqa: ANN401
    """The mean; a whole one as an integer, None where there are no numbers."""
    if any(v is None for v in values):
        return None
    mean = sum(values) / len(values)
    return int(mean) if all(isinstance(v, int) for v in values) and mean == int(mean) else mean
