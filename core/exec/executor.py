"""What every executor is, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.params import Params
from abw.core.graph.graph import Graph
from abw.core.graph.network import Network
from abw.core.plan.plan import Plan

Array = NDArray[np.floating[Any]]


@dataclass(frozen=True, slots=True)
class Result:
    """What running a plan gave: the nodes' outputs, and what it took (counted while running).

    `launches`: batches of operations executed; `memory_kernels`: gathers and copies; `bytes_moved`: what
    those wrote. An executor that knows no batches counts its nodes as batches.
    """

    graph: Graph
    batches: int
    launches: int
    memory_kernels: int
    bytes_moved: int
    lookup: Callable[[int, int], Array]

    def value(self, type: int, output: int) -> Array:
        """Output number `output` of all nodes of type `type`, in the order of the nodes: (n_type, *shape).

        Read it before the executor's next run, which takes the memory again; afterwards it raises
        RuntimeError.
        """
        return self.lookup(type, output)


class Executor(Protocol):
    """Runs plans of one network with one set of parameters."""

    @property
    def name(self) -> str:
        """What the user calls it."""

    def prepare(self, network: Network, params: Params, threads: int | None = None) -> None:
        """Take a network's parameters and do what has to be done once. `threads`: None leaves it to the library."""

    def run(self, plan: Plan) -> Result:
        """Execute a plan of the network prepared."""


def errors(result: Result, expected: Result, network: Network) -> dict[tuple[str, str], float]:
    """The largest error of each (type, output), relative to the root mean square of the expected values.

    An element that is not a number, or infinite, must be the same in both: else the error is infinite. Where
    all expected values are zero the error is absolute. Types without nodes have no entry.
    """
    found = {}
    for t, net_type in enumerate(network.types):
        for o, port in enumerate(net_type.outputs):
            a = np.asarray(result.value(t, o), np.float64)
            b = np.asarray(expected.value(t, o), np.float64)
            if b.size:
                found[net_type.name, port.name] = _error(a, b)
    return found


def compare(result: Result, expected: Result, network: Network) -> float:
    """The largest of `errors`; 0 for a graph without nodes."""
    return max(errors(result, expected, network).values(), default=0.0)


def _error(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not np.isfinite(a[finite]).all():
        return float("inf")
    if not finite.any():
        return 0.0
    largest = float(np.abs(a[finite] - b[finite]).max())
    rms = float(np.sqrt(np.mean(np.square(b[finite]))))
    return largest / rms if rms > 0 else largest
