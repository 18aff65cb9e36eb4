"""Medians of times that can be compared, and the machine's peak measured between them."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from statistics import median
from typing import TypeVar

from abw.core.exec.cpu.profile import peak_meter
from abw.core.exec.cpu.target import TargetName

K = TypeVar("K", bound=Hashable)
Work = Callable[[], object]
Timer = Callable[[], float]


def interleaved(
    contenders: Mapping[str, Work], runs: int, timer: Timer = time.thread_time, *, warming: int = 0,
    timers: Mapping[str, Timer] | None = None
) -> dict[str, float]:  # fmt: skip
    """The median seconds of each contender: see `rounds`."""
    taken = rounds(contenders, runs, timer, warming=warming, timers=timers)
    return {name: median(times) for name, times in taken.items()}


def rounds(
    contenders: Mapping[K, Work],
    runs: int,
    timer: Timer = time.thread_time,
    *,
    warming: int = 0,
    timers: Mapping[K, Timer] | None = None,
) -> dict[K, list[float]]:
    """The seconds of each contender in each of `runs` rounds in which all take turns.

    Times are this thread's CPU time, or by `timer`; those of some contenders by `timers`. A turn begins with
    `warming` calls that do not count: a stream of mini-batches finds its weights in the caches, which another
    contender would have evicted.
    """
    taken: dict[K, list[float]] = {name: [] for name in contenders}
    for _ in range(runs):
        for name, work in contenders.items():
            clock = (timers or {}).get(name, timer)
            for _ in range(warming):
                work()
            start = clock()
            work()
            taken[name].append(clock() - start)
    return taken


def pooled(
    contenders: Mapping[str, Sequence[Work]], runs: int, timer: Timer, *, warming: int
) -> dict[str, list[float]]:
    """The seconds of contenders with several works each, in turns (see `rounds`), without the first round."""
    work = {(name, i): one for name, works in contenders.items() for i, one in enumerate(works)}
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for (name, _), found in rounds(work, runs + 1, timer, warming=warming).items():
        taken[name] += found[1:]
    return taken


class Peak:
    """The peak of one core in float32 operations a second, measured at each call."""

    def __init__(self, target: TargetName | None = None) -> None:
        self._meter = peak_meter(target)
        self._now: list[float] = []
        self._all: list[float] = []

    def __call__(self) -> None:
        """Measure it once more: the best of five."""
        self._now.append(max(self._meter() for _ in range(5)))

    def flops(self) -> float:
        """The median of what was measured since this was last asked."""
        found = float(median(self._now))
        self._all += self._now
        self._now = []
        return found

    def said(self, target: str = "") -> str:
        """The note below a table."""
        return f"measured peak of one thread{target}: {median(self._all) / 1e9:.1f} GFLOP/s"
