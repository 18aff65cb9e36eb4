"""How much of the machine this process may use."""

from __future__ import annotations

import ctypes
import os
from functools import cache
from typing import Any


def usable_cores() -> int:
    """The cores that this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def current_core() -> int:
    """The number of the core that this thread runs on, for now; -1 where the system does not say."""
    find = _getcpu()
    return int(find()) if find else -1


def leave(core: int) -> None:
    """Go on with this thread on another core, if it is on this one and may be on others.

    Linux may start a thread where the one runs that has woken it, and lets that wait, for as long as 4 ms,
    though another core has nothing to do (so seen with 6.18 on two cores). Cost: some 1 us, or 20 to move.
    """
    if core < 0 or current_core() != core:
        return
    usable = os.sched_getaffinity(0)
    if others := usable - {core}:
        os.sched_setaffinity(0, others)
        os.sched_setaffinity(0, usable)


@cache
def _getcpu() -> Any:  # noqa: ANN401 (a function of the C library)
    try:
        return ctypes.CDLL(None).sched_getcpu if hasattr(os, "sched_setaffinity") else None
    except (OSError, AttributeError):
        return None
