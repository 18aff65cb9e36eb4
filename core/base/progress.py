"""How long work tells whoever waits for it how far it is; time spent on compiling is no part of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Protocol, TypeVar

from abw.core.base.interrupts import STOP, stopping_after_a_step


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


T = TypeVar("T")


class Progress(Protocol):
    """Hears how far work is: a new phase (of `total` steps, None for unknown), and steps done."""

    def phase(self, name: str, total: int | None = None) -> None:
        """Begin a phase."""

    def reached(self, step: int, note: object = "") -> None:
        """`step` steps of the phase are done."""


class Quiet:
    """Progress that is not shown."""

    def phase(self, name: str, total: int | None = None) -> None:
        """Begin a phase."""

    def reached(self, step: int, note: object = "") -> None:
        """`step` steps of the phase are done."""


def each(items: Sequence[T], progress: Progress, phase: str) -> Iterator[T]:
    """The items as the steps of a phase, each of which is done when the next one is asked for.

    After Ctrl-C (`STOP`) the step under way is the last one.
    """
    progress.phase(phase, len(items))
    with stopping_after_a_step():
        for number, item in enumerate(items, 1):
            yield item
            progress.reached(number)
            if STOP.asked:
                return


class Clock:
    """Seconds by phase, summed over all times a phase was entered; those of the wall clock, or of `timer`.

    What is compiled in a phase counts to the phase `compile`, or where there is none to no phase.
    """

    def __init__(self, *phases: str, timer: Callable[[], float] | None = None) -> None:
        self.seconds = dict.fromkeys(phases, 0.0)
        self.timer = timer or time.perf_counter

    def __call__(self, phase: str) -> _Timed:
        """Count the time inside the block to a phase."""
        return _Timed(self, phase)

    def note(self, phase: str, start: float, end: float) -> None:
        """Hear of a block that has ended."""


# What times phases: a clock, or nothing.
Times = Callable[[str], AbstractContextManager[Any]]
_NOTHING = nullcontext()


def uncounted(_: str) -> AbstractContextManager[None]:
    """Count no phase."""
    return _NOTHING


class SpanClock(Clock):
    """A clock that also notes when each block began and ended, of the first `most` blocks.

    `spans`: (phase, start, end, thread) in seconds of `time.perf_counter`, in the order of their ends.
    """

    def __init__(self, *phases: str, most: int = 100_000) -> None:
        super().__init__(*phases)
        self.spans: list[tuple[str, float, float, int]] = []
        self._most = most

    def note(self, phase: str, start: float, end: float) -> None:
        """Note a block of this thread."""
        if len(self.spans) < self._most:
            self.spans.append((phase, start, end, threading.get_ident()))


class _Timed:
    """A block whose time counts. A fourth of what a generator's block costs."""

    __slots__ = ("_clock", "_compiled", "_phase", "_start")

    def __init__(self, clock: Clock, phase: str) -> None:
        self._clock, self._phase = clock, phase

    def __enter__(self) -> None:
        self._compiled = OWN.seconds
        self._start = self._clock.timer()

    def __exit__(self, *_: object) -> None:
        end, seconds = self._clock.timer(), self._clock.seconds
        seconds[self._phase] += end - self._start
        if compiled := OWN.seconds - self._compiled:
            seconds[self._phase] -= compiled
            if "compile" in seconds:
                seconds["compile"] += compiled
            OWN.seconds = self._compiled  # blocks around this one have no more of it
        self._clock.note(self._phase, self._start, end)
