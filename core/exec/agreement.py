"""How far two executors' results are apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.interface import Result
from abw.core.exec.shaken import lost
from abw.core.graph.fuse import Fusion


@dataclass(frozen=True, slots=True)
class Difference:
    """The largest error of an output of a type, relative to the expected values' root mean square."""

    type: str
    output: str
    error: float


def compare(
    result: Result, expected: Result, fusion: Fusion | None = None, shaken: Sequence[Result] = ()
) -> tuple[Difference, ...]:
    """The difference of every (type, output) that has nodes: max |a - b| / rms(b) over the mini-batch.

    What is infinite or not a number in one must be the same in the other: else the error is infinite. Where
    all expected values are zero the error is absolute. With `fusion` the result is of the network that it
    made, what is expected of the one it was made of: the types that are gone have nothing to compare. Of
    nodes for which `shaken` runs (`shaken_runs`) are far from what is expected, only what goes beyond what
    single precision loses there is an error.
    """
    network = expected.nodes.network
    kept = np.arange(len(network.types)) if fusion is None else np.flatnonzero(~fusion.gone)
    differences = []
    for number, t in enumerate(kept.tolist()):
        net_type = network.types[t]
        for o, port in enumerate(net_type.outputs):
            a = np.asarray(result.value(number, o), np.float64)
            b = np.asarray(expected.value(t, o), np.float64)
            if b.size and shaken:
                allowed = lost(b, [np.asarray(run.value(t, o), np.float64) for run in shaken])
                a = nearer(a, b, allowed.reshape(-1, *[1] * (b.ndim - 1)))
            if b.size:
                differences.append(Difference(net_type.name, port.name, error_of(a, b)))
    return tuple(differences)


def nearer(
    a: NDArray[np.float64], b: NDArray[np.float64], allowed: NDArray[np.float64]
) -> NDArray[np.float64]:
    """What of the values `a` is further from `b` than is allowed: these, nearer to `b` by that."""
    with np.errstate(invalid="ignore"):
        beyond = np.maximum(np.abs(a - b) - allowed, 0.0)
    found = np.where(np.isinf(allowed), b, b + np.sign(a - b) * beyond)
    return np.where(np.isfinite(b) & (np.isfinite(a) | np.isinf(allowed)), found, a)


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
