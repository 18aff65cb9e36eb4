"""Work on several items at once, a thread for each tool, in the order of the items."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import cache
from itertools import count
from queue import SimpleQueue
from typing import TypeVar, cast

T = TypeVar("T")
U = TypeVar("U")
Tool = TypeVar("Tool")

WAITING = 2
"""So many results may wait for earlier ones, or to be taken, beside what is worked on."""

WINDOW = 0.02
"""Seconds over which processor time is compared with the clock's: some slices of the system's scheduler."""
ENOUGH = 0.75
"""Where all threads together get so much of a processor each, nothing else is tried."""
FEWEST, MOST = 4, 64
"""So many windows go by before the other way is tried; twice as many each time that it is no better."""


class Width:
    """Whether all threads work at once, or one alone: whichever gets more processor time.

    Threads that have no processor of their own wait for each other's locks, with less done than by one. So
    the processor time of the process in WINDOW seconds is measured, and where all threads get too little
    (see ENOUGH) now and then one window is left to one of them.
    """

    def __init__(
        self,
        threads: int,
        clock: Callable[[], float] = time.perf_counter,
        used: Callable[[], float] = time.process_time,
    ) -> None:
        """All at once, to begin with. `clock` and `used` give seconds: gone by, and of processor time."""
        self.alone = False
        self._enough = ENOUGH * threads
        self._clock, self._used = clock, used
        self._share = 0.0
        self._trying = False
        self._left = self._stay = FEWEST
        self.begin()

    def begin(self) -> None:
        """Measure from here on: work begins after a pause."""
        self._since, self._before = self._clock(), self._used()

    def look(self) -> None:
        """Decide anew, if a window has gone by. Cost: a microsecond."""
        seconds = self._clock() - self._since
        if seconds < WINDOW:
            return
        share = (self._used() - self._before) / seconds
        self.begin()
        if self._trying:
            better = share > self._share
            self._trying, self._stay = False, FEWEST if better else min(MOST, 2 * self._stay)
            self._left = self._stay
            self.alone ^= not better
        elif not self.alone and share >= self._enough:
            self._left = self._stay = FEWEST
        else:
            self._left -= 1
            if self._left <= 0:
                self._trying, self._share = True, share
                self.alone = not self.alone


@cache
def width_here(threads: int) -> Width:
    """What this process has found out for so many threads: whether processors are busy is the machine's."""
    return Width(threads)


def abreast(
    items: Iterator[T], tools: Sequence[Tool], work: Callable[[Tool, T], U], width: Width | None = None
) -> Generator[U, None, None]:
    """What `work` makes of each item, in their order; each tool works on one at a time, on a thread.

    A thread makes the item that it works on: one is made at a time. What making one raises, or work on it,
    is raised in its place. What has begun is waited for, however the iteration ends. It helps as far as both
    release the interpreter's lock, and processors are free: else the first tool goes on alone, as `width`
    says (default: `width_here`).
    """
    width = width or width_here(len(tools))
    room = threading.Semaphore(len(tools) + WAITING)
    making, numbers = threading.Condition(), count()
    ended = threading.Event()
    results: SimpleQueue[tuple[int, U | None, BaseException | None]] = SimpleQueue()

    def end() -> None:
        with making:
            ended.set()
            making.notify_all()

    def worker(place: int) -> None:
        while True:
            room.acquire()
            number, value, error = -1, None, None
            try:
                with making:
                    making.wait_for(lambda: not (place and width.alone) or ended.is_set())
                    if ended.is_set():
                        return
                    width.look()
                    making.notify_all()
                    number = next(numbers)
                    item = next(items)
                value = work(tools[place], item)
            except BaseException as raised:
                error = raised
                end()
            results.put((number, value, error))

    threads = [
        threading.Thread(target=worker, args=[place], name="abw-abreast", daemon=True)
        for place in range(len(tools))
    ]
    try:
        width.begin()
        for thread in threads:
            thread.start()
        done: dict[int, tuple[U | None, BaseException | None]] = {}
        for number in count():
            while number not in done:
                found, *outcome = results.get()
                done[found] = cast("tuple[U | None, BaseException | None]", tuple(outcome))
            value, error = done.pop(number)
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            yield cast(U, value)
            room.release()
    finally:
        end()
        room.release(len(tools))
        for thread in threads:
            if thread.ident is not None:  # Ctrl-C may have come before it was started
                thread.join()
