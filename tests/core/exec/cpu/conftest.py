"""Fixtures of the executor `cpu`'s tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from abw.core.exec.cpu import executor, parts
from abw.core.exec.cpu.team import Team


@pytest.fixture(scope="session", autouse=True)
def kernels(kernels_home: Path) -> Iterator[None]:
    """Machine code of these tests' random cells stays out of the user's folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ABW_HOME", str(kernels_home))
        yield


@pytest.fixture
def always_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads share every run, however small, and however long it takes."""
    monkeypatch.setattr(parts, "APART_FLOPS", 0)
    monkeypatch.setattr(executor, "TOGETHER_FLOPS", 0)

    def do(team: Team, shared: Callable[[int], None], alone: Callable[[], None], amount: int) -> bool:
        team.share(shared)
        return True

    monkeypatch.setattr(Team, "do", do)
