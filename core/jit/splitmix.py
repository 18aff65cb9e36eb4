"""SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): random numbers by a hash, the same on every machine."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from abw.core.jit.decorators import inner

# What a stream's state grows by from number to number.
GOLDEN = 0x9E3779B97F4A7C15


X = TypeVar("X", np.uint64, NDArray[np.uint64])


def mixed(x: X) -> X:
    """Scramble 64 bits by the finaliser, of each number."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


# `mixed` for compiled functions.
mix = inner(mixed)


@inner
def fraction(x: np.uint64) -> float:
    """A number in [0, 1) of the upper 53 bits."""
    return np.float64(x >> np.uint64(11)) * 2.0**-53
