"""Time in which machine code is compiled or loaded: it is no part of the work that first needs it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager


class _Own(threading.local):
    """A thread's own: how deep it is in compiling, and the seconds of it that no clock has taken yet."""

    depth = 0
    seconds = 0.0


OWN = _Own()


class _All:
    """How many threads compile now, since when any does, and for how many seconds some did before."""

    def __init__(self) -> None:
        self.lock, self.threads, self.since, self.seconds = threading.Lock(), 0, 0.0, 0.0

    def enter(self) -> None:
        with self.lock:
            self.threads += 1
            if self.threads == 1:
                self.since = time.perf_counter()

    def leave(self) -> None:
        with self.lock:
            self.threads -= 1
            if not self.threads:
                self.seconds += time.perf_counter() - self.since

    def working(self) -> float:
        with self.lock:
            now = self.since if self.threads else time.perf_counter()
            return now - self.seconds


_ALL = _All()


@contextmanager
def compiling() -> Iterator[None]:
    """The block compiles or loads machine code. Blocks within it count once."""
    OWN.depth += 1
    if OWN.depth > 1:
        try:
            yield
        finally:
            OWN.depth -= 1
        return
    _ALL.enter()
    start = time.perf_counter()
    try:
        yield
    finally:
        OWN.depth -= 1
        OWN.seconds += time.perf_counter() - start
        _ALL.leave()


def working() -> float:
    """Seconds as of `time.perf_counter`, of a clock that stands still while any thread compiles."""
    return _ALL.working()
