"""What a picture of a schedule needs: the frontier before each batch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.dag import Dag
from abw.core.policy.schedule import Schedule

Ints = NDArray[np.int32]


def ready_counts(dag: Dag, schedule: Schedule, rounds: Ints | None = None) -> Ints:
    """(B, T): the number of ready nodes of each type before batch b. O(n + m + batches * types).

    With the `rounds` (n,) in which nodes were executed, none is ready before its round begins: until then
    nobody knew of it.
    """
    batches, types = len(schedule), len(dag.types)
    turn = np.empty(len(dag), np.int32)
    turn[schedule.nodes] = np.repeat(np.arange(batches, dtype=np.int32), np.diff(schedule.ptr))
    since = np.zeros(len(dag), np.int32)  # the first batch before which a node is ready
    if rounds is not None and len(rounds):
        begins = np.full(int(rounds.max()) + 1, batches, np.int32)
        np.minimum.at(begins, rounds, turn)
        since = begins[rounds]
    np.maximum.at(since, dag.succ, np.repeat(turn + 1, np.diff(dag.succ_ptr)))
    came = np.bincount(since * types + dag.type, minlength=batches * types)
    went = np.bincount((turn + 1) * types + dag.type, minlength=batches * types)
    change = (came - went[: batches * types]).reshape(batches, types)
    return np.cumsum(change, axis=0, dtype=np.int32)


def in_rounds(schedule: Schedule, rounds: Ints) -> bool:
    """Whether a schedule executes each round's nodes before the next round's; `rounds` (n,) are theirs."""
    return bool((np.diff(rounds[schedule.nodes]) >= 0).all())
