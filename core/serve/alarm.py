"""Stops user code that runs too long, by a signal whose handler raises inside that code."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from abw.core.base.errors import AbwError
from abw.core.program.running.fibers import GeneratorFiber, Stopped, run_through
from abw.core.program.running.runner import BatchRunner
from abw.core.script.tracebacks import is_own

# Seconds from one signal to the next, the resolution of time limits.
EVERY = 0.02

# The functions that call the code of programs.
_CALLERS = {run_through.__code__, GeneratorFiber.resume.__code__, BatchRunner._resumed.__code__}


class Alarm:
    """Stops programs whose time is over; used once at a time, in the main thread of a process.

    The first program may take `seconds`; after it was stopped the others have half of that, and so on, twice
    that in all. A program that records over `most` nodes before it waits is stopped, too; `recorded` counts
    the nodes of all programs.
    """

    def __init__(self, seconds: float, recorded: Callable[[], int], most: int) -> None:
        self.seconds, self.recorded, self.most = seconds, recorded, most
        self._left = self._begun = self._end = 0.0
        self._others = 0

    @contextmanager
    def set(self) -> Iterator[None]:
        """Limit the time of the block."""
        before = signal.signal(signal.SIGALRM, self._ring)
        self._left, self._begun = self.seconds, time.monotonic()
        self._end = self._begun + self._left
        signal.setitimer(signal.ITIMER_REAL, EVERY, EVERY)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def over(self) -> str:
        """Return why waiting programs must be stopped now; '' if they need not be."""
        now = time.monotonic()
        if now < self._end:
            return ""
        self._left /= 2
        self._end = now + self._left
        return f"the program had not ended after {now - self._begun:.2g} s, and was stopped"

    def _ring(self, _: int, frame: FrameType | None) -> None:
        if not _is_program(frame):
            return
        nodes = self.recorded()
        self._others = min(self._others, nodes)
        if nodes - self._others > self.most:
            self._others = nodes
            raise AbwError(f"the program called cells over {self.most} times before it waited for a value")
        if why := self.over():
            raise Stopped(why)


def _is_program(frame: FrameType | None) -> bool:
    """Whether a frame runs a program's code or what that calls; abw's own code must not be stopped."""
    theirs = False
    while frame is not None and not is_own(frame.f_code.co_filename):
        frame, theirs = frame.f_back, True
    return theirs and frame is not None and frame.f_code in _CALLERS
