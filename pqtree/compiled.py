"""Kernels as machine code: the same functions, compiled by numba when a large tree first needs them."""

from __future__ import annotations

import functools
import inspect
import os
from contextlib import suppress
from types import FunctionType, ModuleType, SimpleNamespace
from typing import Any

from abw.pqtree import kernel

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
    entries = {}
    for name, function in inspect.getmembers(module, inspect.isfunction):
        _make_callable(function)
        if name in module.ENTRIES:
            entry: Any = jit(function)
            with suppress(RuntimeError):  # there is no place where it could be kept
                entry._cache = CheckedCache(function)
            entries[name] = entry
    return SimpleNamespace(**entries)


@functools.cache
def _make_callable(function: FunctionType) -> None:
    """Let compiled functions call this one. The tree's small functions become part of each caller."""
    from numba.extending import register_jitable

    small = function.__module__ == kernel.__name__ and function.__name__ not in kernel.LARGE
    register_jitable(forceinline=small)(function)
