"""Threads that share a piece of work, as long as each has a core of its own for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor

from abw.core.base.cores import current_core, leave
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
        self._rest = 0
        self._left = 0
        self._known: dict[Hashable, tuple[int, float]] = {}

    def do(
        self, shared: Callable[[int], object], alone: Callable[[], object], amount: int, kind: Hashable = None
    ) -> bool:
        """Do a piece of work, by `share(shared)` or by `alone()`; whether it was shared.

        `amount` says how much work it is, in any unit, beside others of its `kind`: of each kind the team
        knows how long it takes alone.
        """
        turn, pace = self._known.get(kind, (0, float("inf")))
        start = time.perf_counter()
        if self._left or turn % LOOK_EVERY == 0:
            alone()
            self._left = max(0, self._left - 1)
            taken = (time.perf_counter() - start) / amount
            # the best, for some time: while others need the processors, work takes longer alone, too
            self._known[kind] = turn + 1, min(taken, pace + (taken - pace) / 4) if turn else taken
            return False
        self._known[kind] = turn + 1, pace
        self.share(shared)
        slower = (time.perf_counter() - start) / amount > pace
        self._rest = min(LONGEST_REST, max(4, 2 * self._rest)) if slower else 0
        self._left = self._rest
        return True

    def share(self, work: Callable[[int], object]) -> None:
        """Call `work(thread)` on every thread, and wait for all. Cost: some 0.03 ms to wake one.

        A first Ctrl-C is raised when all are done.
        """
        core = current_core()

        def beside(thread: int) -> None:
            leave(core)
            work(thread)

        # threads that wait for this one in the middle of the work would wait for ever
        with finished_before_interrupt():
            waiting = [self._others.submit(beside, thread) for thread in range(1, self._threads)]
            work(0)
            for other in waiting:
                other.result()
