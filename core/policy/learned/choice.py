"""The policy chosen for a model: several are tried on graphs that none of them was made from."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from abw.core.base.errors import AbwError
from abw.core.graph.dag import Dag
from abw.core.policy.cost import Cost, cost_of, counting, least_cost
from abw.core.policy.launches import phases_of
from abw.core.policy.learned.climb import climb
from abw.core.policy.learned.fsm import FORMAT, FsmPolicy, require_types
from abw.core.policy.learned.learner import BEST_OF, MET, TooManyStatesError, learn
from abw.core.policy.reckoning import Size, seconds_of
from abw.core.policy.registry import CHOSEN, COSTED, LEARNED, REVERSED, Reversed, get_policy
from abw.core.policy.reverse import reversed_dag
from abw.core.policy.rules.linear import Linear
from abw.core.policy.schedule import Policy, Schedule

# Of the files of chosen policies; those of an FSM have version 1.
VERSION = 2

# What is tried first where no node can wait for another of its type: it has one batch for each type.
ONE_BATCH = "phases"
ONE_WAY = ("depth", "agenda")
# The rules that are tried, `RULES` in both directions; of equally quick ones the earlier one is taken.
RULES = ("critical", "linear", "weight-free", "share-free", "share", "weight", "critical-free", "sufficient")

# All of these; they are tried from the quickest to the slowest.
SINGLE: tuple[str, ...] = (*ONE_WAY, *RULES, *(f"{rule}{REVERSED}" for rule in RULES))

# The linear rule with weights that are learned: without and with the feature `free`, in both directions.
_WEIGHED = ("linear-learned", "linear-learned-free")
WEIGHED: tuple[str, ...] = tuple(f"{name}{way}" for name in _WEIGHED for way in ("", REVERSED))
BEAMS = ("beam", f"beam{REVERSED}")
# Tried last, where batches count for most, on graphs of so many nodes and edges together at most: it takes
# seconds.
REPAIR, REPAIRED = "repair", 60_000
# How many candidates there are at most.
CANDIDATES = 1 + len(SINGLE) + len(BEST_OF) + len(WEIGHED) + 2 + len(BEAMS) + 1
# The most states of an FSM that is tried; with eight symbols a state its file stays under 1 MB.
STATES = 512
# The most characters of an FSM's file.
FILE = 900_000
# The most trials of an FSM.
TRIALS = 1000
# The most nodes that the trials of one FSM execute: learning it stays below half a second.
WORK = 2_000_000
# Learning takes about so many seconds. FSMs and weights are tried where they could save that while so many
# times the mini-batches are scheduled that they are judged on.
LEARNING, PAYBACK = 0.5, 1000
# So many rules at most are tried together, the least of them taken mini-batch by mini-batch.
TOGETHER = 3


@dataclass(frozen=True, slots=True)
class Tried:
    """A candidate: of `policies`, more than one only where the least of them is taken each time.

    On the held-out mini-batches it needs `batches`, which cost `cost` (the same number where nothing else was
    asked for), and takes about `scheduling` seconds. `learning`: the seconds that making it took; `states`:
    an FSM's. `refused` says why it cannot be taken; then the numbers are none. `phases` (`phases_of`) are
    known where they were asked for.
    """

    policies: tuple[str, ...]
    batches: int | None
    cost: float | None
    scheduling: float
    learning: float = 0.0
    states: int | None = None
    refused: str | None = None
    phases: int | None = None

    def seconds(self, launch: float, phase: float) -> float:
        """What it takes where a batch takes `launch` seconds, and a phase as many more."""
        batches = self.batches or 0
        phases = batches if self.phases is None else self.phases
        return batches * launch + phases * phase + self.scheduling

    @property
    def quick(self) -> bool:
        """Whether it is a single rule or an FSM."""
        return len(self.policies) == 1 and self.policies[0] not in (*BEAMS, REPAIR)

    @property
    def name(self) -> str:
        """Its name for people."""
        return self.policies[0] if len(self.policies) == 1 else f"least of {', '.join(self.policies)}"


@dataclass(frozen=True, slots=True)
class Held:
    """What the candidates were judged on; `least` is the lower bound of the batches, or of what they cost.

    `apart`: none was made from these instances.
    """

    mini_batches: int
    nodes: int
    edges: int
    least: float
    apart: bool

    def size(self, types: int) -> Size:
        """Their size, by which scheduling is reckoned."""
        return Size(self.mini_batches, self.nodes + self.edges, types)


@dataclass(frozen=True, eq=False)
class ChosenPolicy:
    """The candidate of `tried` that does best, where a batch takes `launch` seconds besides its rows.

    Where an executor runs the batches of a phase at the same time, that is little, and a phase takes `phase`.
    That is the one whose batches and scheduling together take least. `fsm` is the FSM among them that can be
    taken, `linear` the rules with learned weights by their names. With a `cost` the candidates were judged by
    that, which decides alone; files do not keep it.
    """

    types: tuple[str, ...]
    held: Held
    tried: tuple[Tried, ...]
    fsm: FsmPolicy | None
    seed: int
    seconds: float
    launch: float = float("inf")
    cost: Cost | None = None
    linear: Mapping[str, Linear] = field(default_factory=dict)
    phase: float = 0.0

    @property
    def able(self) -> list[Tried]:
        """The candidates of `tried` that can be taken."""
        return [t for t in self.tried if t.cost is not None and self._has(t)]

    @property
    def picked(self) -> Tried:
        """What takes least with the batches it leaves and its scheduling; the first of equals."""
        able = self.able
        if self._alone:
            return min(able, key=lambda t: (t.cost, t.scheduling))
        return min(able, key=lambda t: t.seconds(self.launch, self.phase))

    @property
    def open(self) -> bool:
        """Whether a policy was not tried that might pay where batches and phases cost so much."""
        if self.phase and any(t.phases is None for t in self.able):
            return True
        tried = {LEARNED if is_fsm(name) else name for t in self.tried for name in t.policies}
        missing, size, least = (
            {*SINGLE, *WEIGHED, *BEAMS, REPAIR, LEARNED} - tried,
            self.held.size(len(self.types)),
            self.held.least,
        )
        price = self._launch, self.phase
        return any(_may_pay(self.able, self.held, price, _takes(n, size, least)) for n in missing)

    @property
    def reason(self) -> str:
        """In a sentence, what was picked and why."""
        held, picked = self.held, self.picked
        where = "unseen instances" if held.apart else "the only instance"
        said = (
            f"{picked.name}, {picked.batches} batches (lower bound {held.least:.0f}) in {held.mini_batches} "
            f"mini-batch{'es' if held.mini_batches != 1 else ''} of {where}, chosen in {self.seconds:.2f} s"
        )
        fewest = min(t.batches for t in self.tried if t.batches is not None)
        if self._alone or (picked.cost or 0.0) <= held.least * MET:
            return said
        if picked.batches == fewest:
            return f"{said}; policies that might need fewer would take longer to schedule than they save"
        return f"{said}; {fewest} batches are possible, but take longer to schedule than they save"

    @property
    def _alone(self) -> bool:
        """Whether batches, or what they cost, decide alone."""
        return self.cost is not None or self.launch == float("inf")

    @property
    def _launch(self) -> float:
        return float("inf") if self._alone else self.launch

    def launching(self, seconds: float, phase: float = 0.0) -> ChosenPolicy:
        """Choose anew where a batch costs so many seconds, and a phase so many more."""
        return replace(self, launch=seconds, phase=phase)

    @cached_property
    def policy(self) -> Policy:
        """What was picked."""
        found = [self._named(name) for name in self.picked.policies]
        return found[0] if len(found) == 1 else Least(tuple(found))

    def schedule(self, dag: Dag) -> Schedule:
        """Schedule by the policy picked. Raises AbwError where the graph's types are not the policy's."""
        self.require(dag.types)
        return self.policy.schedule(dag)

    def require(self, types: tuple[str, ...]) -> None:
        """Raise AbwError, saying what differs, unless the policy was chosen for these types."""
        require_types(self.types, types)

    def _has(self, tried: Tried) -> bool:
        fsm = f"{LEARNED}-{self.fsm.encoding}" if self.fsm else None
        return all(n == fsm if is_fsm(n) else n not in WEIGHED or n in self.linear for n in tried.policies)

    def _named(self, name: str) -> Policy:
        if is_fsm(name):
            assert self.fsm is not None
            return self.fsm
        if name in WEIGHED:
            return Reversed(self.linear[name]) if name.endswith(REVERSED) else self.linear[name]
        return get_policy(name, **_options(name, self.cost))

    def to_json(self, origin: Mapping[str, object] | None = None) -> str:
        """A document that a person can read, a candidate a line."""
        head = {
            "format": FORMAT, "version": VERSION, "policy": CHOSEN, "types": self.types, **(origin or {}),
            "held_out": asdict(self.held), "seed": self.seed, "seconds": self.seconds,
        }  # fmt: skip
        fields = [f'  "{key}": {json.dumps(value, ensure_ascii=False)}' for key, value in head.items()]
        lines = ["    " + json.dumps(asdict(t), ensure_ascii=False) for t in self.tried]
        fields.append('  "tried": [\n' + ",\n".join(lines) + "\n  ]")
        fsm = "null" if self.fsm is None else self.fsm.to_json().rstrip().replace("\n", "\n  ")
        fields.append(f'  "fsm": {fsm}')
        fields.append(f'  "linear": {json.dumps({name: rule.named for name, rule in self.linear.items()})}')
        return "{\n" + ",\n".join(fields) + "\n}\n"


@dataclass(frozen=True, slots=True)
class Least:
    """The schedule with the fewest batches of several policies'; of equals the first."""

    policies: tuple[Policy, ...]

    def schedule(self, dag: Dag) -> Schedule:
        """Cost: that of all of them together."""
        return min((p.schedule(dag) for p in self.policies), key=len)


def fsm_behind(policy: FsmPolicy | ChosenPolicy) -> FsmPolicy | None:
    """The FSM that a learned policy is, or that was picked; None where a rule or a search was."""
    found = policy.policy if isinstance(policy, ChosenPolicy) else policy
    return found if isinstance(found, FsmPolicy) else None


def choose(
    lessons: Sequence[Dag],
    held: Sequence[Dag],
    *,
    apart: bool = True,
    practice: Callable[[], Sequence[Dag]] | None = None,
    seed: int = 0,
    launch: float = float("inf"),
    phase: float = 0.0,
    cost: Cost | None = None,
    ready: Callable[[str], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ChosenPolicy:
    """Try the candidates on the mini-batches `held`.

    Rules in both directions from the quickest on, before them `ONE_BATCH` where all have an order of types;
    then FSMs learned from `lessons` (a graph and its parts; encodings base, sort, critical, in at most
    `TRIALS` trials, with at most `STATES` states), linear rules with weights learned on the mini-batches that
    `practice` gives (else on the first lesson), the least of several rules, the beam, and repair. Each is
    tried only where it could still be better: if with as few batches as the lower bound, at `launch` seconds
    a batch, with the fewest phases, at `phase` seconds each, and its own scheduling it would take less time
    than what was tried before. With a `cost` that is what is minimised, alone.

    `ready` is told the name of each rule, or `fsm`, before it is first used, which is the time to compile it;
    `progress` the candidates tried and the fewest batches so far. Same arguments, same policy (its seconds
    apart). Raises AbwError for graphs that are empty or of different types. One or two seconds at most, what
    is compiled apart.
    """
    types = lessons[0].types
    if (
        not held
        or not all(len(d) for d in (*lessons, *held))
        or any(d.types != types for d in (*lessons, *held))
    ):
        raise AbwError("a policy is chosen on graphs of the same types that are not empty")
    begun = time.perf_counter()
    price = counting(len(types)) if cost is None else cost
    ordered = all(dag.order is not None for dag in held)
    nodes = sum(map(len, held))
    edges = nodes if ordered else sum(len(dag.succ) for dag in held)  # not looked for where nobody asks
    summary = Held(len(held), nodes, edges, sum(least_cost(d, price) for d in held), apart)
    trial = _Trial(
        held, summary, price, cost, (launch if cost is None else float("inf"), phase), ready, progress
    )
    quickest = sorted(SINGLE, key=trial.takes)
    for name in (ONE_BATCH, *quickest) if ordered else quickest:
        if not trial.may_pay(name):
            break
        trial.rule(name)
    fsm = trial.learned(lessons, seed) if trial.may_pay(LEARNED) else None
    linear = trial.weighed(practice or (lambda: lessons[:1]), seed)
    trial.together()
    if trial.may_pay(BEAMS[0]):
        for name in BEAMS:
            trial.rule(name)
    if trial.may_pay(REPAIR):
        trial.rule(REPAIR)
    order = sorted(trial.tried, key=lambda t: (t.cost is None, t.cost, t.scheduling))
    seconds = time.perf_counter() - begun - trial.waited
    return ChosenPolicy(types, summary, tuple(order), fsm, seed, seconds, launch, cost, linear, phase)


def _may_pay(able: Sequence[Tried], held: Held, price: tuple[float, float], seconds: float) -> bool:
    """Whether what takes so many seconds could be better than the able ones, were it to reach the bound."""
    if not able:
        return True
    launch, phase = price
    if launch == float("inf"):
        return seconds < float("inf") and min(t.cost or 0.0 for t in able) > held.least * MET
    best = min(t.seconds(launch, phase) for t in able)
    phases = min(t.phases or 0 for t in able)  # `depth`, the quickest, has the fewest
    return held.least * launch + phases * phase + seconds < best


def _takes(name: str, size: Size, batches: float) -> float:
    """What a policy takes to make so many batches; a learned one with a share of its learning."""
    if name == REPAIR and size.work > REPAIRED:
        return float("inf")
    if name == LEARNED:
        return seconds_of(f"{LEARNED}-sort", size, batches) + LEARNING / PAYBACK
    return seconds_of(name, size, batches) + (LEARNING / PAYBACK if name in WEIGHED else 0.0)


def _options(name: str, cost: Cost | None) -> dict[str, Cost]:
    """A cost, for the policies that take one."""
    return {"cost": cost} if cost and name.removesuffix(REVERSED) in COSTED else {}


def is_fsm(name: str) -> bool:
    """Whether a candidate is an FSM."""
    return name.startswith(f"{LEARNED}-")


class _Trial:
    """Candidates one after the other on the same mini-batches."""

    def __init__(
        self,
        dags: Sequence[Dag],
        held: Held,
        price: Cost,
        cost: Cost | None,
        launching: tuple[float, float],
        ready: Callable[[str], None] | None,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self.dags, self.held, self.price, self.cost, self.launching = dags, held, price, cost, launching
        self.ready, self.progress = ready, progress
        self.size = held.size(len(dags[0].types))
        self.tried: list[Tried] = []
        self.waited = 0.0
        self._costs: dict[str, np.ndarray[Any, np.dtype[np.float64]]] = {}
        self._scheduling: dict[str, float] = {}
        self._phases: dict[str, np.ndarray[Any, np.dtype[np.int64]]] = {}

    def may_pay(self, name: str) -> bool:
        """Whether a policy could be better than all that was tried."""
        able = [t for t in self.tried if t.cost is not None]
        return _may_pay(able, self.held, self.launching, self.takes(name))

    def takes(self, name: str) -> float:
        """What a policy takes that needs as many batches as the lower bound; with a cost, about that."""
        return _takes(name, self.size, self.held.least)

    def rule(self, name: str) -> None:
        """Try a policy that needs no learning."""
        self._prepare(name)
        self._judge(name, get_policy(name, **_options(name, self.cost)))

    def learned(self, lessons: Sequence[Dag], seed: int) -> FsmPolicy | None:
        """Try an FSM of each encoding; the cheapest of them."""
        self._prepare(LEARNED)
        found: list[FsmPolicy] = []
        trials = max(1, min(TRIALS, WORK // sum(map(len, lessons)) * len(lessons)))
        for encoding in BEST_OF:
            name, begun = f"{LEARNED}-{encoding}", time.perf_counter()
            try:
                fsm = learn(
                    lessons[0], also=lessons[1:], encoding=encoding, seed=seed, trials=trials,
                    cost=self.cost, most=STATES,
                )  # fmt: skip
                if len(fsm.to_json()) > FILE:
                    raise TooManyStatesError(f"its file has more than {FILE} characters")
            except TooManyStatesError as error:
                self._note(
                    Tried((name,), None, None, 0.0, time.perf_counter() - begun, refused=error.message)
                )
                continue
            self._judge(name, fsm, time.perf_counter() - begun, len(fsm.states))
            found.append(fsm)
        costs = [self._costs[f"{LEARNED}-{fsm.encoding}"].sum() for fsm in found]
        return found[int(np.argmin(costs))] if found else None

    def weighed(self, practice: Callable[[], Sequence[Dag]], seed: int) -> dict[str, Linear]:
        """Try the linear rule with learned weights, both directions with and without the feature `free`."""
        found: dict[str, Linear] = {}
        dags: Sequence[Dag] = ()
        for name in WEIGHED:
            if self.may_pay(name):
                turned, free = name.endswith(REVERSED), "-free" in name
                self._prepare("critical-free" if free else "linear")
                dags, begun = dags or practice(), time.perf_counter()
                lessons = [reversed_dag(dag) for dag in dags] if turned else dags
                known = [found[name.replace("-free", "")]] if free else []
                rule = found[name] = climb(lessons, known, free=free, seed=seed, cost=self.cost)
                self._judge(name, Reversed(rule) if turned else rule, time.perf_counter() - begun)
        return found

    def together(self) -> None:
        """Try rules together: to the best one, always the one that saves most."""
        rules = [n for n in self._costs if not is_fsm(n)]
        names = [min(rules, key=lambda n: self._costs[n].sum())]
        least = self._costs[names[0]]
        while len(names) < TOGETHER and self.cost is None:
            name = min(rules, key=lambda n: np.minimum(least, self._costs[n]).sum())
            after = np.minimum(least, self._costs[name])
            if after.sum() == least.sum():
                return
            names.append(name)
            least = after
            seconds = sum(self._scheduling[n] for n in names)
            phases = self._together_phases(names)
            self._note(Tried(tuple(names), int(least.sum()), float(least.sum()), seconds, phases=phases))

    def _together_phases(self, names: Sequence[str]) -> int | None:
        """The phases of the schedules that `Least` takes."""
        if names[0] not in self._phases:
            return None
        first = np.argmin([self._costs[n] for n in names], axis=0)
        return int(np.choose(first, [self._phases[n] for n in names]).sum())

    def _prepare(self, name: str) -> None:
        """Let what a policy runs be compiled: that does not count."""
        begun = time.perf_counter()
        if self.ready:
            self.ready(name)
        self.waited += time.perf_counter() - begun

    def _judge(self, name: str, policy: Policy, learning: float = 0.0, states: int | None = None) -> None:
        schedules = [policy.schedule(dag) for dag in self.dags]
        self._costs[name] = np.array([cost_of(s, self.price) for s in schedules])
        if self.launching[1]:
            pairs = zip(self.dags, schedules, strict=True)
            self._phases[name] = np.array([phases_of(dag, s) for dag, s in pairs])
        batches = sum(map(len, schedules))
        cost = float(self._costs[name].sum())
        self._scheduling[name] = seconds_of(name, self.size, batches)
        phases = int(self._phases[name].sum()) if name in self._phases else None
        self._note(Tried((name,), batches, cost, self._scheduling[name], learning, states, phases=phases))

    def _note(self, tried: Tried) -> None:
        self.tried.append(tried)
        if self.progress:
            fewest = min(t.batches for t in self.tried if t.batches is not None)
            self.progress(len(self.tried), fewest)
