"""Learned policies of workloads: learning or choosing one, keeping it, finding it again."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from abw.core.base.errors import AbwError
from abw.core.base.files import file_digest, home, refuse_overwrite, write_text
from abw.core.base.progress import Progress
from abw.core.graph.dag import Dag
from abw.core.ir.network import Network
from abw.core.ir.schema import ARRAYS
from abw.core.policy.cost import Cost
from abw.core.policy.learned.choice import CANDIDATES, ChosenPolicy
from abw.core.policy.learned.fsm import FsmPolicy
from abw.core.policy.learned.learner import BEST_OF, learn, learn_best
from abw.core.policy.learned.policyfile import read_any
from abw.core.policy.learned.states import Encoding
from abw.core.policy.learned.trying import choose
from abw.core.policy.registry import CHOSEN, LEARNED, get_policy
from abw.core.policy.schedule import Policy
from abw.core.run.workload import Networks, Workload
from abw.core.store.folders import require_writable

# How many instances a policy is learned from unless told otherwise (the paper's number, section 2.3).
TRAIN_LIMIT = 32

# An encoding, or the one that does best in training.
Choice = Encoding | Literal["best"]

# What a state of a learned policy is, in one line.
SUMMARIES: dict[Choice, str] = {
    "best": "the one of base, sort and critical with the fewest batches in training; the default",
    "base": "the types on the frontier",
    "max": "the types on the frontier, and the one with the most ready nodes",
    "sort": "the types ordered by their number of ready nodes (the paper's best)",
    "critical": "the types on the frontier, and the type at the head of the longest remaining path",
}

# How many trials learning takes at most (section 5.3).
TRIALS = 1000


# So many nodes at most a policy is made from and judged on: choosing one stays below 2 s and 20 MB.
LESSON_NODES, HELD_NODES = 10_000, 50_000


# The policy of data by whose first instances none can be chosen: they have no nodes.
RULE = "critical"


class NoNodesError(AbwError):
    """Instances by which no policy can be learned or chosen."""

    def __init__(self, used: int) -> None:
        super().__init__(
            f"the first {used} instances have no nodes to learn a policy from",
            hint=f"name a rule: --policy {RULE}",
        )


class Launch(NamedTuple):
    """What a batch costs besides its rows: seconds, and for each operation more; bytes read in a second.

    `phase`: the seconds of batches that read nothing of each other, where these are executed at once.
    """

    batch: float
    operation: float
    reading: float
    phase: float = 0.0


# By executor; none where batches do not matter.
#
# Fitted to launches of each type of two workloads (hidden 32 to 512; the mean error is 31 % for cpu, 15 % for
# blas); cuda's are an estimate between its two schemes: a launch a batch, a barrier a phase.
LAUNCH: Mapping[str, Launch] = {
    "cpu": Launch(0.046e-6, 0.0, 350e9),
    "blas": Launch(3.4e-6, 0.76e-6, 83e9),
    "cuda": Launch(1.25e-6, 0.0, 2e12, 2.75e-6),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """Which policy is asked for: by its name, or a `.json` file.

    `encoding` is that of `fsm`. `auto` is chosen for mini-batches of `batch` instances where a batch takes
    `launch` seconds besides its rows, and a phase `phase`. With a `limit`, it is to be learned from so many
    instances.
    """

    name: str = CHOSEN
    encoding: Choice = "best"
    seed: int = 0
    batch: int = 64
    launch: float = 0.0
    limit: int | None = None
    phase: float = 0.0

    @property
    def learned(self) -> bool:
        """Whether it is no rule."""
        return self.name in (LEARNED, CHOSEN) or self.name.endswith(".json")

    @property
    def kind(self) -> str:
        """What distinguishes its file from others for the same model."""
        return f"{CHOSEN}-batch{self.batch}" if self.name == CHOSEN else self.encoding

    @property
    def instances(self) -> int:
        """How many instances it is learned from, where there are so many."""
        practice = min(max(2 * TRAIN_LIMIT, 2 * self.batch), 8 * TRAIN_LIMIT) if self.name == CHOSEN else 0
        return self.limit or self.judged + practice

    @property
    def judged(self) -> int:
        """How many of them are for FSMs and for judging candidates; from the rest weights are learned."""
        held = min(max(8 * TRAIN_LIMIT, 4 * self.batch), 16 * TRAIN_LIMIT) if self.name == CHOSEN else 0
        return self.limit or TRAIN_LIMIT + held

    def on(self, network: Network, executor: str) -> Asked:
        """The same where batches cost what they do on an executor, the mean of the network's types."""
        if executor not in LAUNCH:
            return self
        cost, many = LAUNCH[executor], max(1, len(network.types))
        operations = sum(len(t.cell.ops) if t.cell else 1 for t in network.types) / many
        read = [4 * math.prod(network.params[p].shape) for t in network.types for p in t.params]
        launch = cost.batch + operations * cost.operation + sum(read) / many / cost.reading
        return replace(self, launch=launch if network.types else 0.0, phase=cost.phase)


@dataclass(frozen=True, slots=True)
class Learned:
    """A learned or chosen policy with the file it lies in; `fresh` says that it was learned just now.

    `data` says what it was learned from: `path`, `sha256` and how many `instances` of it.
    """

    policy: FsmPolicy | ChosenPolicy
    path: Path
    data: Mapping[str, Any]
    fresh: bool

    @property
    def name(self) -> str:
        """That of its kind: `fsm` or `auto`."""
        return CHOSEN if isinstance(self.policy, ChosenPolicy) else LEARNED

    @property
    def behind(self) -> str:
        """What says which batch goes next: an encoding, or the name of what was picked."""
        return self.policy.picked.name if isinstance(self.policy, ChosenPolicy) else self.policy.encoding

    def trained_on(self, data: Path, instances: int) -> int | None:
        """From how many of the first `instances` of a file the policy was learned; None where it was another
        file, which may have the same instances.
        """
        if self.data.get("sha256") != file_digest(data):
            return None
        return min(int(self.data["instances"]), instances)

    def document(self) -> dict[str, Any]:
        """What a run's report says of it."""
        if isinstance(self.policy, ChosenPolicy):
            picked, held = self.policy.picked, self.policy.held
            known: dict[str, Any] = {"trials": None, "batches": picked.batches, "lower_bound": held.least}
            known |= {"states": picked.states, "tried": len(self.policy.tried)}
        else:
            training = self.policy.training
            known = {"trials": training.trials, "batches": training.batches}
            known |= {"lower_bound": training.lower_bound, "states": len(self.policy.states), "tried": None}
        learned_from = {"data": self.data.get("path"), "instances": self.data.get("instances")}
        return {"path": str(self.path), "fresh": self.fresh, **learned_from, **known}


def _policy_path(networks: Networks, kind: str, seed: int) -> Path:
    """Where the policy of a kind and a seed lies, whether or not it is there yet.

    Its name has a hash of the types that it knows and of what may flow between them; no sizes, no weights.
    """
    network, groups = networks.network, networks.groups
    described: list[str] = [network.granularity]
    for t in network.types:
        links = [[network.types[p].name for p, _ in s.producers] for s in t.slots]
        described.append(f"{t.name} {t.reduction} {links}")
    if groups:
        described.append(f"groups {groups.names}")
    digest = hashlib.sha256("\n".join(described).encode()).hexdigest()[:12]
    return home() / "policies" / f"{network.name}-{network.granularity}-{kind}-seed{seed}-{digest}.json"


def read_policy(path: Path, types: tuple[str, ...], asked: Asked | None = None) -> Learned:
    """A policy's file. Errors: AbwError where it is missing, damaged, or of types of other names."""
    policy, data = read_any(path)
    policy.require(types)
    if isinstance(policy, ChosenPolicy):
        policy = policy.launching(asked.launch, asked.phase) if asked else policy.launching(0.0)
    return Learned(policy, path, data, fresh=False)


def named_policy(name: str, types: tuple[str, ...]) -> Policy:
    """A policy that needs no learning: a rule, one of your own, one in a `.json` file. Errors: AbwError."""
    return read_policy(Path(name), types).policy if name.endswith(".json") else get_policy(name)


def kept_policy(networks: Networks, asked: Asked) -> Learned | None:
    """The policy asked for, if it is a learned one that lies on disk. Errors: AbwError.

    With a `limit`, one by its name only if it was learned from so many instances; a chosen one only if all
    was tried that may pay.
    """
    if asked.name.endswith(".json"):
        return read_policy(Path(asked.name), networks.types, asked)
    if not asked.learned or not (path := _policy_path(networks, asked.kind, asked.seed)).exists():
        return None
    found = read_policy(path, networks.types, asked)
    if asked.limit not in (None, found.data.get("instances")):
        return None
    return None if isinstance(found.policy, ChosenPolicy) and found.policy.open else found


def chosen_policy(
    kept: Learned | None,
    workload: Workload,
    asked: Asked,
    *,
    used: int | None = None,
    ready: Callable[[str], None] | None = None,
    progress: Progress,
) -> tuple[Policy, Learned | None]:
    """The policy asked for: the one that `kept_policy` found, one that is a rule, or one learned now.

    It is learned from the instances asked for, of the first `used` that can be used at most; where these have
    no nodes, it is the rule RULE. `ready` is told what is used first (see `choose`). Errors: AbwError.
    """
    found = kept
    if not found:
        if not asked.learned:
            return get_policy(asked.name), None
        progress.phase("choose a policy" if asked.name == CHOSEN else "learn a policy", steps_at_most(asked))
        try:
            found = learn_policy(workload, asked, used=used, ready=ready, progress=progress.reached)
        except NoNodesError:
            if ready:
                ready(RULE)
            return get_policy(RULE), None
    return found.policy, found


def policy_of(
    networks: Networks, asked: Asked, sample: Callable[[], tuple[Workload, int]], progress: Progress
) -> Policy:
    """The policy asked for; where it has to be learned, from a `sample`, of which so many can be used.

    Errors: AbwError, and those of sampling.
    """
    if kept := kept_policy(networks, asked):
        return kept.policy
    if not asked.learned:
        return get_policy(asked.name)
    workload, used = sample()
    return chosen_policy(None, workload, asked, used=used, progress=progress)[0]


def learn_policy(
    workload: Workload,
    asked: Asked,
    *,
    used: int | None = None,
    trials: int = TRIALS,
    phases: int = 0,
    path: Path | None = None,
    ready: Callable[[str], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Learned:
    """Learn a policy from the instances asked for, of the first `used`, and write it down.

    It goes to its place, or to `path`. With `phases` an FSM's states also say which part of the graph is
    being executed (A.4), and the file's name that they do: `abw run` uses such a policy where it is named.
    `progress` is told the trials done (of `auto`: the candidates tried) and the fewest batches so far.
    Errors: AbwError where the file cannot be written, or is one of the model's.
    """
    kind = f"{asked.kind}-phases{phases}" if phases else asked.kind
    target = path or _policy_path(workload.networks, kind, asked.seed)
    refuse_overwrite(target, *workload.model.reads)
    require_writable(target.parent)
    count = min(asked.instances, len(workload.instances) if used is None else used)

    def dags(first: int, last: int) -> Dag:
        return workload.networks.seen(workload.graph(first, last))

    policy: FsmPolicy | ChosenPolicy
    if asked.name == CHOSEN:
        policy = choose_from(dags, count, asked, ready=ready, progress=progress)
    else:
        if ready:
            ready(LEARNED)
        policy = train(
            dags, count, asked.encoding, asked.seed, trials=trials, phases=phases, progress=progress
        )
    data = workload.model.data.path
    source = {"path": str(data), "sha256": _digest(workload), "instances": count}
    origin = {"model": workload.model.name, "granularity": workload.network.granularity, "data": source}
    write_text(target, policy.to_json(origin))
    return Learned(policy, target, source, fresh=True)


def _digest(workload: Workload) -> str:
    """That of the data: of a file's bytes, of instances made of arrays the kinds of their vertices."""
    if workload.model.data.path == ARRAYS:
        return hashlib.sha256(workload.instances.kind.tobytes()).hexdigest()
    return file_digest(workload.model.data.path)


def steps_at_most(asked: Asked, trials: int = TRIALS) -> int:
    """How many steps of learning its progress is told of at most: candidates, or trials of all encodings."""
    if asked.name == CHOSEN:
        return CANDIDATES
    return trials * len(BEST_OF) if asked.encoding == "best" else trials


def choose_from(
    dags: Callable[[int, int], Dag],
    used: int,
    asked: Asked,
    *,
    cost: Cost | None = None,
    ready: Callable[[str], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ChosenPolicy:
    """Choose a policy on instances 0 to `used`; `dags(first, last)` is the dag of some of them.

    The first ones, TRAIN_LIMIT or half of them, are what an FSM is made from; mini-batches of those behind
    are what all candidates are judged on; from those behind `asked.judged`, weights are learned. One instance
    alone has to serve for all. Errors: NoNodesError.
    """
    judged = min(used, asked.judged)
    first = min(TRAIN_LIMIT, judged // 2)
    size, whole = _fitting(dags, 0, max(first, 1), LESSON_NODES)
    halves = [dags(0, size // 2), dags(size // 2, size)] if size > 1 else []
    lessons = [part for part in (whole, *halves) if len(part)]
    held: list[Dag] = []
    last = 0 if first == 0 else first
    while last < judged and sum(map(len, held)) < HELD_NODES:
        size, dag = _fitting(dags, last, min(asked.batch, judged - last), HELD_NODES)
        if len(dag):  # of other instances nothing can be said
            held.append(dag)
        last += size
    if not (lessons or held):
        raise NoNodesError(used)

    def practice() -> list[Dag]:
        found, begin = lessons[:1] if judged == used else [], judged
        while begin < used and sum(map(len, found)) < LESSON_NODES:
            size, dag = _fitting(dags, begin, min(asked.batch, used - begin), LESSON_NODES)
            found += [dag] * (len(dag) > 0)
            begin += size
        return found or lessons or held

    return choose(
        lessons or held[:1],
        held or lessons[:1],
        practice=practice,
        apart=first > 0 and bool(lessons and held),
        seed=asked.seed,
        launch=asked.launch,
        phase=asked.phase,
        cost=cost,
        ready=ready,
        progress=progress,
    )


def _fitting(dags: Callable[[int, int], Dag], first: int, count: int, most: int) -> tuple[int, Dag]:
    """How many of `count` instances have about `most` nodes at most, and their dag; one at least."""
    size, dag = 1, dags(first, first + 1)
    while size < count and 2 * len(dag) <= most:
        size = min(2 * size, count)
        dag = dags(first, first + size)
    return size, dag


def train(
    dags: Callable[[int, int], Dag],
    used: int,
    encoding: Choice,
    seed: int,
    *,
    trials: int = TRIALS,
    phases: int = 0,
    cost: Cost | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> FsmPolicy:
    """Learn an FSM policy from instances 0 to `used`; `dags(first, last)` is the dag of some of them.

    Both halves are learned from too: they keep a policy from depending on one long instance. With `best`
    several encodings are tried, and the best one is kept (see `learn_best`): that of the fewest batches, or
    with a `cost` the cheapest. `phases` (see `observe`) go with a named encoding only: else AbwError. Raises
    NoNodesError where no instance has a node.
    """
    if encoding == "best" and phases:
        raise AbwError(
            "phases need a named encoding", hint="for example --encoding base --phases 2", exit_code=2
        )
    whole = dags(0, used)
    if not len(whole):
        raise NoNodesError(used)
    halves = [dags(0, used // 2), dags(used // 2, used)] if used > 1 else []
    halves = [half for half in halves if len(half)]
    how: dict[str, Any] = {"also": halves, "seed": seed, "trials": trials, "cost": cost, "progress": progress}
    if encoding == "best":
        return learn_best(whole, **how)
    return learn(whole, encoding=encoding, phases=phases, **how)
