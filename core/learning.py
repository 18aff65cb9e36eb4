"""Learned policies of workloads: learning one, keeping it, finding it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from abw.core.data.tensors import file_digest
from abw.core.errors import AbwError
from abw.core.graph.dag import Dag
from abw.core.policy.cost import Cost
from abw.core.policy.fsm import FsmPolicy
from abw.core.policy.learner import BEST_OF, learn, learn_best
from abw.core.policy.registry import LEARNED, Policy, get_policy
from abw.core.policy.states import Encoding
from abw.core.progress import Progress
from abw.core.store.files import read_json, require_writable, write_text
from abw.core.store.policies import policy_path
from abw.core.workload import Networks, Workload

TRAIN_LIMIT = 32
"""How many instances a policy is learned from unless told otherwise (the paper's number, section 2.3)."""

Choice = Encoding | Literal["best"]
"""An encoding, or the one that does best in training."""

SUMMARIES: dict[Choice, str] = {
    "best": "what has the fewest batches in training of base, sort and critical; the default",
    "base": "the types on the frontier",
    "max": "the same, and the one with the most ready nodes",
    "sort": "the types in order of how many nodes are ready (the paper's best)",
    "critical": "the types on the frontier, and the type at the head of the longest remaining path",
}
"""What a state of a learned policy is, in one line."""

TRIALS = 1000
"""How many trials learning takes at most (section 5.3)."""


@dataclass(frozen=True, slots=True)
class Learned:
    """A learned policy with the file it lies in; `fresh` says that it was learned just now.

    `data` says what it was learned from: `path`, `sha256` and how many `instances` of it.
    """

    policy: FsmPolicy
    path: Path
    data: Mapping[str, Any]
    fresh: bool

    def trained_on(self, data: Path, instances: int) -> int:
        """From how many of the first `instances` of a file the policy was learned."""
        if self.data.get("sha256") != file_digest(data):
            return 0
        return min(int(self.data["instances"]), instances)


def find_policy(networks: Networks, encoding: Choice, seed: int) -> Learned | None:
    """The policy learned earlier for networks, encoding and seed. Errors: AbwError where it is damaged."""
    path = policy_path(networks.network, encoding, seed, networks.groups)
    return read_policy(path, networks.types) if path.exists() else None


def read_policy(path: Path, types: tuple[str, ...]) -> Learned:
    """A policy's file. Errors: AbwError where it is missing, damaged, or of types of other names."""
    document = read_json(path, "policy")
    policy = FsmPolicy.from_json(path.read_text(encoding="utf-8"))
    policy.require(types)
    return Learned(policy, path, document.get("data", {}), fresh=False)


def kept_policy(
    networks: Networks, name: str, encoding: Choice, seed: int, limit: int | None = None
) -> Learned | None:
    """The policy of a name or a `.json` file, if it is a learned one that lies on disk. Errors: AbwError.

    With a `limit`, one by its name only if it was learned from so many instances.
    """
    if name.endswith(".json"):
        return read_policy(Path(name), networks.types)
    found = find_policy(networks, encoding, seed) if name == LEARNED else None
    return found if found and limit in (None, found.data.get("instances")) else None


def chosen_policy(
    kept: Learned | None,
    workload: Workload,
    name: str,
    encoding: Choice,
    seed: int,
    *,
    limit: int | None = None,
    used: int = TRAIN_LIMIT,
    progress: Progress,
) -> tuple[Policy, Learned | None]:
    """The policy of a name: the one that `kept_policy` found, one that is a rule, or one learned now.

    It is learned from the first `limit` instances, TRAIN_LIMIT if none is asked for, of `used` that can be
    used at most. Errors: AbwError.
    """
    found = kept
    if not found:
        if name != LEARNED:
            return get_policy(name), None
        progress.phase("learn a policy", trials_at_most(encoding, TRIALS))
        found = learn_policy(
            workload, encoding, seed, limit=min(limit or TRAIN_LIMIT, used), progress=progress.reached
        )
    return found.policy, found


def learn_policy(
    workload: Workload,
    encoding: Choice,
    seed: int,
    *,
    limit: int = TRAIN_LIMIT,
    trials: int = TRIALS,
    phases: int = 0,
    path: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Learned:
    """Learn an FSM policy from the first `limit` instances and write it to its place, or to `path`.

    With `phases` the states also say which part of the graph is being executed (A.4), and the file's name
    that they do: `abw run` uses such a policy where it is named. `progress` is told the trials done and the
    fewest batches so far. Errors: AbwError where the file cannot be written.
    """
    kind = f"{encoding}-phases{phases}" if phases else encoding
    target = path or policy_path(workload.network, kind, seed, workload.networks.groups)
    require_writable(target.parent)
    used = min(limit, len(workload.instances))
    policy = train(
        lambda first, last: workload.seen(workload.graph(first, last)),
        used,
        encoding,
        seed,
        trials=trials,
        phases=phases,
        progress=progress,
    )
    data = workload.model.data.path
    source = {"path": str(data), "sha256": file_digest(data), "instances": used}
    origin = {"model": workload.model.name, "granularity": workload.network.granularity, "data": source}
    write_text(target, policy.to_json(origin))
    return Learned(policy, target, source, fresh=True)


def trials_at_most(encoding: Choice, trials: int) -> int:
    """How many trials learning takes at most, over all encodings that are tried."""
    return trials * len(BEST_OF) if encoding == "best" else trials


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
    with a `cost` the cheapest. `phases` (see `observe`) go with a named encoding only: else AbwError.
    """
    if encoding == "best" and phases:
        raise AbwError(
            "phases go with a named encoding", hint="as in --encoding base --phases 2", exit_code=2
        )
    halves = [dags(0, used // 2), dags(used // 2, used)] if used > 1 else []
    whole = dags(0, used)
    if encoding == "best":
        return learn_best(whole, also=halves, seed=seed, trials=trials, cost=cost, progress=progress)
    return learn(
        whole,
        also=halves,
        encoding=encoding,
        phases=phases,
        seed=seed,
        trials=trials,
        cost=cost,
        progress=progress,
    )
