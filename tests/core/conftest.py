"""What tests of several folders need."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from abw.core.exec.cpu import executor, parts
from abw.core.exec.cpu.team import Team


@pytest.fixture
def always_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads share every run, however small, and however long it takes."""
    monkeypatch.setattr(parts, "APART_FLOPS", 0)
    monkeypatch.setattr(executor, "TOGETHER_FLOPS", 0)
    monkeypatch.setattr(executor, "APART_FLOATS", 0)

    def do(team: Team, shared: Callable[[int], None], *_: object) -> bool:
        team.share(shared)
        return True

    monkeypatch.setattr(Team, "do", do)
