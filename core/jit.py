"""The one way this project compiles hot loops with numba."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])


def njit(function: F) -> F:
    """Compile on first call, keep the machine code on disk, release the interpreter's lock.

    Division follows NumPy (no ZeroDivisionError). A cached function does not notice that a function it
    calls from another module has changed (numba looks at the caller's file alone): keep hot loops and what
    they call in one file.
    """
    return cast(F, numba.njit(cache=True, nogil=True, error_model="numpy")(function))
