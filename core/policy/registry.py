"""The policies by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from abw.core.errors import AbwError, did_you_mean
from abw.core.graph.dag import Dag
from abw.core.policy.agenda import Agenda
from abw.core.policy.critical import Critical
from abw.core.policy.depth import Depth
from abw.core.policy.frugal import Frugal
from abw.core.policy.phases import Phases
from abw.core.policy.schedule import Schedule
from abw.core.policy.search import Search
from abw.core.policy.sufficient import Sufficient


class Policy(Protocol):
    """Anything that orders a graph's nodes into batches."""

    def schedule(self, dag: Dag) -> Schedule:
        """Every node once, after its producers, in batches of one type."""
        ...


_MAKE: dict[str, Callable[..., Policy]] = {
    "depth": Depth,
    "agenda": Agenda,
    "agenda-static": lambda **options: Agenda(static=True, **options),
    "phases": Phases,
    "sufficient": Sufficient,
    "critical": Critical,
    "critical-free": Frugal,
    "search": Search,
}
PLAIN: tuple[str, ...] = tuple(_MAKE)
"""The policies that need no learning."""

LEARNED = "fsm"
POLICIES: tuple[str, ...] = (*PLAIN, LEARNED)
SUMMARIES: dict[str, str] = {
    "depth": "nothing: batches are the (depth, type) groups, as in TensorFlow Fold",
    "agenda": "the type whose remaining nodes have the smallest average depth, as DyNet's; then the first",
    "agenda-static": "the same with the average over all nodes, computed once, as DyNet's code does",
    "phases": "ACRoBat's: the loops of types one after the other, by depth inside each",
    "sufficient": "the type with the largest share of its own frontier ready (ED-Batch, Lemma 2.1)",
    "critical": "the type of the ready node at the head of the longest remaining path",
    "critical-free": "the same, but batches that lower the remaining lower bound, or cost, go first",
    "search": "beam search over sequences of types; slow: shows what is attainable",
    "fsm": "what a state machine says that was learned by Q-learning (ED-Batch 2.3); the default",
}
"""What each policy picks as the type of the next batch, in one line."""

COSTED: tuple[str, ...] = ("critical-free", "search")
"""The policies that minimise a cost where they are given one (option `cost`), else the number of batches."""


def get_policy(name: str, **options: object) -> Policy:
    """The policy of that name; the options are the fields of its class.

    `fsm` cannot be had by its name alone: see `abw.core.policy.learner.learn`. Raises AbwError for an unknown
    name or option.
    """
    if name == LEARNED:
        raise AbwError("the policy fsm must be learned first", hint="abw learn SPEC")
    if name not in _MAKE:
        raise AbwError(f"no policy is called '{name}'", hint=did_you_mean(name, POLICIES))
    try:
        return _MAKE[name](**options)
    except TypeError as error:
        raise AbwError(f"policy {name}: {error}") from None
