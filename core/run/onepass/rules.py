"""Chooses the stages that schedule by a policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.policy.learned.choice import ChosenPolicy
from abw.core.policy.learned.fsm import FsmPolicy
from abw.core.policy.learned.states import CRITICAL, ENCODINGS
from abw.core.policy.registry import Reversed
from abw.core.policy.rules.agenda import Agenda
from abw.core.policy.rules.critical import Critical
from abw.core.policy.rules.depth import Depth
from abw.core.policy.rules.phases import Phases
from abw.core.policy.rules.sufficient import Sufficient
from abw.core.policy.rules.weight import Weight
from abw.core.policy.schedule import Policy
from abw.core.run.onepass import schedule
from abw.core.run.onepass import state as at
from abw.core.run.onepass.state import Stage


@dataclass(frozen=True, slots=True)
class Rule:
    """The stages that schedule like a policy, and their parameters in words."""

    stages: tuple[Stage, ...]
    arrays: Mapping[int, NDArray[Any]] = field(default_factory=dict)
    numbers: Mapping[int, int] = field(default_factory=dict)


def rule_of(policy: Policy, order: NDArray[np.int32] | None) -> Rule | None:
    """The stages of a policy for a model whose types have this order, if they have one; None without any."""
    match policy:
        case ChosenPolicy():
            return rule_of(policy.policy, order)
        case Depth():
            return Rule((schedule.depth,))
        case Phases() if order is not None:
            return Rule((schedule.ordered,), {at.ORDER: order})
        case Agenda():
            return Rule((schedule.successors, schedule.agenda), numbers={at.STATIC: policy.static})
        case Critical():
            return Rule((schedule.successors, schedule.path_lengths, schedule.critical))
        case Weight(cost=None):
            lengths = schedule.heights if policy.free else schedule.path_lengths
            numbers = {at.POWER: policy.power, at.FREE: policy.free}
            return Rule((schedule.successors, lengths, schedule.scored), numbers=numbers)
        case Sufficient():
            return Rule((schedule.successors, schedule.sufficient))
        case Reversed(policy=Critical() | Weight() | Sufficient()):
            found = rule_of(policy.policy, order)
            if found is not None:
                first, *rest = found.stages
                return replace(found, stages=(first, schedule.turn, *rest, schedule.turn_back))
        case FsmPolicy():
            return _machine(policy)
    return None


def _machine(policy: FsmPolicy) -> Rule:
    """The stages of an FSM."""
    kind, table = ENCODINGS.index(policy.encoding), policy.table
    paths = (schedule.path_lengths,) if kind == CRITICAL else ()
    words = (at.FSM_SLOTS, at.FSM_PTR, at.FSM_SYMBOLS, at.FSM_VALUE, at.FSM_VISITS, at.FSM_SIZE)
    return Rule(
        (schedule.successors, *paths, schedule.machine),
        {**dict(zip(words, table, strict=True)), at.FSM_ACTION: policy.action},
        {at.ENCODING: kind, at.PHASES: policy.phases},
    )
