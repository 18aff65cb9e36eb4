"""A schedule: the sequence of batches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Schedule:
    """B batches over n nodes: batch b executes `nodes[ptr[b]:ptr[b + 1]]`, all of type `type[b]`.

    Shapes: `type` (B,), `ptr` (B + 1,), `nodes` (n,), all int32. `unseen` counts the steps at which an FSM
    met a state that it had not seen in training.
    """

    type: NDArray[np.int32]
    ptr: NDArray[np.int32]
    nodes: NDArray[np.int32]
    unseen: int = 0

    def __len__(self) -> int:
        return len(self.type)
