"""What a picture of a schedule needs: the frontier before each batch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.dag import Dag
from abw.core.policy.schedule import Schedule

Ints = NDArray[np.int32]


def ready_counts(dag: Dag, schedule: Schedule) -> Ints:
    """(B, T): the number of ready nodes of each type before batch b. O(n + m + batches * types)."""
    batches, types = len(schedule), len(dag.types)
    turn = np.empty(len(dag), np.int32)
    turn[schedule.nodes] = np.repeat(np.arange(batches, dtype=np.int32), np.diff(schedule.ptr))
    since = np.zeros(len(dag), np.int32)  # the first batch before which a node is ready
    np.maximum.at(since, dag.succ, np.repeat(turn + 1, np.diff(dag.succ_ptr)))
    came = np.bincount(since * types + dag.type, minlength=batches * types)
    went = np.bincount((turn + 1) * types + dag.type, minlength=batches * types)
    change = (came - went[: batches * types]).reshape(batches, types)
    return np.cumsum(change, axis=0, dtype=np.int32)
