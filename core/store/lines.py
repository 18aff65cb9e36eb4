"""Lines that are whole, whenever the program is interrupted."""

from __future__ import annotations

import json
import os
import signal
import threading
from collections.abc import Iterator, Mapping
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


def json_line(name: str | int, line: int, values: Mapping[str, bytes], error: str) -> bytes:
    """One instance's line; `values` are JSON texts by the outputs' names."""
    head = f'{{"id": {json.dumps(name, ensure_ascii=False)}, "line": {line}, "outputs": '.encode()
    if error:
        return head + f'null, "error": {json.dumps(error, ensure_ascii=False)}}}\n'.encode()
    members = b", ".join(json.dumps(key).encode() + b": " + text for key, text in values.items())
    return head + b"{" + members + b"}}\n"
