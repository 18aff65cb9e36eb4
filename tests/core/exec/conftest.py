"""Fixtures for tests of executors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.core.exec.interpreted import njit_interpreted


@pytest.fixture
def interpreted() -> Iterator[None]:
    """Nothing of the executor njit is compiled."""
    with njit_interpreted():
        yield
