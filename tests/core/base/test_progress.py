"""The clock: what is counted to which phase."""

from __future__ import annotations

import pytest

from abw.core.base.progress import Clock


def test_the_time_inside_blocks_is_summed_by_phase() -> None:
    now = 0.0
    clock = Clock("plan", "execute", timer=lambda: now)
    for seconds in (1.0, 2.0):
        with clock("plan"):
            now += seconds
            with clock("execute"):  # phases may overlap, as where one thread plans and another executes
                now += 10.0
        now += 100.0
    with pytest.raises(KeyError, match="wrong"), clock("plan"):
        now += 4.0
        raise KeyError("wrong")
    assert clock.seconds == {"plan": 27.0, "execute": 20.0}
