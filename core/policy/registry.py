"""The policies by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from abw.core.base.errors import AbwError, did_you_mean
from abw.core.graph.dag import Dag
from abw.core.policy.reverse import reversed_dag, reversed_schedule
from abw.core.policy.rules.agenda import Agenda
from abw.core.policy.rules.critical import Critical
from abw.core.policy.rules.depth import Depth
from abw.core.policy.rules.linear import Linear
from abw.core.policy.rules.phases import Phases
from abw.core.policy.rules.sufficient import Sufficient
from abw.core.policy.rules.weight import PATH, SHARE, Weight
from abw.core.policy.schedule import Policy, Schedule
from abw.core.policy.search.search import Repaired, Search
from abw.core.policy.user_policy import is_user_policy, load_user_policy


@dataclass(frozen=True, slots=True)
class Reversed:
    """A policy applied to the reversed graph, its batches executed last to first.

    Both directions need equally many batches at best; which one a rule does better in depends on the model.
    """

    policy: Policy

    def schedule(self, dag: Dag) -> Schedule:
        """Cost: that of the policy, and O(n + m), about 5 ns a node."""
        return reversed_schedule(self.policy.schedule(reversed_dag(dag)))


_MAKE: dict[str, Callable[..., Policy]] = {
    "depth": Depth,
    "agenda": Agenda,
    "agenda-static": lambda **options: Agenda(static=True, **options),
    "phases": Phases,
    "sufficient": Sufficient,
    "critical": Critical,
    "critical-free": lambda **options: Weight(PATH, **options),
    "share": lambda **options: Weight(SHARE, free=False, **options),
    "share-free": lambda **options: Weight(SHARE, **options),
    "weight": lambda **options: Weight(free=False, **options),
    "weight-free": Weight,
    "linear": Linear,
    "beam": lambda **options: Search(width=6, core=12, both=False, work=0, **options),
    "repair": Repaired,
    "search": Search,
    "exact": lambda **options: Search(exact=True, work=10_000, **options),
}
# The policies that need no learning.
PLAIN: tuple[str, ...] = tuple(_MAKE)

LEARNED = "fsm"
CHOSEN = "auto"
POLICIES: tuple[str, ...] = (*PLAIN, LEARNED, CHOSEN)
# What follows a policy's name where it is applied to the reversed graph (`abw.core.policy.reverse`).
REVERSED = "-reversed"
# All that a policy can be named by.
NAMES: tuple[str, ...] = (*POLICIES, *(f"{name}{REVERSED}" for name in PLAIN))

# What each policy picks as the type of the next batch, in one line.
SUMMARIES: dict[str, str] = {
    "depth": "batches are the groups by depth and type, as in TensorFlow Fold",
    "agenda": "the type whose remaining nodes have the smallest average depth, as in DyNet",
    "agenda-static": "as agenda, with averages over all nodes, computed once, as in DyNet's code",
    "phases": "loops of types one after the other, each by depth, as in ACRoBat",
    "sufficient": "the type with the largest share of its own frontier ready (ED-Batch, Lemma 2.1)",
    "critical": "the type of the ready node at the head of the longest remaining path",
    "critical-free": "as critical, but batches that lower the remaining bound or cost go first",
    "share": "the type with the largest share ready, weighted by the remaining path",
    "share-free": "as share, but batches that lower the remaining bound or cost go first",
    "weight": "the type with the largest weight of ready nodes times the square of their share",
    "weight-free": "as weight, but batches that lower the remaining bound or cost go first",
    "linear": "the type with the largest sum of weighed features: ready mass, what joins it next, and others",
    "beam": "a narrow beam search; auto tries it where launches are expensive",
    "repair": "linear in its better direction, shortened by a local search on the sequence of types",
    "search": "a beam search in both directions, then a local search that shortens the best sequence",
    "exact": "as search, longer: the beam widens until the schedule is proven best, or a limit is reached",
    "fsm": "a state machine learned by Q-learning (ED-Batch 2.3)",
    "auto": "the best of these on unseen graphs; the default",
}

# The policies that minimise a cost where they are given one (option `cost`), else the number of batches.
COSTED: tuple[str, ...] = ("critical-free", "share-free", "weight-free", "beam", "search", "exact")


def require_name(name: str, known: Sequence[str] = NAMES) -> None:
    """Raise AbwError unless a name is one of those known, or that of a policy of your own."""
    if name not in known and not is_user_policy(name.removesuffix(REVERSED)):
        raise AbwError(f"no policy is called '{name}'", hint=did_you_mean(name, known), exit_code=2)


def get_policy(name: str, **options: object) -> Policy:
    """The policy of that name, or one of your own (`load_user_policy`); options are the fields of its class.

    Any name can be followed by `-reversed`. `fsm` and `auto` cannot be had by their names alone: see
    `abw.core.policy.learned`. Raises AbwError for an unknown name or option.
    """
    if name in (LEARNED, CHOSEN):
        raise AbwError(f"the policy {name} must be learned first", hint="abw learn SPEC")
    rule = name.removesuffix(REVERSED)
    require_name(name)
    try:
        made = load_user_policy(rule) if is_user_policy(rule) else _MAKE[rule](**options)
    except TypeError as error:
        raise AbwError(f"policy {name}: {error}") from None
    return made if rule == name else Reversed(made)
