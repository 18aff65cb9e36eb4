"""Dropout by a hash: what is left out depends on seed, epoch, instance and vertex, not on the mini-batch."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Longs = NDArray[np.int64]

_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))
_STEP = np.uint64(0x9E3779B97F4A7C15)


def chances(seed: int, epoch: int, stream: int, instance: Longs, vertex: Longs) -> NDArray[np.float64]:
    """A number from 0 to 1 (exclusive) for each vertex (n,), numbered within its instance, which has its
    number in the data. `stream` tells several uses apart.

    SplitMix64 (Steele et al., 2014) over the numbers, one after the other. Cost: some 10 ns each.
    """
    with np.errstate(over="ignore"):
        state = np.zeros(len(instance), np.uint64)
        for part in (seed, epoch, stream, instance, vertex):
            state = _mixed(state + np.asarray(part).astype(np.uint64) + _STEP)
    return (state >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _mixed(state: NDArray[np.uint64]) -> NDArray[np.uint64]:
    state = (state ^ (state >> np.uint64(30))) * _MIX[0]
    state = (state ^ (state >> np.uint64(27))) * _MIX[1]
    return state ^ (state >> np.uint64(31))
