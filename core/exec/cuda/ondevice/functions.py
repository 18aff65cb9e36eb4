"""Device functions that generated kernels call, in single precision throughout.

What is not a number stays so, and infinities end where NumPy's do. The errors named hold for the device's
`ex2` and `rcp` (see `intrinsics`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda as _cuda
from numba import uint32

from abw.core.exec.cuda.image import FIRST as FIRST_TILE
from abw.core.exec.cuda.image import ITEM, TILES
from abw.core.exec.cuda.ondevice.intrinsics import ex2, halves, rcp
from abw.core.exec.lower.polynomials import (
    LEAST_NORMAL,
    LN2,
    LOG2_E,
    LOG2_E_REST,
    LOG_P,
    NORMAL_END,
    NORMAL_P,
    NORMAL_SLOPE,
    NORMALISE,
    NORMALISED,
    TANH_P,
    TANH_Q,
)

cuda: Any = _cuda

ZERO, ONE = np.float32(0), np.float32(1)
LOG2, MINUS_LOG2, REST = np.float32(LOG2_E), np.float32(-LOG2_E), np.float32(LOG2_E_REST)
LOG_2 = np.float32(LN2)
LOWEST, HIGHEST = np.float32(-110), np.float32(95)
EIGHT, MINUS_EIGHT = np.float32(8), np.float32(-8)
P0, P1, P2, P3 = (np.float32(c) for c in TANH_P)
Q0, Q1, Q2, Q3, Q4 = (np.float32(c) for c in TANH_Q)
L0, L1, L2, L3, L4, L5 = (np.float32(c) for c in LOG_P)
N0, N1, N2, N3, N4, N5, N6, N7 = (np.float32(c) for c in NORMAL_P)
HALF, MINUS_HALF, SLOPE = np.float32(0.5), np.float32(-0.5), np.float32(NORMAL_SLOPE)
FAR = np.float32(NORMAL_END)
LEAST, LARGE, PLACES = np.float32(LEAST_NORMAL), np.float32(NORMALISE), np.float32(NORMALISED)
# From here on there are whole numbers alone.
WHOLE = np.float32(2**23)
INFINITY, NO_NUMBER = np.float32(np.inf), np.float32(np.nan)
NO_ROWS, FIRST, STEP = np.uint32(0), np.uint32(1), np.uint32(2)
_ITEM, _FIRST_TILE, _TILES, _NONE = (np.uint32(k) for k in (ITEM, FIRST_TILE, TILES, 0))


@cuda.jit(device=True)
def sigmoid(x: Any) -> Any:
    """1 / (1 + e^-x); absolute error below 2e-7."""
    return rcp(ONE + ex2(x * MINUS_LOG2))


@cuda.jit(device=True)
def tanh(x: Any) -> Any:
    """x P(x^2) / Q(x^2) for |x| <= 8, beyond which tanh is nearly 1; relative error below 5e-7."""
    x = EIGHT if x > EIGHT else x
    x = MINUS_EIGHT if x < MINUS_EIGHT else x
    z = x * x
    top = ((P0 * z + P1) * z + P2) * z + P3
    return x * top * rcp((((Q0 * z + Q1) * z + Q2) * z + Q3) * z + Q4)


@cuda.jit(device=True)
def exp(x: Any) -> Any:
    """e^x; relative error below 1e-6, what is denormal becomes 0."""
    x = HIGHEST if x > HIGHEST else x
    x = LOWEST if x < LOWEST else x
    t = x * LOG2
    # what rounding x log2(e) lost, as a factor
    rest = cuda.fma(x, LOG2, -t) + x * REST
    return ex2(t) * (ONE + rest * LOG_2)


@cuda.jit(device=True)
def log(x: Any) -> Any:
    """The logarithm of x = m 2^n, m near 1; relative error below 5e-7, near 1, too, and of denormals."""
    m, n = halves(x * LARGE if x < LEAST else x)
    n = n - PLACES if x < LEAST else n
    f = m - ONE
    curved = ((((L0 * f + L1) * f + L2) * f + L3) * f + L4) * f + L5
    result = n * LOG_2 + (f * f * (f * curved - HALF) + f)
    result = result if x < INFINITY else x
    result = -INFINITY if x == ZERO else result
    return NO_NUMBER if x < ZERO else result


@cuda.jit(device=True)
def gelu(x: Any) -> Any:
    """x times the normal distribution up to x; relative error below 2e-6, what is denormal becomes 0."""
    t = abs(x)
    t = FAR if t > FAR else t  # beyond, the tail is 0
    y = rcp(ONE + SLOPE * t)
    tail = ((((((N0 * y + N1) * y + N2) * y + N3) * y + N4) * y + N5) * y + N6) * y + N7
    square = t * t
    # what rounding t^2 lost, as a factor
    lost = cuda.fma(t, t, -square)
    tail = tail * y * exp(MINUS_HALF * square) * (ONE + MINUS_HALF * lost)
    return (ZERO if x < ZERO else x) - t * tail


@cuda.jit(device=True)
def floor(x: Any) -> Any:
    """The largest whole number that is not above x."""
    t = abs(x)
    whole = (t + WHOLE) - WHOLE  # to the nearest
    whole = -whole if x < ZERO else whole
    whole = whole - ONE if whole > x else whole
    return whole if t < WHOLE else x


@cuda.jit(device=True)
def larger(a: Any, b: Any) -> Any:
    """The larger one; not a number where either is none."""
    return a if a > b or a != a else b


@cuda.jit(device=True)
def row(words: Any, slot: Any, lane: Any) -> Any:
    """The float where a lane's row of an operand begins; `slot`: its three words (see `image`)."""
    where = words[slot]
    number = lane
    if where != NO_ROWS:
        number = words[where + lane]
    return uint32(words[slot + FIRST] + number * words[slot + STEP])


@cuda.jit(device=True)
def own_tile(words: Any, at: Any, end: Any, block: Any, blocks: Any) -> Any:
    """(item, tile): a block's first tile of the items from the one at `at` on; `end` where it has none.

    Block b of the plan's kernel takes the tiles b, b + blocks, …, counted from the first one of the phase:
    each item begins where the one before ended, so that all blocks have work.
    """
    while at < end:
        begin = uint32(words[at + _FIRST_TILE] % blocks)
        tile = uint32(block - begin) if block >= begin else uint32(block + blocks - begin)
        if tile < words[at + _TILES]:
            return at, tile
        at = uint32(at + _ITEM)
    return end, _NONE


@cuda.jit(device=True)
def next_tile(words: Any, at: Any, tile: Any, end: Any, block: Any, blocks: Any) -> Any:
    """(item, tile): the block's tile after this one."""
    tile = uint32(tile + blocks)
    if tile < words[at + _TILES]:
        return at, tile
    return own_tile(words, uint32(at + _ITEM), end, block, blocks)
