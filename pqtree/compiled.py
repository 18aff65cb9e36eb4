"""The kernel as machine code: the same functions, compiled by numba when a large tree first needs them."""

from __future__ import annotations

import functools
import inspect
import os
from types import SimpleNamespace

from abw.pqtree import kernel

PLAIN_BELOW = 64
"""Trees with fewer leaves stay in plain Python: they are done before a compiled kernel is loaded."""

ENTRIES = ("start", "survey", "reduce_row", "reduce_rows", "encode", "encode_row", "undo")


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
def compiled() -> SimpleNamespace:
    """The kernel's entries, compiled on their first call; the machine code is kept on disk."""
    import numba
    from numba.extending import register_jitable

    for name, function in inspect.getmembers(kernel, inspect.isfunction):
        if name not in ("reduce_rows", "encode_row"):
            register_jitable(forceinline=True)(function)
    jit = numba.njit(cache=True, nogil=True, error_model="numpy")
    return SimpleNamespace(**{name: jit(getattr(kernel, name)) for name in ENTRIES})
