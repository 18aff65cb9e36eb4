"""What tests of several folders need."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from abw.core.exec.cpu import launch, partition
from abw.core.exec.cpu.llvm import compiled
from abw.core.exec.cpu.team import Team

# the level of users
OPTIMISED = compiled.LEVEL


@pytest.fixture(scope="module", autouse=True)
def quickly_compiled() -> Iterator[None]:
    """LLVM compiles kernels without optimising: a quarter of the time, and the IR is the same.

    Kernels are as users have them in tests of commands and servers, and with `optimised`.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiled, "LEVEL", 0)
        yield


@pytest.fixture
def optimised(monkeypatch: pytest.MonkeyPatch) -> None:
    """LLVM optimises kernels as it does for users."""
    monkeypatch.setattr(compiled, "LEVEL", OPTIMISED)


@pytest.fixture
def always_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads share every run, however small, and however long it takes."""
    monkeypatch.setattr(partition, "APART_FLOPS", 0)
    monkeypatch.setattr(launch, "TOGETHER_FLOPS", 0)
    monkeypatch.setattr(launch, "APART_FLOATS", 0)

    def do(team: Team, shared: Callable[[int], None], *_: object) -> bool:
        team.share(shared)
        return True

    monkeypatch.setattr(Team, "do", do)
