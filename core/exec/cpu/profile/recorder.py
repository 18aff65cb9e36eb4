"""Each batch of each run, when and on which thread it was executed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.cpu.llvm.clock import LOG, LOGGED, NOTED, ROOM
from abw.core.exec.interface import Executed
from abw.core.jit.pointers import Table
from abw.core.plan.plan import Plan
from abw.core.policy.schedule import Schedule

Longs = NDArray[np.int64]


class Recorder:
    """Notes of the stamped walker, of `most` runs at most, in ticks until they are read."""

    def __init__(self, clocks: list[Longs], by_column: Longs, most: int) -> None:
        """`clocks`: the threads'; `by_column` (T,): whether threads share a type's rows by their columns."""
        self._clocks, self._by_column, self._most = clocks, by_column, most
        self._tables = [Table(clock) for clock in clocks]
        self._logs = [np.empty((0, NOTED), np.int64) for _ in clocks]
        self._runs: list[tuple[Schedule, Longs, int, list[Longs]]] = []

    def begin(self, plan: Plan) -> None:
        """Make room for what a run of this plan will note."""
        if len(self._runs) == self._most:
            return
        split = plan.schedule.split
        room = len(plan.schedule) * (1 if split is None else split.shape[1] - 1)
        for thread, clock in enumerate(self._clocks):
            if len(self._logs[thread]) < room:
                self._logs[thread] = np.empty((room, NOTED), np.int64)
            self._tables[thread].point((0, LOG), self._logs[thread])
            clock[0, LOGGED], clock[0, ROOM] = 0, room

    def end(self, plan: Plan, threads: int) -> None:
        """Take what a run of this plan on so many threads has noted."""
        if len(self._runs) == self._most:
            return
        noted = []
        for clock, log in zip(self._clocks, self._logs, strict=True):
            noted.append(log[: clock[0, LOGGED]].copy())
            clock[0, LOG : ROOM + 1] = 0
        self._runs.append((plan.schedule, plan.arenas.product_flops, threads, noted))

    def runs(self, seconds: Callable[[Longs], NDArray[np.float64]], peak: float) -> list[Executed]:
        """All so far; `seconds` of ticks are those of `time.perf_counter`, `peak` is operations a second."""
        return [self._run(*run, seconds, peak) for run in self._runs]

    def _run(
        self,
        schedule: Schedule,
        flops_of: Longs,
        threads: int,
        noted: list[Longs],
        seconds: Callable[[Longs], NDArray[np.float64]],
        peak: float,
    ) -> Executed:
        thread = np.repeat(np.arange(len(noted)), [len(log) for log in noted])
        batch, first, last, begin, end = np.concatenate(noted).T
        kind = schedule.type[batch]
        # of rows shared by columns each thread computes its part
        together = threads > 1 and schedule.split is None
        parts = np.where(self._by_column[kind] & together, threads, 1)
        flops = flops_of[kind] * (last - first) / parts
        start, stop = seconds(begin), seconds(end)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.where(flops > 0, flops / (stop - start) / peak, np.nan)
        return Executed(thread, batch, kind, last - first, start, stop, share)
