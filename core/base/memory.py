"""Memory: what this process holds and may still take, by Linux, macOS or Windows."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Iterator
from ctypes import c_size_t, c_uint32, c_uint64, c_void_p
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from abw.core.base.errors import AbwError
from abw.core.base.files import module

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # glibc's malloc.h
_LARGEST_FROM_HEAP = 32 << 20  # the most that glibc accepts
_KEPT = 2**31 - 1
# What is taken without a look at what is free, which takes some 0.1 ms.
_UNASKED = 1 << 24


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
    except (OSError, AttributeError, TypeError):  # on Windows the process is no library
        return None
    try:
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return None
    return _status("VmRSS")


def resident() -> int | None:
    """The bytes that the process holds now; None where no one says (elsewhere than on Linux)."""
    return _status("VmRSS")


def peak_since() -> int | None:
    """The most bytes that the process has held since `settle`; None where that is not known."""
    return _status("VmHWM")


def peak_resident() -> int:
    """The most bytes of memory that this process has held since it began; 0 where no one says."""
    if usage := module("resource"):
        most: int = usage.getrusage(usage.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most << 10  # macOS counts bytes, Linux and the BSDs KiB
    return peak_working_set(kernel32()) or _status("VmHWM") or 0


def _status(name: str) -> int | None:
    found = re.search(rf"^{name}:\s+(\d+) kB", _text(Path("/proc/self/status")), re.MULTILINE)
    return int(found[1]) << 10 if found else None


@dataclass(frozen=True, slots=True)
class _Names:
    """The files of a version of control groups: the limit, what is taken, and the line of `memory.stat` that
    says how much of that are files nobody looked at lately.
    """

    most: str
    taken: str
    dropped: str


_FIRST = _Names("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
_SECOND = _Names("memory.max", "memory.current", "inactive_file")


def available_memory(mounts: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int:
    """Bytes that this process can still take: the least of what the machine has free, its control groups
    allow (of either version, the one it is in and all around it), and its address space (`ulimit -v`).

    What a group's files hold in memory and nobody looked at lately is free: the system drops it first.
    `mounts` is where control groups are, `own` names those of this process.
    """
    return min([_free(), *_group_rooms(mounts, _text(own)), *_address_room()])


def _free() -> int:
    """The machine's free memory; where only its size is known, that."""
    info = _text(Path("/proc/meminfo"))
    if found := re.search(r"^MemAvailable:\s+(\d+) kB", info, re.MULTILINE):
        return int(found[1]) << 10
    if (free := available_physical(kernel32())) is not None:
        return free
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def require_memory(needed: int, what: str, hint: str) -> None:
    """Refuse what would take more memory than there is, before any of it is taken. Errors: AbwError."""
    if needed > _UNASKED and needed > (free := available_memory()):
        raise AbwError(f"{what} would take {shown(needed)} of memory; {shown(free)} are free", hint=hint)


def shown(size: int) -> str:
    """Bytes as people read them: 1.2 GB."""
    return f"{size / 1e9:,.2f} GB" if size >= 1e9 else f"{size / 1e6:,.0f} MB"


def _group_rooms(mounts: Path, own: str) -> Iterator[int]:
    """Yield what each control group with a limit still allows."""
    for line in own.splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if not controllers:
            names, roots = _SECOND, (mounts, mounts / "unified")
        elif "memory" in controllers.split(","):
            names, roots = _FIRST, (mounts / "memory", mounts)
        else:
            continue
        # in a container the path may be the machine's, of which the container sees the end alone: its root
        inner = PurePosixPath(path.lstrip("/"))
        for folder in (root / part for root in roots for part in (inner, *inner.parents)):
            yield from _room(folder, names)


def _room(folder: Path, names: _Names) -> Iterator[int]:
    most, taken = _text(folder / names.most).strip(), _text(folder / names.taken).strip()
    if most.isdecimal() and taken.isdecimal():
        stat = _text(folder / "memory.stat")
        dropped = re.search(rf"^{names.dropped} (\d+)$", stat, re.MULTILINE)
        used = int(taken) - (int(dropped[1]) if dropped else 0)
        yield max(int(most) - used, 0)


def _address_room() -> Iterator[int]:
    """Yield what the limits of this process leave of its addresses, and of its data."""
    if (limits := module("resource")) is None:
        return
    for limit, name in ((limits.RLIMIT_AS, "VmSize"), (limits.RLIMIT_DATA, "VmData")):
        most = limits.getrlimit(limit)[0]
        taken = _status(name)
        if most != limits.RLIM_INFINITY and taken is not None:
            yield max(most - taken, 0)


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


class _Process(ctypes.Structure):
    """PROCESS_MEMORY_COUNTERS of psapi.h."""

    _fields_ = (
        ("cb", c_uint32),
        ("page_faults", c_uint32),
        ("peak_working_set", c_size_t),
        ("working_set", c_size_t),
        ("rest", c_size_t * 6),
    )


class _Machine(ctypes.Structure):
    """MEMORYSTATUSEX of sysinfoapi.h."""

    _fields_ = (
        ("length", c_uint32),
        ("load", c_uint32),
        ("total_physical", c_uint64),
        ("available_physical", c_uint64),
        ("rest", c_uint64 * 5),
    )


def kernel32() -> Any:  # noqa: ANN401 (a library's functions)
    """The library; None elsewhere than on Windows."""
    return ctypes.CDLL("kernel32") if sys.platform == "win32" else None


def peak_working_set(library: Any) -> int | None:  # noqa: ANN401
    """The most bytes that this process has held in memory; None where `library` is none or does not say."""
    if library is None:
        return None
    found = _Process(cb=ctypes.sizeof(_Process))
    library.GetCurrentProcess.restype = c_void_p
    library.K32GetProcessMemoryInfo.argtypes = (c_void_p, c_void_p, c_uint32)
    process = library.GetCurrentProcess()
    said = library.K32GetProcessMemoryInfo(process, ctypes.byref(found), found.cb)
    return int(found.peak_working_set) if said else None


def available_physical(library: Any) -> int | None:  # noqa: ANN401
    """The machine's free memory in bytes; None where `library` is none or does not say."""
    if library is None:
        return None
    found = _Machine(length=ctypes.sizeof(_Machine))
    return int(found.available_physical) if library.GlobalMemoryStatusEx(ctypes.byref(found)) else None
