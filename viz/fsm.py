"""Pictures of policies as state machines: learned ones with what learning found, others as observed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict

import numpy as np

from abw.core.graph.dag import Dag
from abw.core.policy.frontier import edges, execute, start
from abw.core.policy.fsm import FsmPolicy
from abw.core.policy.registry import LEARNED
from abw.core.policy.schedule import Schedule
from abw.core.policy.states import ENCODINGS, Encoding, encode
from abw.core.policy.trace import ready_counts
from abw.viz.pictures import END, PolicyPicture, State, Transition
from abw.viz.scene import Scene

OBSERVED: Encoding = "base"
"""How the states of a policy that is no FSM are told apart: by the types on the frontier alone."""


def policy_picture(scene: Scene, policy: str) -> PolicyPicture:
    """A policy's states and its way through them in the scene's mini-batch. O(n + m + batches * types)."""
    schedule = scene.schedules[policy]
    if policy == LEARNED and scene.learned:
        return _learned(scene.learned, visited(scene.dag, schedule, scene.learned.encoding), schedule)
    ready = ready_counts(scene.dag, schedule)
    steps = [tuple(np.flatnonzero(row).tolist()) for row in ready]
    return _observed(policy, scene.dag.types, steps, schedule)


def policy_alone(policy: FsmPolicy) -> PolicyPicture:
    """A learned policy without a graph to run it on."""
    empty = Schedule(np.zeros(0, np.int32), np.zeros(1, np.int32), np.zeros(0, np.int32))
    return _learned(policy, [], empty)


def visited(dag: Dag, schedule: Schedule, encoding: Encoding) -> list[tuple[int, ...]]:
    """The FSM's state, as a sequence of types, before each batch of a schedule made by an FSM."""
    flow, frontier = edges(dag), start(dag)
    room = np.empty(len(dag.types) + 1, np.int32)
    kind = ENCODINGS.index(encoding)
    found = []
    for type in schedule.type:
        length = encode(kind, frontier, room)
        found.append(tuple(room[:length].tolist()))
        execute(flow, frontier, int(type))
    return found


def _learned(policy: FsmPolicy, steps: Sequence[tuple[int, ...]], schedule: Schedule) -> PolicyPicture:
    types, table = policy.types, policy.table
    code = {name: t for t, name in enumerate(types)}
    known = [tuple(code[name] for name in names) for names in policy.states]
    states, taken, numbers, transitions = _walk(known, steps, schedule.type.tolist(), types)
    made = []
    for s, symbols in enumerate(states):
        here = taken[s]
        if s < len(known):
            tried = np.flatnonzero(table.visits[s])
            q = {types[t]: float(table.value[s, t]) for t in tried}
            visits = {types[t]: int(table.visits[s, t]) for t in tried}
            chosen = types[policy.action[s]]
        else:
            q, visits, chosen = {}, {}, here.most_common(1)[0][0]
        made.append(State(_names(types, symbols), chosen, q, visits, dict(here), s < len(known)))
    return PolicyPicture(
        LEARNED, policy.encoding, types, tuple(made), transitions, numbers, asdict(policy.training)
    )


def _observed(
    policy: str, types: tuple[str, ...], steps: Sequence[tuple[int, ...]], schedule: Schedule
) -> PolicyPicture:
    states, taken, numbers, transitions = _walk([], steps, schedule.type.tolist(), types)
    made = tuple(
        State(_names(types, symbols), here.most_common(1)[0][0], {}, {}, dict(here), known=True)
        for symbols, here in zip(states, taken, strict=True)
    )
    return PolicyPicture(policy, OBSERVED, types, made, transitions, numbers, None)


def _walk(
    known: Sequence[tuple[int, ...]],
    steps: Sequence[tuple[int, ...]],
    chosen: Sequence[int],
    types: tuple[str, ...],
) -> tuple[list[tuple[int, ...]], list[Counter[str]], tuple[int, ...], tuple[Transition, ...]]:
    """Number the states, the known ones first, and count what was taken and where it led."""
    number = {state: s for s, state in enumerate(known)}
    way = [number.setdefault(state, len(number)) for state in steps]
    taken: list[Counter[str]] = [Counter() for _ in number]
    for s, t in zip(way, chosen, strict=True):
        taken[s][types[t]] += 1
    moves = Counter(zip(way, [*way[1:], END], chosen, strict=True)) if way else Counter()
    transitions = tuple(Transition(a, b, types[t], count) for (a, b, t), count in moves.items())
    return list(number), taken, tuple(way), transitions


def _names(types: tuple[str, ...], symbols: tuple[int, ...]) -> tuple[str, ...]:
    return tuple(types[t] for t in symbols)
