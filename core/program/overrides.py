"""What the command line says instead of a program's file: `abw.cells` in that file follows it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from abw.core.exec.interface import Executor
from abw.core.policy.schedule import Policy


@dataclass(frozen=True, slots=True)
class NetOverrides:
    """How nets are made, whatever a file says; None, False or empty where the file decides."""

    dims: Mapping[str, int] = field(default_factory=dict)
    weights: Path | None = None
    policy: str | Policy | None = None
    executor: Executor | None = None
    threads: int | None = None
    seed: int | None = None
    allow_outside: bool = False


OVERRIDES: ContextVar[NetOverrides] = ContextVar("overrides", default=NetOverrides())  # noqa: B039 (frozen)


@contextmanager
def overriding(overrides: NetOverrides) -> Iterator[None]:
    """Let `abw.cells` in the block follow these."""
    token = OVERRIDES.set(overrides)
    try:
        yield
    finally:
        OVERRIDES.reset(token)
