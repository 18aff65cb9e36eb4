"""Kernels as machine code: the same functions, compiled by numba when a large tree first needs them."""

from __future__ import annotations

import functools
import inspect
import os
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

from abw.pqtree import kernel, rebuild, survey, table

PARTS = (table, survey, rebuild, kernel)
"""The modules that the kernel's functions are in."""
PLAIN_BELOW = 64
"""Trees with fewer leaves stay in plain Python: they are done before a compiled kernel is loaded."""


def wanted(n: int) -> bool:
    """Whether a tree of n leaves should run compiled: it is large, and numba there and not off."""
    if n < PLAIN_BELOW or os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return False
    try:
        import numba  # noqa: F401
    except ImportError:
        return False
    return True


@functools.cache
def compiled(module: ModuleType = kernel) -> SimpleNamespace:
    """The `ENTRIES` of a kernel, the tree's or one that builds on it, compiled on their first call.

    The machine code is kept on disk until a file changes that has a part in it.
    """
    import numba

    from abw.pqtree.checkedcache import CheckedCache

    jit = numba.njit(nogil=True, error_model="numpy")
    for part in (*PARTS, module):
        for _, function in inspect.getmembers(part, inspect.isfunction):
            _make_callable(function)
    entries: dict[str, Any] = {name: jit(getattr(module, name)) for name in module.ENTRIES}
    for name, entry in entries.items():
        entry._cache = CheckedCache(getattr(module, name), state)
    return SimpleNamespace(**entries)


@functools.cache
def state() -> tuple[str, ...]:
    """What tells one state of the kernel's files from another."""
    return tuple(inspect.getsource(part) for part in PARTS)


@functools.cache
def _make_callable(function: FunctionType) -> None:
    """Let compiled functions call this one. The tree's small functions become part of each caller."""
    from numba.extending import register_jitable

    of_tree = function.__module__ in [part.__name__ for part in PARTS]
    register_jitable(forceinline=of_tree and function.__name__ not in kernel.LARGE)(function)
