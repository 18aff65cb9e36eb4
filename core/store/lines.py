"""Lines that are whole, whenever the program is interrupted and whatever the disk has room for."""

from __future__ import annotations

import os
import stat
from contextlib import suppress

from abw.core.base.files import writing
from abw.core.base.interrupts import finished_before_interrupt


class LineFile:
    """An open file that takes whole lines; `name` is what errors call it."""

    def __init__(self, file: int, name: str) -> None:
        self._file = file
        self._name = name

    def write(self, lines: bytes) -> None:
        """Write lines, all of them. Errors: BrokenPipeError where nobody reads any more, AbwError.

        Where a disk is full, the lines that still fit are kept, and no part of one.
        """
        with finished_before_interrupt(), writing(self._name):
            left = memoryview(lines)
            try:
                while left:
                    left = left[os.write(self._file, left) :]
            except OSError:
                written = len(lines) - len(left)
                self._take_back(written - (lines.rfind(b"\n", 0, written) + 1))
                raise

    def _take_back(self, count: int) -> None:
        """Cut off the last bytes written, where they still are the file's last."""
        with suppress(OSError):
            end = os.lseek(self._file, 0, os.SEEK_CUR)
            about = os.fstat(self._file)
            if count and stat.S_ISREG(about.st_mode) and about.st_size == end:
                os.ftruncate(self._file, end - count)
