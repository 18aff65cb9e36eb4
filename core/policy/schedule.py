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
