"""How long work tells whoever waits for it how far it is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Progress(Protocol):
    """What the work calls: a new phase (of `total` steps, None for unknown), and how far it is."""

    def phase(self, name: str, total: int | None = None) -> None:
        """Begin a phase."""

    def reached(self, step: int, note: object = "") -> None:
        """So many of its steps are done."""


class Quiet:
    """Tells nobody."""

    def phase(self, name: str, total: int | None = None) -> None:
        """Begin a phase."""

    def reached(self, step: int, note: object = "") -> None:
        """So many of its steps are done."""


class Clock:
    """Seconds of wall-clock time by phase, summed over all times a phase was entered."""

    def __init__(self, *phases: str) -> None:
        self.seconds = dict.fromkeys(phases, 0.0)

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Count the time inside the block to a phase."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[phase] += time.perf_counter() - start
