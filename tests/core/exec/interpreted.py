"""The executor njit without its compiler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from unittest.mock import patch

import numpy as np

from abw.core.exec.cpu.njit import executor


@contextmanager
def njit_interpreted() -> Iterator[None]:
    """In the block, modules of the executor njit are run as they are written: numba would take seconds."""
    with patch.object(executor, "_load", _interpreted):
        yield


def _interpreted(source: str) -> ModuleType:
    """The module without compiling it; the loops that it calls are compiled."""
    found = ModuleType("interpreted")
    lines = [line for line in source.splitlines() if not line.startswith(("@numba.njit(", "@allocating"))]
    assert len(lines) < len(source.splitlines())
    with np.errstate(all="ignore"):
        exec("\n".join(lines), found.__dict__)
    return found
