"""What the command line says instead of a program's file: `abw.cells` in that file goes by it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

from abw.core.exec.interface import Executor
from abw.core.policy.schedule import Policy


@dataclass(frozen=True, slots=True)
class Told:
    """None, False or nothing where the file's own word holds; `dims` change those that they name."""

    dims: Mapping[str, int] = field(default_factory=dict)
    weights: Path | None = None
    policy: str | Policy | None = None
    executor: Executor | None = None
    threads: int | None = None
    seed: int | None = None
    allow_outside: bool = False


_TOLD: ContextVar[Told] = ContextVar("told", default=Told())  # noqa: B039 (frozen)


def told() -> Told:
    """What is said just now."""
    return _TOLD.get()


@contextmanager
def telling(said: Told) -> Iterator[None]:
    """Let `abw.cells` in the block go by what is said."""
    token = _TOLD.set(said)
    try:
        yield
    finally:
        _TOLD.reset(token)
