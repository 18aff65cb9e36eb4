"""Threads that share a piece of work, as long as each has a core of its own for it."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass

from abw.core.base.interrupts import finished_before_interrupt
from abw.core.base.parallel import current_core, leave

# The most pieces of work that are done alone after one for which another thread had no core.
LONGEST_REST = 64
# One piece in so many is done alone, to know how long that takes.
LOOK_EVERY = 256


@dataclass(slots=True)
class _Known:
    """What a team knows of a kind of work: how many pieces there were, how long an amount of it takes alone,
    how many are done alone after one that was slower, and how many of these are left.
    """

    pieces: int = 0
    pace: float = 0.0
    rest: int = 0
    left: int = 0


class Team:
    """`threads` threads, the caller among them.

    Which of two ways is faster depends on what else the machine does. So the team measures: where sharing
    took longer than the same amount of work takes alone, the next 4 pieces of that kind are done alone, then
    8, up to LONGEST_REST.
    """

    def __init__(self, threads: int) -> None:
        """A team whose threads start when there is something to share."""
        self.threads = threads
        # one pool each: a pool of many may start fewer than wait for each other
        self._others = [ThreadPoolExecutor(1) for _ in range(1, threads)]
        self._kinds: dict[Hashable, _Known] = {}

    def do(
        self, shared: Callable[[int], object], alone: Callable[[], object], amount: int, kind: Hashable = None
    ) -> bool:
        """Do a piece of work, by `share(shared)` or by `alone()`; whether it was shared.

        `amount` says how much work it is, in any unit, beside others of its `kind`.
        """
        known = self._kinds.setdefault(kind, _Known())
        known.pieces += 1
        start = time.perf_counter()
        if known.left or known.pieces % LOOK_EVERY == 1:
            alone()
            known.left = max(0, known.left - 1)
            taken = (time.perf_counter() - start) / amount
            # the best, for some time: while others need the processors, work takes longer alone, too
            usual = known.pace + (taken - known.pace) / 4
            known.pace = taken if known.pieces == 1 else min(taken, usual)
            return False
        self.share(shared)
        slower = (time.perf_counter() - start) / amount > known.pace
        known.rest = min(LONGEST_REST, max(4, 2 * known.rest)) if slower else 0
        known.left = known.rest
        return True

    def share(self, work: Callable[[int], object]) -> None:
        """Call `work(thread)` on every thread, and wait for all. Cost: some 0.03 ms to wake one.

        An error, and a first Ctrl-C, is raised when all are done: until then they read what they were given.
        """
        core = current_core()

        def on_thread(thread: int) -> None:
            leave(core)
            work(thread)

        # threads that wait for this one in the middle of the work would wait for ever
        with finished_before_interrupt():
            waiting = [other.submit(on_thread, thread) for thread, other in enumerate(self._others, 1)]
            try:
                work(0)
            finally:
                wait(waiting)
            for other in waiting:
                other.result()
