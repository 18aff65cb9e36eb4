"""Trying policies for a model on graphs that none of them was made from."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from abw.core.base.errors import AbwError
from abw.core.graph.dag import Dag
from abw.core.policy.cost import Cost, cost_of, counting, least_cost
from abw.core.policy.launches import phases_of
from abw.core.policy.learned.choice import (
    BEAMS,
    ONE_BATCH,
    REPAIR,
    SINGLE,
    WEIGHED,
    ChosenPolicy,
    Held,
    Tried,
    is_fsm,
    may_pay,
    options_of,
    takes,
)
from abw.core.policy.learned.climb import climb
from abw.core.policy.learned.fsm import FsmPolicy
from abw.core.policy.learned.learner import BEST_OF, TooManyStatesError, learn
from abw.core.policy.reckoning import seconds_of
from abw.core.policy.registry import LEARNED, REVERSED, Reversed, get_policy
from abw.core.policy.reverse import reversed_dag
from abw.core.policy.rules.linear import Linear
from abw.core.policy.schedule import Policy

# The most states of an FSM that is tried; with eight symbols a state its file stays under 1 MB.
STATES = 512
# The most characters of an FSM's file.
FILE = 900_000
# The most trials of an FSM.
TRIALS = 1000
# The most nodes that the trials of one FSM execute: learning it stays below half a second.
WORK = 2_000_000
# So many rules at most are tried together, the least of them taken mini-batch by mini-batch.
TOGETHER = 3


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
        return may_pay(able, self.held, self.launching, self.takes(name))

    def takes(self, name: str) -> float:
        """What a policy takes that needs as many batches as the lower bound; with a cost, about that."""
        return takes(name, self.size, self.held.least)

    def rule(self, name: str) -> None:
        """Try a policy that needs no learning."""
        self._prepare(name)
        self._judge(name, get_policy(name, **options_of(name, self.cost)))

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
