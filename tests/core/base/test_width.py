"""How many threads work at once, by a clock and processors that the tests make up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

import pytest

from abw.core.base.abreast import FEWEST, MOST, WINDOW, Width, abreast
from tests.core.base.test_ahead import WAIT


@dataclass
class Machine:
    """Time goes by in whole windows, in which threads get the share of a processor that the test says."""

    together: float
    alone: float = 1.0
    seconds: float = 0.0
    used: float = 0.0

    def pass_by(self, width: Width) -> bool:
        """A window, in which nobody looks before its end; whether one thread worked alone."""
        alone = width.alone
        self.seconds += 1.01 * WINDOW
        self.used += 1.01 * WINDOW * (self.alone if alone else self.together)
        width.look()
        return alone


def made(machine: Machine, threads: int = 2) -> Width:
    return Width(threads, lambda: machine.seconds, lambda: machine.used)


@pytest.mark.parametrize(("threads", "together"), [(2, 1.7), (4, 3.3), (8, 7.9)])
def test_on_idle_processors_all_work_all_the_time(threads: int, together: float) -> None:
    machine = Machine(together)
    width = made(machine, threads)
    assert not any(machine.pass_by(width) for _ in range(1000))


@pytest.mark.parametrize(
    ("together", "alone", "better"), [(0.85, 1.0, True), (1.2, 1.0, False), (1.0, 0.6, False)]
)
def test_beside_busy_processes_what_gets_more_is_done_nearly_always(
    together: float, alone: float, better: bool
) -> None:
    machine = Machine(together, alone)
    width = made(machine)
    passed = [machine.pass_by(width) for _ in range(2000)]
    assert passed.count(better) > 0.97 * len(passed)
    # and the other way is tried again and again, for the machine may be another by then
    at = [k for k, alone in enumerate(passed) if alone is not better]
    assert max(b - a for a, b in pairwise(at)) <= MOST + 1


@pytest.mark.parametrize(("before", "after"), [(0.8, 1.9), (1.9, 0.8)])
def test_it_changes_with_the_machine(before: float, after: float) -> None:
    machine = Machine(before)
    width = made(machine)
    for _ in range(500):
        machine.pass_by(width)
    machine.together = after
    passed = [machine.pass_by(width) for _ in range(MOST + 2 * FEWEST)]
    assert width.alone == passed[-1] == (after < 1)


def test_time_between_runs_counts_for_nothing() -> None:
    machine = Machine(1.9)
    width = made(machine)
    for _ in range(100):
        machine.seconds += 60
        width.begin()
        assert not any(machine.pass_by(width) for _ in range(FEWEST))


def test_a_moment_decides_nothing() -> None:
    machine = Machine(0.1)
    width = made(machine)
    for _ in range(1000):
        machine.seconds += WINDOW / 1001
        width.look()
    assert not width.alone


class Fixed(Width):
    """One thread alone from the `first` item that is looked at to before the `last`."""

    def __init__(self, first: int, last: int) -> None:
        super().__init__(3)
        self._now, self._between = 0, range(first, last)

    def look(self) -> None:
        """The next item."""
        self._now += 1
        self.alone = self._now in self._between


@pytest.mark.parametrize(("first", "last"), [(1, 1000), (5, 40), (1, 2), (40, 1000)])
def test_one_alone_does_the_same_in_order(first: int, last: int) -> None:
    before = threading.active_count()
    found = abreast(iter(range(60)), range(3), lambda _, item: item, Fixed(first, last))
    assert list(found) == list(range(60))
    assert threading.active_count() == before


def test_alone_means_one_at_a_time() -> None:
    busy = threading.Lock()

    def work(tool: int, item: int) -> int:
        assert busy.acquire(blocking=False)
        assert tool == 0
        busy.release()
        return item

    width = Fixed(1, 1000)
    width.alone = True
    assert list(abreast(iter(range(200)), range(3), work, width)) == list(range(200))


def test_all_come_back_when_one_has_been_alone() -> None:
    together = threading.Barrier(3)

    def work(_: int, item: int) -> int:
        if item >= 20:
            together.wait(WAIT)
        return item

    assert list(abreast(iter(range(26)), range(3), work, Fixed(1, 21))) == list(range(26))


@pytest.mark.parametrize("stop", [lambda found: found.close(), lambda found: list(found)])
def test_threads_that_rest_end_too(stop: Callable[[object], object]) -> None:
    def work(_: int, item: int) -> int:
        if item == 5:
            raise KeyError("here")
        return item

    before = threading.active_count()
    width = Fixed(1, 1000)
    width.alone = True
    found = abreast(iter(range(50)), range(3), work, width)
    assert [next(found) for _ in range(3)] == [0, 1, 2]
    with suppress(KeyError):
        stop(found)
    assert threading.active_count() == before
