"""Batching policies side by side on one model's graphs: what `abw compare` says."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from abw.core.errors import AbwError, did_you_mean
from abw.core.graph.bounds import lower_bound
from abw.core.graph.dag import Dag
from abw.core.graph.group import Groups, group_types
from abw.core.graph.network import Granularity
from abw.core.learning import TRAIN_LIMIT, TRIALS, Choice, train
from abw.core.policy.cost import Cost, cost_of, least_cost
from abw.core.policy.costfile import read_cost
from abw.core.policy.fsm import FsmPolicy
from abw.core.policy.registry import COSTED, LEARNED, POLICIES, Policy, get_policy
from abw.core.policy.schedule import Schedule
from abw.core.policy.states import ENCODINGS
from abw.core.progress import Progress, Quiet
from abw.core.spec.load import Overrides
from abw.core.spec.model import Model
from abw.core.workload import Workload, open_model, open_networks, open_workload, read_instances

LEARNED_WITH: dict[str, Choice] = {
    f"{LEARNED}-best": "best",
    **{f"{LEARNED}-{encoding}": encoding for encoding in ENCODINGS},
}
"""The names of learned policies that say their encoding; `best` tries several."""

COMPARABLE = (*POLICIES, *LEARNED_WITH)

MOST_BATCHES = 16
"""So many mini-batches of each size are looked at, at most; more than that are spread over the data."""


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """What to compare: what `abw compare`'s flags say.

    `encoding` is that of the policy `fsm`; a name as `fsm-base` says its own. With `seeds` > 1 all is done
    for so many seeds of learning and of the data's coin. The policies are learned from the file's first
    `train_limit` instances and applied to those behind the first `skip`. `sizes`: mini-batches of these many
    instances, beside the usual comparison. `cost`: a file of costs (see `abw.core.policy.costfile`), which
    the policies of `COSTED` then minimise, and by which the best learned policy is chosen.
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
    sizes: tuple[int, ...] = ()
    cost: Path | None = None


@dataclass(frozen=True, slots=True)
class Graphs:
    """A workload's dags, after passes (see `abw.core.graph.fuse`, `group`), and what batches of them cost."""

    workload: Workload
    fuse: bool = False
    groups: Groups | None = None
    costs: Cost | None = None

    @property
    def cost(self) -> Cost | None:
        """That of the types there are; `costs` has it for those, too, that fusing takes away."""
        fusion = self.workload.networks.fusion
        if self.costs is None or fusion is None or not self.fuse:
            return self.costs
        left = ~fusion.gone
        return Cost(self.costs.launch[left], self.costs.row[left], self.costs.tile[left])

    def dag(self, first: int, last: int) -> Dag:
        """That of instances `first` to `last` (exclusive). Errors: SpecError."""
        dag = (self.workload.graph if self.fuse else self.workload.unfused)(first, last).dag
        return self.groups.apply(dag) if self.groups else dag

    def windows(self) -> list[Dag]:
        """The dags of all mini-batches."""
        return [self.dag(*window) for window in self.workload.windows()]


@dataclass(frozen=True, slots=True)
class Trained:
    """A policy with the CPU seconds that learning it took: None where nothing is learned."""

    policy: Policy
    seconds: float | None = None


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
        raise AbwError(
            "a cost is that of a type: groups of types have none",
            hint="leave --group or --cost out",
            exit_code=2,
        )
    model = open_model(spec, overrides)
    passes = [name for name, on in (("fuse", options.fuse), ("group", options.group)) if on]
    first = overrides.seed or 0
    seeds = range(first, first + options.seeds)
    rows: list[dict[str, Any]] = []
    plain: list[dict[str, Any]] = []
    by_size: list[list[dict[str, Any]]] = []
    for seed in seeds:
        tested, training = _open(spec, overrides, options, seed)
        trained = train_all(training, options.policies, options, seed, progress)
        progress.phase("schedule", len(options.policies))
        rows.append(_measured(tested, trained, progress))
        if passes:
            bare, seen = (replace(g, fuse=False, groups=None) for g in (training, tested))
            policies = train_all(bare, options.policies, options, seed, progress)
            plain.append(_counted(seen.windows(), policies, seen.cost))
        if options.sizes:
            progress.phase("batch sizes", len(options.sizes))
            by_size.append(sizes_of(tested, trained, options.sizes, progress))
    instances = len(tested.workload.instances)
    return {
        "schema_version": 1,
        "model": model.name,
        "spec": str(model.files[0]),
        "data": str(model.data.path),
        "granularity": options.granularity,
        "passes": passes,
        "cost": str(options.cost) if options.cost else None,
        "skip": options.skip,
        "instances": instances,
        "batch": model.data.batch,
        "train_limit": len(training.workload.instances),
        "instances_trained_on": max(0, min(len(training.workload.instances) - options.skip, instances)),
        "seeds": list(seeds),
        **_mean_of(rows),
        "training": rows[0]["training"],
        "without_passes": _mean_of(plain) if passes else None,
        "batch_sizes": [_mean_of(list(same)) for same in zip(*by_size, strict=True)],
    }


def require(policies: Iterable[str]) -> None:
    """Raise AbwError for a policy that is not known."""
    for name in policies:
        if name not in COMPARABLE:
            raise AbwError(f"no policy is called '{name}'", hint=did_you_mean(name, COMPARABLE))


def _open(spec: Path, overrides: Overrides, options: CompareOptions, seed: int) -> tuple[Graphs, Graphs]:
    """What the policies are applied to, and what they are learned from."""
    # one seed: the coin stays the spec's unless another was asked for
    model = open_model(spec, overrides if options.seeds == 1 else replace(overrides, seed=seed))
    networks = open_networks(model, options.granularity, fuse=options.fuse)
    types = tuple(t.name for t in networks.unfused.types)
    costs = read_cost(options.cost, types) if options.cost else None

    def opened(model: Model, limit: int | None, skip: int) -> Graphs:
        workload = open_workload(model, read_instances(model.data, limit, skip), networks)
        groups = group_types(networks.network) if options.group else None
        return Graphs(workload, options.fuse, groups, costs)

    return opened(model, model.data.limit, options.skip), opened(model, options.train_limit, 0)


def train_all(
    training: Graphs,
    names: Sequence[str],
    options: CompareOptions,
    seed: int,
    progress: Progress,
) -> dict[str, Trained]:
    """Each policy by its name; the learned ones are learned from all of `training`."""
    found = {}
    for name in names:
        encoding = LEARNED_WITH.get(name, options.encoding)
        if name != LEARNED and name not in LEARNED_WITH:
            wanted = {"cost": training.cost} if training.cost and name in COSTED else {}
            found[name] = Trained(get_policy(name, **wanted))
            continue
        used = len(training.workload.instances)
        train(training.dag, min(used, 2), encoding, seed, trials=1)  # compiles
        progress.phase(f"learn {name} (seed {seed})", options.trials)
        start = time.thread_time()
        policy = train(
            training.dag,
            used,
            encoding,
            seed,
            trials=options.trials,
            cost=training.cost,
            progress=progress.reached,
        )
        found[name] = Trained(policy, time.thread_time() - start)
    return found


def _measured(tested: Graphs, trained: dict[str, Trained], progress: Progress) -> dict[str, Any]:
    """What the policies reach and take on the mini-batches, and what they learned."""
    dags = tested.windows()
    row = _counted(dags, trained, tested.cost)
    learned = {n: t.policy for n, t in trained.items() if isinstance(t.policy, FsmPolicy)}
    for number, entry in enumerate(row["policies"]):
        name = entry["policy"]
        policy = trained[name].policy
        entry["ns_per_node"] = 1e9 * sum(cpu_seconds(policy, dag) for dag in dags) / row["nodes"]
        entry["states"] = len(learned[name].states) if name in learned else None
        entry["train_seconds"] = trained[name].seconds
        progress.reached(number + 1)
    lesson = next((policy.training for policy in learned.values()), None)
    row["training"] = lesson and {
        "nodes": lesson.nodes,
        "lower_bound": lesson.lower_bound,
        "curves": {name: [list(p) for p in policy.training.curve] for name, policy in learned.items()},
    }
    return row


def _counted(dags: list[Dag], trained: dict[str, Trained], cost: Cost | None) -> dict[str, Any]:
    """Nodes, bounds, and each policy's batches and cost: sums over mini-batches."""
    least = sum(least_cost(dag, cost) for dag in dags) if cost else None
    bound = sum(int(lower_bound(dag).sum()) for dag in dags)
    policies = []
    for name, found in trained.items():
        schedules: list[Schedule] = [found.policy.schedule(dag) for dag in dags]
        batches = sum(len(s) for s in schedules)
        policies.append(
            {
                "policy": name,
                "batches": batches,
                "ratio": batches / bound if bound else None,
                "cost": sum(cost_of(s, cost) for s in schedules) if cost else None,
                "unseen_states": sum(s.unseen for s in schedules),
            }
        )
    nodes = sum(len(dag) for dag in dags)
    return {
        "mini_batches": len(dags),
        "nodes": nodes,
        "lower_bound": bound,
        "least_cost": least,
        "policies": policies,
    }


def sizes_of(
    tested: Graphs, trained: dict[str, Trained], sizes: Sequence[int], progress: Progress
) -> list[dict[str, Any]]:
    """For each size what `_counted` says of mini-batches of that many instances: at most 16, all full.

    Errors: AbwError for a size larger than the number of instances.
    """
    count, rows = len(tested.workload.instances), []
    for size in sizes:
        if size > count:
            raise AbwError(
                f"a mini-batch of {size} instances cannot be made of {count}",
                hint="give smaller sizes (--batches), or more data (--limit)",
            )
        every = range(0, count - size + 1, size)
        many = min(len(every), MOST_BATCHES)
        starts = [every[k * len(every) // many] for k in range(many)]  # from all parts of the data
        dags = [tested.dag(first, first + size) for first in starts]
        rows.append({"batch": size, **_counted(dags, trained, tested.cost)})
        progress.reached(len(rows))
    return rows


def cpu_seconds(policy: Policy, dag: Dag) -> float:
    """The median CPU time of up to five schedules, by this thread; one only where it takes long."""
    taken: list[float] = []
    while len(taken) < 5 and sum(taken) < 0.1:
        start = time.thread_time()
        policy.schedule(dag)
        taken.append(time.thread_time() - start)
    return median(taken)


def _mean_of(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over the seeds of what `_counted` and `_measured` say; of one seed its numbers as they are."""
    policies = []
    for same in zip(*(row["policies"] for row in rows), strict=True):
        ratios = [entry["ratio"] for entry in same if entry["ratio"] is not None]
        entry = {key: _mean([e[key] for e in same]) for key in same[0] if key not in ("policy", "ratio")}
        bounds = sum(row["lower_bound"] for row in rows)
        policies.append(
            {
                "policy": same[0]["policy"],
                "batches": entry.pop("batches"),
                "ratio": sum(e["batches"] for e in same) / bounds if bounds else None,
                **entry,
                "worst_ratio": max(ratios, default=None),
                "batches_by_seed": [e["batches"] for e in same],
            }
        )
    head = {key: _mean([row[key] for row in rows]) for key in ("nodes", "lower_bound", "least_cost")}
    size: dict[str, Any] = {key: rows[0][key] for key in ("batch", "mini_batches") if key in rows[0]}
    return {**size, **head, "policies": policies}


def _mean(values: list[Any]) -> Any:  # noqa: ANN401
    """The mean; a whole one as an integer, None where there are no numbers."""
    if any(v is None for v in values):
        return None
    mean = sum(values) / len(values)
    return int(mean) if all(isinstance(v, int) for v in values) and mean == int(mean) else mean
