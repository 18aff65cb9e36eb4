"""How this process takes memory from the system."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from pathlib import Path

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # glibc's malloc.h
_LARGEST_FROM_HEAP = 32 << 20  # the most that glibc accepts
_KEPT = 2**31 - 1


def keep_freed_memory() -> bool:
    """Let the C library keep what is freed for the next array, instead of giving it back page by page.

    A mini-batch's arrays are of 0.1 to 10 MB, and are made anew for each: with glibc's defaults their pages
    are returned and fetched again every time, which takes longer than filling them. Returns whether it could
    be set (only where the C library is glibc).
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    settings = {_MMAP_THRESHOLD: _LARGEST_FROM_HEAP, _TRIM_THRESHOLD: _KEPT, _TOP_PAD: _LARGEST_FROM_HEAP}
    return all(mallopt(name, value) == 1 for name, value in settings.items())


def settle() -> int | None:
    """Give back what is free, begin a new peak, and say what the process holds (bytes); None where the system
    does not let its peak begin anew (elsewhere than on Linux).
    """
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        return None
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return None
    return _status("VmRSS")


def peak_since() -> int | None:
    """The most bytes that the process has held since `settle`; None where that is not known."""
    return _status("VmHWM")


def _status(name: str) -> int | None:
    found = re.search(rf"^{name}:\s+(\d+) kB", _text(Path("/proc/self/status")), re.MULTILINE)
    return int(found[1]) << 10 if found else None


def available_memory(group: Path = Path("/sys/fs/cgroup")) -> int:
    """The bytes that this process can still take: what the machine has free, and its control group allows.

    What the group's files hold in memory and nobody looked at lately is free: the system drops it first.
    """
    free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    info = _text(Path("/proc/meminfo"))
    if found := re.search(r"^MemAvailable:\s+(\d+) kB", info, re.MULTILINE):
        free = int(found[1]) << 10
    most, taken = _text(group / "memory.max").strip(), _text(group / "memory.current").strip()
    if most.isdecimal() and taken.isdecimal():
        dropped = re.search(r"^inactive_file (\d+)$", _text(group / "memory.stat"), re.MULTILINE)
        used = int(taken) - (int(dropped[1]) if dropped else 0)
        free = min(free, max(int(most) - used, 0))
    return free


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""
