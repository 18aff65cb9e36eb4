"""Ctrl-C and the system's wish that a program end, held back where they would leave something half done."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from types import FrameType

from abw.core.base.errors import InterruptedWorkError

# The exit code after Ctrl-C, as typer and shells have it.
INTERRUPTED = 130
# By what the system ends a program: when asked to, and when its terminal is closed (not on Windows).
TERMINATING = tuple(getattr(signal, s) for s in ("SIGTERM", "SIGHUP") if hasattr(signal, s))


class Terminated(SystemExit):
    """The system ends the program; what is half done is cleared away on the way out."""


def stopped(end: KeyboardInterrupt | Terminated, left: str) -> InterruptedWorkError:
    """The error of a program that is stopped: by whom, and what is `left` of its work."""
    if isinstance(end, Terminated):
        return InterruptedWorkError(f"terminated: {left}", exit_code=int(end.code or 1))
    return InterruptedWorkError(f"interrupted: {left}", exit_code=INTERRUPTED)


def end_in_order() -> None:
    """Let the system's wish to end be a `Terminated` in the main thread, where nothing else was arranged.

    And let neither that nor Ctrl-C be lost where Python cannot raise it, as in a callback from C.
    """
    for number in TERMINATING:
        if signal.getsignal(number) is signal.SIG_DFL:
            signal.signal(number, _terminate)
    sys.unraisablehook = _again


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated(128 + number)


def _again(lost: sys.UnraisableHookArgs) -> None:
    """Send the signal once more, when the callback is over."""
    if isinstance(lost.exc_value, Terminated):
        number = int(lost.exc_value.code or 0) - 128
    elif issubclass(lost.exc_type, KeyboardInterrupt):
        number = signal.SIGINT
    else:
        sys.__unraisablehook__(lost)
        return
    # Windows' os.kill ends the process
    again = (signal.raise_signal, (number,)) if os.name == "nt" else (os.kill, (os.getpid(), number))
    later = threading.Timer(0.02, *again)
    later.daemon = True
    later.start()


class Stop:
    """Whether whoever waits for long work has asked it to end after the step under way."""

    asked = False


# Of this process.
STOP = Stop()


@contextmanager
def stopping_after_a_step() -> Iterator[None]:
    """Let a first Ctrl-C in the block ask for its end (`STOP`), and a second one be what it is elsewhere."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return

    def ask(number: int, frame: FrameType | None) -> None:
        if STOP.asked:
            before(number, frame)
        STOP.asked = True
        with suppress(OSError):
            os.write(2, b"\nending after the step under way, with what is measured; Ctrl-C again: at once\n")

    signal.signal(signal.SIGINT, ask)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


Handler = Callable[[int, FrameType | None], object]


class _Hold:
    """The handlers of signals before they were held back, the blocks that hold them, and what arrived."""

    def __init__(self) -> None:
        self.ending: dict[int, Handler] = {}
        self.blocks = 0
        self.came: list[int] = []

    def note(self, number: int, frame: FrameType | None) -> None:
        """The handler meanwhile."""
        if not self.blocks or self.came:
            self.ending[number](number, frame)
        else:
            self.came.append(number)


_HOLD = _Hold()


@contextmanager
def often_held() -> Iterator[None]:
    """Let `finished_before_interrupt` take 1 us in the block, not 0.1 ms; elsewhere signals are as ever."""
    if _HOLD.ending or threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, *TERMINATING)}
    _HOLD.ending = {number: handler for number, handler in handlers.items() if callable(handler)}
    before = _HOLD.ending
    try:
        for number in before:
            signal.signal(number, _HOLD.note)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _HOLD.ending = {}


@contextmanager
def finished_before_interrupt() -> Iterator[None]:
    """Hold back the first signal that would end the block early until it ends; a second one, where the block
    hangs, is at once.

    Cost: some 0.1 ms, inside of `often_held` 1 us.
    """
    if threading.current_thread() is not threading.main_thread():  # others are not interrupted
        yield
        return
    with nullcontext() if _HOLD.ending else often_held():
        _HOLD.blocks += 1
        try:
            yield
        finally:
            _HOLD.blocks -= 1
            ending, came = _HOLD.ending, [] if _HOLD.blocks else _HOLD.came
            if not _HOLD.blocks:
                _HOLD.came = []
    for number in came:
        ending[number](number, None)
