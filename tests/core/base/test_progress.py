"""The clock: what is counted to which phase."""

from __future__ import annotations

import signal

import pytest

from abw.core.base.interrupts import STOP
from abw.core.base.progress import Clock, Quiet, each


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


def test_ctrl_c_ends_after_the_step_under_way_and_a_second_one_at_once() -> None:
    before = signal.getsignal(signal.SIGINT)
    try:
        done = []
        for item in each(range(5), Quiet(), "steps"):
            if item == 2:
                signal.raise_signal(signal.SIGINT)
            done.append(item)
        assert (done, STOP.asked) == ([0, 1, 2], True)
        assert signal.getsignal(signal.SIGINT) == before
        STOP.asked = False
        done = []
        with pytest.raises(KeyboardInterrupt):
            for item in each(range(5), Quiet(), "steps"):
                signal.raise_signal(signal.SIGINT)
                done.append(item)
                signal.raise_signal(signal.SIGINT)
        assert done == [0]
    finally:
        STOP.asked = False
        signal.signal(signal.SIGINT, before)
