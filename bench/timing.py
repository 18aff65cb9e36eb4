"""Medians of times that can be compared."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median

Work = Callable[[], object]


def cpu_seconds(work: Work, runs: int) -> float:
    """The median CPU time of one call, by this thread, over `runs` calls after one that is not counted."""
    work()
    return interleaved({"work": work}, runs)["work"]


def interleaved(
    contenders: Mapping[str, Work], runs: int, timer: Callable[[], float] = time.thread_time
) -> dict[str, float]:
    """The median seconds of each by this thread's CPU time, or by `timer`, over `runs` rounds in which all
    take turns.
    """
    return {name: median(times) for name, times in rounds(contenders, runs, timer).items()}


def rounds(
    contenders: Mapping[str, Work], runs: int, timer: Callable[[], float] = time.thread_time
) -> dict[str, list[float]]:
    """The seconds of each in every one of `runs` rounds in which all take turns."""
    taken: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(runs):
        for name, work in contenders.items():
            start = timer()
            work()
            taken[name].append(timer() - start)
    return taken
