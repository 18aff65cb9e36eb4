"""What ends a user's code that runs too long: a signal, whose handler raises where that code is."""

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

# Seconds from one signal to the next: so exactly is time kept.
EVERY = 0.02

# What calls the code of programs.
_CALLERS = {run_through.__code__, GeneratorFiber.resume.__code__, BatchRunner._resumed.__code__}


class Alarm:
    """Stops programs that run when their time is over; one at a time in a process, in its main thread.

    The first may take so many `seconds`; when that was stopped, those that are left have half as long again,
    and so on: together twice that. One that records over `most` nodes before it waits is stopped, too;
    `recorded` counts those of all.
    """

    def __init__(self, seconds: float, recorded: Callable[[], int], most: int) -> None:
        self.seconds, self.recorded, self.most = seconds, recorded, most
        self._left = self._begun = self._end = 0.0
        self._others = 0

    @contextmanager
    def set(self) -> Iterator[None]:
        """Let time count in the block."""
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
        """Why programs that wait are stopped now; '' where they are not."""
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
    """Whether a frame is of a program's code, or of what that calls; abw's own is not to be stopped."""
    theirs = False
    while frame is not None and not is_own(frame.f_code.co_filename):
        frame, theirs = frame.f_back, True
    return theirs and frame is not None and frame.f_code in _CALLERS
