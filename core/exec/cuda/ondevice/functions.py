"""Device functions that generated kernels call, in single precision throughout.

What is not a number stays so, and infinities end where NumPy's do. The errors named hold for the device's
`ex2` and `rcp` (see `intrinsics`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda as _cuda
from numba import uint32

from abw.core.exec.cuda.ondevice.intrinsics import ex2, rcp
from abw.core.exec.lower.polynomials import LOG2_E, LOG2_E_REST, TANH_P, TANH_Q

cuda: Any = _cuda

ZERO, ONE = np.float32(0), np.float32(1)
LOG2, MINUS_LOG2, REST = np.float32(LOG2_E), np.float32(-LOG2_E), np.float32(LOG2_E_REST)
LN2 = np.float32(np.log(2))
LOWEST, HIGHEST = np.float32(-110), np.float32(95)
EIGHT, MINUS_EIGHT = np.float32(8), np.float32(-8)
P0, P1, P2, P3 = (np.float32(c) for c in TANH_P)
Q0, Q1, Q2, Q3, Q4 = (np.float32(c) for c in TANH_Q)
NO_ROWS, FIRST, STEP = np.uint32(0), np.uint32(1), np.uint32(2)


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
    return ex2(t) * (ONE + rest * LN2)


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
