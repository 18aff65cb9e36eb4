"""The policy chosen for a model: several are tried on graphs that none of them was made from."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property

from abw.core.graph.dag import Dag
from abw.core.policy.cost import Cost
from abw.core.policy.learned.fsm import FORMAT, FsmPolicy, require_types
from abw.core.policy.learned.learner import BEST_OF, MET
from abw.core.policy.reckoning import Size, seconds_of
from abw.core.policy.registry import CHOSEN, COSTED, LEARNED, REVERSED, Reversed, get_policy
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
# Learning takes about so many seconds. FSMs and weights are tried where they could save that while so many
# times the mini-batches are scheduled that they are judged on.
LEARNING, PAYBACK = 0.5, 1000


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
        return any(may_pay(self.able, self.held, price, takes(n, size, least)) for n in missing)

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
        return get_policy(name, **options_of(name, self.cost))

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


def may_pay(able: Sequence[Tried], held: Held, price: tuple[float, float], seconds: float) -> bool:
    """Whether what takes so many seconds could be better than the able ones, were it to reach the bound."""
    if not able:
        return True
    launch, phase = price
    if launch == float("inf"):
        return seconds < float("inf") and min(t.cost or 0.0 for t in able) > held.least * MET
    best = min(t.seconds(launch, phase) for t in able)
    phases = min(t.phases or 0 for t in able)  # `depth`, the quickest, has the fewest
    return held.least * launch + phases * phase + seconds < best


def takes(name: str, size: Size, batches: float) -> float:
    """What a policy takes to make so many batches; a learned one with a share of its learning."""
    if name == REPAIR and size.work > REPAIRED:
        return float("inf")
    if name == LEARNED:
        return seconds_of(f"{LEARNED}-sort", size, batches) + LEARNING / PAYBACK
    return seconds_of(name, size, batches) + (LEARNING / PAYBACK if name in WEIGHED else 0.0)


def options_of(name: str, cost: Cost | None) -> dict[str, Cost]:
    """A cost, for the policies that take one."""
    return {"cost": cost} if cost and name.removesuffix(REVERSED) in COSTED else {}


def is_fsm(name: str) -> bool:
    """Whether a candidate is an FSM."""
    return name.startswith(f"{LEARNED}-")
