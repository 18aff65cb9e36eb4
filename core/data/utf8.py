"""Whether bytes are UTF-8: Python says what is wrong with them, but must make a text of them to tell."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from abw.core.base.jit import njit

_WIDTH = 6
_LAST = np.uint64(63)
_WHOLE, _ONE, _TWO, _THREE, _E0, _ED, _F0, _F4, _WRONG = range(0, 9 * _WIDTH, _WIDTH)
_FIRST = (
    (0x00, 0x7F, _WHOLE),
    (0xC2, 0xDF, _ONE),
    (0xE0, 0xE0, _E0),
    (0xE1, 0xEF, _TWO),
    (0xED, 0xED, _ED),
    (0xF0, 0xF0, _F0),
    (0xF1, 0xF3, _THREE),
    (0xF4, 0xF4, _F4),
)
_FURTHER = (
    (_ONE, 0x80, 0xBF, _WHOLE),
    (_TWO, 0x80, 0xBF, _ONE),
    (_THREE, 0x80, 0xBF, _TWO),
    (_E0, 0xA0, 0xBF, _ONE),
    (_ED, 0x80, 0x9F, _ONE),
    (_F0, 0x90, 0xBF, _TWO),
    (_F4, 0x80, 0x8F, _TWO),
)
"""Which bytes may come (The Unicode Standard, table 3-7): in which state, from where to where, what then."""


def is_utf8(text: NDArray[np.uint8]) -> bool:
    """Whether bytes (n,) are UTF-8. Cost: 0.5 ns a byte."""
    return end_of(text, _steps()) == _WHOLE


@cache
def _steps() -> NDArray[np.uint64]:
    """For each byte, at each state's bits, the state behind it (256,)."""
    behind = np.full((256, 64), _WRONG, np.uint64)
    for first, last, state in _FIRST:
        behind[first : last + 1, _WHOLE] = state
    for before, first, last, state in _FURTHER:
        behind[first : last + 1, before] = state
    at = np.arange(0, 9 * _WIDTH, _WIDTH)
    steps: NDArray[np.uint64] = np.bitwise_or.reduce(behind[:, at] << at.astype(np.uint64), axis=1)
    return steps


@njit
def end_of(text: NDArray[np.uint8], steps: NDArray[np.uint64]) -> int:
    """The state behind a text: an automaton whose step is a shift (P. Vognsen)."""
    state = np.uint64(0)
    for byte in text:
        state = steps[byte] >> (state & _LAST)
    return np.int64(state & _LAST)  # type: ignore[return-value]
