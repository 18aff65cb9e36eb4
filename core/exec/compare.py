"""How far two executors' results are apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.interface import Result
from abw.core.graph.network import Network


@dataclass(frozen=True, slots=True)
class Difference:
    """Of one output of one type: the largest error, relative to the expected values' root mean square."""

    type: str
    output: str
    error: float


def compare(result: Result, expected: Result, network: Network) -> tuple[Difference, ...]:
    """The difference of every (type, output) that has nodes: max |a - b| / rms(b) over the mini-batch.

    What is infinite or not a number in one must be the same in the other: else the error is infinite. Where
    all expected values are zero the error is absolute.
    """
    found = []
    for t, net_type in enumerate(network.types):
        for o, port in enumerate(net_type.outputs):
            a = np.asarray(result.value(t, o), np.float64)
            b = np.asarray(expected.value(t, o), np.float64)
            if b.size:
                found.append(Difference(net_type.name, port.name, _error(a, b)))
    return tuple(found)


def _error(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not np.isfinite(a[finite]).all():
        return float("inf")
    if not finite.any():
        return 0.0
    largest = float(np.abs(a[finite] - b[finite]).max())
    rms = float(np.sqrt(np.mean(np.square(b[finite]))))
    return largest / rms if rms > 0 else largest
