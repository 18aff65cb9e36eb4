"""A schedule: the sequence of batches; and what a policy is, which makes one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.dag import Dag


@dataclass(frozen=True, slots=True, repr=False)
class Schedule:
    """B batches over n nodes: batch b executes `nodes[ptr[b]:ptr[b + 1]]`, all of type `type[b]`.

    Shapes: `type` (B,), `ptr` (B + 1,), `nodes` (n,), all int32. `unseen` counts the steps at which an FSM
    met a state that it had not seen in training. Launch l is the batches `launch_ptr[l]:launch_ptr[l + 1]`
    (L + 1,), none of which reads what another of them computes; None: each batch is a launch. With `split`
    (B, P + 1) there are P parts that need nothing of each other and may be executed at different times: of
    batch b, part p has the lanes `split[b, p]` to `split[b, p + 1] - 1`.
    """

    type: NDArray[np.int32]
    ptr: NDArray[np.int32]
    nodes: NDArray[np.int32]
    unseen: int = 0
    launch_ptr: NDArray[np.int32] | None = None
    split: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return len(self.type)

    def __repr__(self) -> str:
        launched = f", {len(self.launches) - 1} launches" if self.launch_ptr is not None else ""
        return f"Schedule: {len(self.nodes)} nodes in {len(self)} batches{launched}"

    @property
    def launches(self) -> NDArray[np.int32]:
        """`launch_ptr`, also where each batch is a launch."""
        if self.launch_ptr is not None:
            return self.launch_ptr
        return np.arange(len(self) + 1, dtype=np.int32)


class Policy(Protocol):
    """Anything that orders a graph's nodes into batches."""

    def schedule(self, dag: Dag) -> Schedule:
        """Every node once, after its producers, in batches of one type."""
        ...


def ready_counts(dag: Dag, schedule: Schedule, rounds: NDArray[np.int32] | None = None) -> NDArray[np.int32]:
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


def in_rounds(schedule: Schedule, rounds: NDArray[np.int32]) -> bool:
    """Whether a schedule executes each round's nodes before the next round's; `rounds` (n,) are theirs."""
    return bool((np.diff(rounds[schedule.nodes]) >= 0).all())
