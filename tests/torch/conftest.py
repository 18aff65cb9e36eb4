"""Kernels are compiled as in `tests/core`."""

import pytest

from tests.core.conftest import quickly_compiled as quickly_compiled


@pytest.fixture(autouse=True)
def untimed(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test but those that say so times mini-batches: whether one is slower depends on the machine."""
    from abw.torch import watch

    monkeypatch.setattr(watch, "MOST_TIMED", 0)
