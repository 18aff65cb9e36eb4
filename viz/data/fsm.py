"""Pictures of policies as state machines: learned ones with what learning found, others as observed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np

from abw.core.base.errors import AbwError
from abw.core.policy.learned.choice import ChosenPolicy, fsm_behind
from abw.core.policy.learned.fsm import FsmPolicy
from abw.core.policy.learned.policyfile import read_any
from abw.core.policy.registry import LEARNED
from abw.core.policy.schedule import ready_counts
from abw.viz.data.pictures import END, PolicyPicture, State, Transition
from abw.viz.data.scene import Scene

# How the states of a policy that is no FSM are told apart: by the types on the frontier alone.
OBSERVED = "base"

Symbols = tuple[str, ...]


def policy_picture(scene: Scene, policy: str) -> PolicyPicture:
    """A policy's states and its way through them in the scene's mini-batch. O(n + m + batches * types)."""
    schedule, types = scene.schedules[policy], scene.dag.types
    chosen = [types[t] for t in schedule.type]
    if scene.learned and policy == scene.own:
        return _picture(policy, types, scene.learned, scene.learned.visited(scene.dag, schedule), chosen)
    ready = ready_counts(scene.dag, schedule, scene.rounds(policy))
    steps = [tuple(types[t] for t in np.flatnonzero(row)) for row in ready]
    return _picture(policy, types, None, steps, chosen)


def read_policy(path: Path) -> PolicyPicture:
    """The picture of a learned policy's file. Errors: AbwError where it is missing or damaged."""
    policy, _ = read_any(path)
    fsm = fsm_behind(policy) or (policy.fsm if isinstance(policy, ChosenPolicy) else None)
    if fsm is None:
        raise AbwError(
            "no state machine was chosen there", hint="abw viz SPEC --policy draws one as observed"
        )
    return policy_alone(fsm)


def policy_alone(policy: FsmPolicy) -> PolicyPicture:
    """A learned policy without a graph to run it on."""
    return _picture(LEARNED, policy.types, policy, [], [])


def _picture(
    name: str,
    types: tuple[str, ...],
    learned: FsmPolicy | None,
    steps: Sequence[Symbols],
    chosen: Sequence[str],
) -> PolicyPicture:
    """The states that were learned, then those of the `steps` that were not, and the way through them."""
    known = learned.states if learned else ()
    states, taken, numbers, transitions = _walk(known, steps, chosen)
    made = []
    for s, (symbols, here) in enumerate(zip(states, taken, strict=True)):
        ready, also = _parts(symbols, types) if learned else (symbols, ())
        if learned and s < len(known):
            action, table = types[learned.action[s]], learned.table
            tried = np.flatnonzero(table.visits[s])
            q = {types[t]: float(table.value[s, t]) for t in tried}
            visits = {types[t]: int(table.visits[s, t]) for t in tried}
        else:
            action, q, visits = here.most_common(1)[0][0], {}, {}
        made.append(State(ready, also, action, q, visits, dict(here), not learned or s < len(known)))
    encoding = learned.encoding if learned else OBSERVED
    training = asdict(learned.training) if learned else None
    return PolicyPicture(name, encoding, types, tuple(made), transitions, numbers, training)


def _parts(symbols: Symbols, types: Sequence[str]) -> tuple[Symbols, Symbols]:
    """The types on the frontier, and what follows them: one of them again, a phase."""
    length = next((i for i, s in enumerate(symbols) if s in symbols[:i] or s not in types), len(symbols))
    return symbols[:length], symbols[length:]


def _walk(
    known: Sequence[Symbols], steps: Sequence[Symbols], chosen: Sequence[str]
) -> tuple[list[Symbols], list[Counter[str]], tuple[int, ...], tuple[Transition, ...]]:
    """Number the states, the known ones first, and count what was taken and where it led."""
    number = {state: s for s, state in enumerate(known)}
    way = [number.setdefault(state, len(number)) for state in steps]
    taken: list[Counter[str]] = [Counter() for _ in number]
    for s, name in zip(way, chosen, strict=True):
        taken[s][name] += 1
    moves = Counter(zip(way, [*way[1:], END], chosen, strict=True)) if way else Counter()
    transitions = tuple(Transition(a, b, name, count) for (a, b, name), count in moves.items())
    return list(number), taken, tuple(way), transitions
