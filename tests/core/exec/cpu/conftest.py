"""Fixtures of the executor `cpu`'s tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(scope="session", autouse=True)
def kernels(kernels_home: Path) -> Iterator[None]:
    """Machine code of these tests' random cells stays out of the user's folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ABW_HOME", str(kernels_home))
        yield
