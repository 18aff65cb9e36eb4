"""Threads that share a piece of work, as long as each has a core of its own for it."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from abw.core.base.interrupts import finished_before_interrupt

LONGEST_REST = 64
"""The most pieces of work that are done alone after one for which another thread had no core."""
LOOK_EVERY = 256
"""One piece in so many is done alone, to know how long that takes."""


class Team:
    """`threads` threads, the caller among them.

    Which of two ways is faster depends on what else the machine does. So the team measures: where sharing
    took longer than the same amount of work takes alone, the next 4 pieces are done alone, then 8, up to
    LONGEST_REST.
    """

    def __init__(self, threads: int) -> None:
        """A team whose threads start when there is something to share."""
        self._others = ThreadPoolExecutor(threads - 1)
        self._threads = threads
        self._turn = 0
        self._rest = 0
        self._left = 0
        self._pace = float("inf")

    def do(self, shared: Callable[[int], None], alone: Callable[[], None], amount: int) -> bool:
        """Do a piece of work, by `share(shared)` or by `alone()`; whether it was shared.

        `amount` says how much work it is, in any unit.
        """
        self._turn += 1
        start = time.perf_counter()
        if self._left or self._turn % LOOK_EVERY == 1:
            alone()
            self._left = max(0, self._left - 1)
            self._pace = min(self._pace, (time.perf_counter() - start) / amount)
            return False
        self.share(shared)
        slower = (time.perf_counter() - start) / amount > self._pace
        self._rest = min(LONGEST_REST, max(4, 2 * self._rest)) if slower else 0
        self._left = self._rest
        return True

    def share(self, work: Callable[[int], None]) -> None:
        """Call `work(thread)` on every thread, and wait for all. Cost: some 0.03 ms to wake one.

        A first Ctrl-C is raised when all are done.
        """
        # threads that wait for this one in the middle of the work would wait for ever
        with finished_before_interrupt():
            waiting = [self._others.submit(work, thread) for thread in range(1, self._threads)]
            work(0)
            for other in waiting:
                other.result()
