"""What Windows says of memory, asked of its kernel32; None elsewhere."""

from __future__ import annotations

import ctypes
import sys
from ctypes import c_size_t, c_uint32, c_uint64, c_void_p
from typing import Any


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
