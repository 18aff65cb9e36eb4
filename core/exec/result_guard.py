"""The runs of an executor, each of which takes the memory of the one before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import mul
from typing import Any, ParamSpec

import numpy as np
from numpy.typing import NDArray

from abw.core.base.memory import available_memory
from abw.core.exec.interface import TooLargeError
from abw.core.exec.params import Params
from abw.core.exec.values import read_rows, read_values
from abw.core.ir.network import Network
from abw.core.plan.arenas import Arenas
from abw.core.plan.plan import Plan

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]
References = NDArray[np.integer[Any]]
Read = Callable[[References], Floats]
P = ParamSpec("P")


class RunEpochs:
    """An executor's runs on one network: no result is read out of memory that was taken by another.

    A run takes the memory of those before it, unless its plan goes on from them (`Plan.earlier`).
    """

    def __init__(self, network: Network, params: Params, *, host: bool = True) -> None:
        """`host`: the arenas lie in this machine's memory."""
        self._network, self._params = network, params
        self._epoch = 0
        self._rows: Ints | None = None
        self._last: Plan | None = None
        self._host = host
        self._held = 0

    def begin(self, plan: Plan) -> None:
        """A run begins. Raises ValueError for a plan of another network, or that goes on from other runs,
        TooLargeError for one whose arenas do not fit the memory that is left.
        """
        if plan.graph.network is not self._network:
            raise ValueError("the plan is of another network than the executor was prepared for")
        self._refuse_too_large(plan.rows, plan.arenas)
        if plan.earlier is None:
            self._epoch += 1
        elif self._rows is None or not np.array_equal(plan.earlier.rows, self._rows):
            raise ValueError("the plan goes on from other runs than the executor's last")
        self._rows, self._last = plan.rows, plan

    def start(self) -> None:
        """A run begins without a plan; `go_on` says what it takes."""
        self._epoch += 1
        self._rows = self._last = None

    def require(self, plan: Plan) -> None:
        """Raise RuntimeError unless this plan's run was the last one to begin."""
        if plan is not self._last:
            raise RuntimeError("the executor's last run was of another plan, or of other parameters")

    def go_on(self, rows: Ints, arenas: Arenas) -> None:
        """The run goes on by itself, and takes so many rows of each arena. Raises TooLargeError."""
        self._refuse_too_large(rows, arenas)
        self._rows = rows

    def _refuse_too_large(self, rows: Ints, arenas: Arenas) -> None:
        """Before memory is taken. Cost: nothing worth mentioning unless the arenas have to grow."""
        needed = 4 * sum(map(mul, rows.tolist(), arenas.row_floats.tolist()))
        if self._host and needed > self._held:
            # of what is taken so that arenas need not grow each time the system gives what is used
            free = available_memory()
            if needed - self._held > free:
                raise TooLargeError(needed, free + self._held, "this machine")
            self._held = needed

    def renew(self, params: Params) -> None:
        """Other parameters: earlier results cannot be read any more. Raises ValueError for other shapes."""
        params.refuse_unlike(self._params)
        self._params = params
        self._epoch += 1
        self._rows = self._last = None

    def reader(self, memory: Sequence[Floats], plan: Plan) -> Read:
        """What reads this run's values out of the arenas (see `Result.read`), until they are taken."""
        return self.guarded(partial(read_values, memory, plan, self._params))

    def placed(self, memory: Sequence[Floats], plan: Plan) -> Callable[[Ints, Ints, References], Floats]:
        """A reader of this run's nodes that are not of its first plan (see `read_rows`)."""
        return self.guarded(partial(read_rows, memory, plan.arenas, plan.graph, self._params))

    def guarded(self, read: Callable[P, Floats]) -> Callable[P, Floats]:
        """The reader, which raises RuntimeError once this run's values are taken."""
        epoch = self._epoch

        def checked(*args: P.args, **kwargs: P.kwargs) -> Floats:
            if epoch != self._epoch:
                raise RuntimeError("the executor has run again: read a result before that")
            return read(*args, **kwargs)

        return checked
