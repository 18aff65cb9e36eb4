"""The part of a dataflow graph that batching looks at: types and edges, as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Dag:
    """n nodes of T types, m edges, without a cycle.

    `types` (T) are the types' names; `type` (n,) a node's type; node v's consumers are
    `succ[succ_ptr[v]:succ_ptr[v + 1]]` ((n + 1,) and (m,), each edge once); `indegree` (n,) its number of
    distinct producers.
    """

    types: tuple[str, ...]
    type: Ints
    succ_ptr: Ints
    succ: Ints
    indegree: Ints

    def __len__(self) -> int:
        return len(self.type)
