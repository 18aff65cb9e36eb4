"""What goes wrong in every way: the harness is tried on it. Their names begin with `_`: no run takes them."""

from __future__ import annotations

import ctypes
import time
from pathlib import Path

from abw.core.base.errors import AbwError
from tests.fuzz.target import target


class _RawError(AbwError):
    """One that shows what it was given as it is."""

    def __str__(self) -> str:
        return self.message


@target("_broken", lambda: [b"intact"], damage=lambda rng, cases, number: str(number).encode(), seconds=0.5)
def broken(case: bytes, folder: Path) -> None:
    match case:
        case b"1":
            raise KeyError("a defect")
        case b"2":
            ctypes.string_at(0)
        case b"3":
            time.sleep(1000)
        case b"4":
            end = time.process_time() + 0.6
            while time.process_time() < end:
                pass
        case b"5":
            bytearray(100 << 20)
        case b"6":
            raise _RawError("the window's title: \x1b]0;")
        case b"7":
            raise SystemExit
        case b"8":
            raise AbwError("this is how it should end")


@target("_refused", lambda: [b"intact"], seconds=0.5)
def refused(case: bytes, folder: Path) -> None:
    raise AbwError("whatever it is")
