"""The runs of an executor, each of which takes the memory of the one before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.arenas import read_values
from abw.core.exec.params import Params
from abw.core.graph.network import Network
from abw.core.plan.plan import Plan

Floats = NDArray[np.float32]


class Turns:
    """Counts an executor's runs on one network, so that no result is read out of a later run's memory."""

    def __init__(self, network: Network, params: Params) -> None:
        self._network, self._params = network, params
        self._runs = 0

    def begin(self, plan: Plan) -> None:
        """A run begins. Raises ValueError for a plan of another network."""
        if plan.graph.network is not self._network:
            raise ValueError("the plan is of another network than the executor was prepared for")
        self._runs += 1

    def reader(self, memory: Sequence[Floats], plan: Plan) -> Callable[[NDArray[np.integer[Any]]], Floats]:
        """What reads this run's values out of the arenas (see `Result.read`), until the next run begins."""
        run = self._runs

        def read(references: NDArray[np.integer[Any]]) -> Floats:
            if run != self._runs:
                raise RuntimeError("the executor has run again: read a result before that")
            return read_values(memory, plan, self._params, references)

        return read
