"""Lines that are whole, whenever the program is interrupted."""

from __future__ import annotations

import os

from abw.core.interrupts import finished_before_interrupt


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
