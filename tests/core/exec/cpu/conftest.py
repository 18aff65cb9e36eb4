"""Fixtures of the executor `cpu`'s tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Machine code of these tests' random cells stays out of the user's folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ABW_HOME", str(tmp_path_factory.mktemp("home")))
        yield
