"""What every executor is, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from abw.core.errors import AbwError
from abw.core.exec.params import Params
from abw.core.graph.graph import Graph
from abw.core.graph.network import Network
from abw.core.plan.plan import Counts, Plan
from abw.core.policy.schedule import Schedule


class TooLargeError(AbwError):
    """A plan needs more memory than the device has left: fewer instances at once may fit."""

    def __init__(self, needed: int, free: int, device: str) -> None:
        super().__init__(
            f"a plan needs {needed / 1e9:.2f} GB at once; {free / 1e9:.2f} GB are free on {device}",
            hint="smaller dims, or instances with fewer nodes",
        )


Array = NDArray[np.floating[Any]]
Ints = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Result:
    """What running a plan gave: the nodes' outputs, and what it took, counted while running.

    An executor that knows no batches counts each node as one. `read` gets the values behind references, all
    of one shape; use `values` and `value`. They raise RuntimeError for what the plan did not keep, and after
    the executor's next run, which takes the memory again.
    """

    graph: Graph
    counts: Counts
    read: Callable[[NDArray[np.integer[Any]]], Array]

    def values(self, references: NDArray[np.integer[Any]]) -> Array:
        """The values of m references (see `Network.width`), all of one shape: (m, *shape)."""
        return self.read(references)

    def value(self, type: int, output: int) -> Array:
        """Output number `output` of all nodes of type `type`, in the order of the nodes: (n_type, *shape)."""
        first, last = self.graph.type_ptr[type : type + 2].tolist()
        network = self.graph.network
        found = self.read(np.arange(first, last) * network.width + output)
        return found.reshape(last - first, *network.types[type].outputs[output].shape)


class Executor(Protocol):
    """Runs plans of one network with one set of parameters."""

    @property
    def name(self) -> str:
        """What the user calls it."""

    def prepare(self, network: Network, params: Params, threads: int | None = None) -> None:
        """Take a network's parameters, and do what has to be done once for them.

        `threads`: how many a run may use; None leaves it to the library. Errors: AbwError for several where
        a run cannot be shared.
        """

    def arrange(self, graph: Graph, schedule: Schedule) -> Schedule:
        """The same batches as this executor runs them best, to be planned: in parts, or as they are."""

    def run(self, plan: Plan) -> Result:
        """Execute a plan of the network prepared."""


def refuse_threads(executor: str, threads: int | None) -> None:
    """For executors that cannot share a run. Errors: AbwError where several threads are asked for."""
    if threads is not None and threads > 1:
        raise AbwError(
            f"executor '{executor}' shares no run among threads",
            hint="several threads need --executor cpu, with kernels ir, or --executor blas",
            exit_code=2,
        )
