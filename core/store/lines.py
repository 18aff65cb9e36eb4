"""Lines that are whole, whenever the program is interrupted."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class LineFile:
    """An open file that takes whole lines."""

    def __init__(self, file: int) -> None:
        self._file = file

    def write(self, lines: bytes) -> None:
        """Write lines, all of them. Errors: BrokenPipeError where nobody reads any more, other OSErrors."""
        with finished_before_interrupt():
            left = memoryview(lines)
            while left:
                left = left[os.write(self._file, left) :]


@contextmanager
def finished_before_interrupt() -> Iterator[None]:
    """Hold back the first Ctrl-C until the block ends; a second one, at a reader that hangs, is at once."""
    if threading.current_thread() is not threading.main_thread():  # others are not interrupted
        yield
        return
    held: list[int] = []

    def hold(number: int, frame: FrameType | None) -> None:
        if held:
            raise KeyboardInterrupt
        held.append(number)

    before = signal.signal(signal.SIGINT, hold)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if held:
        raise KeyboardInterrupt
