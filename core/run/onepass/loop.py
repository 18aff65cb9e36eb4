"""The loop that runs a pass's stages, and the calls that start it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.jit.addresses import address_of, ask, longs_at, longs_in
from abw.core.jit.decorators import fragment, njit
from abw.core.run.onepass import state as at


@fragment
def run_stages(words: int) -> int:
    """Run the `STAGES` from the `STAGE` on; how the last of them ends."""
    state = longs_at(words, at.WORDS)
    stages = longs_in(state, at.STAGES)
    for s in range(state[at.STAGE], len(stages)):
        state[at.STAGE] = s
        ends = ask(stages[s], words)
        if ends != at.FINE:
            return ends  # type: ignore[no-any-return]
    return at.FINE


@njit
def answer(words: int, text: int, size: int, count: int) -> int:
    """Run `count` instances of a text of so many bytes at an address, or (`text` 0) of the bound ones.

    The words then say where outputs lie, if the result is FINE; any other says why not.
    """
    state = longs_at(words, at.WORDS)
    state[at.NEXT], state[at.TEXT], state[at.SIZE], state[at.COUNT] = 0, text, size, count
    state[at.STAGE] = 0
    return run_stages(words)


@njit
def answer_text(words: int, text: NDArray[np.uint8], count: int) -> int:
    """`answer` to a text that Python has."""
    return answer(words, address_of(text), len(text), count)


@njit
def go_on(words: int) -> int:
    """Continue a pass that ended with AGAIN, or run its next phase."""
    return run_stages(words)
