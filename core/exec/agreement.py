"""How far two executors' results are apart."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.interface import Result
from abw.core.graph.fuse import Fusion


@dataclass(frozen=True, slots=True)
class Difference:
    """The largest error of an output of a type, relative to the expected values' root mean square."""

    type: str
    output: str
    error: float


def compare(result: Result, expected: Result, fusion: Fusion | None = None) -> tuple[Difference, ...]:
    """The difference of every (type, output) that has nodes: max |a - b| / rms(b) over the mini-batch.

    What is infinite or not a number in one must be the same in the other: else the error is infinite. Where
    all expected values are zero the error is absolute. With `fusion` the result is of the network that it
    made, what is expected of the one it was made of: the types that are gone have nothing to compare.
    """
    network = expected.nodes.network
    kept = np.arange(len(network.types)) if fusion is None else np.flatnonzero(~fusion.gone)
    differences = []
    for number, t in enumerate(kept.tolist()):
        net_type = network.types[t]
        for o, port in enumerate(net_type.outputs):
            a = np.asarray(result.value(number, o), np.float64)
            b = np.asarray(expected.value(t, o), np.float64)
            if b.size:
                differences.append(Difference(net_type.name, port.name, error_of(a, b)))
    return tuple(differences)


def error_of(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """The largest |a - b| over the root mean square of b, as `compare` has it."""
    finite = np.isfinite(b)
    if not np.array_equal(a[~finite], b[~finite], equal_nan=True) or not np.isfinite(a[finite]).all():
        return float("inf")
    if not finite.any():
        return 0.0
    largest = float(np.abs(a[finite] - b[finite]).max())
    rms = float(np.sqrt(np.mean(np.square(b[finite]))))
    return largest / rms if rms > 0 else largest
