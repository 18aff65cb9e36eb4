"""What the process holds at the marks of a run: `--profile` and `--trace` keep it in the report."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from abw.core.base.memory import resident
from abw.core.run.run import Observer, Ran

# The most marks of mini-batches that are kept; of more, every second one, every fourth, and so on.
MOST = 256


class Resident(Observer[Ran[Any]]):
    """Notes, where it is asked to, what the process holds: some 30 us a mark."""

    def __init__(self, *, asked: bool) -> None:
        """Begin to count the time."""
        self._asked, self._begin = asked, time.perf_counter()
        self._marks: list[dict[str, Any]] = []
        self._every = 1

    def mark(self, name: str, mini_batch: int | None = None) -> None:
        """Something is done: `name`, in a noun; the mini-batch of this number, if it is one."""
        if not self._asked or (mini_batch or 0) % self._every or (held := resident()) is None:
            return
        seconds = time.perf_counter() - self._begin
        self._marks.append(
            {"name": name, "mini_batch": mini_batch, "seconds": seconds, "resident_bytes": held}
        )
        if sum(mark["mini_batch"] is not None for mark in self._marks) > MOST:
            self._every *= 2
            self._marks = [mark for mark in self._marks if (mark["mini_batch"] or 0) % self._every == 0]

    def read(self, ran: Ran[Any]) -> None:
        """A mini-batch has run."""
        self.mark("mini-batch", ran.number)

    def document(self) -> list[dict[str, Any]] | None:
        """The marks in order, for a report: `seconds` from the first line of the run on. None: not known."""
        return self._marks or None

    def report(self, report: dict[str, Any], folder: Path) -> None:
        """All is written."""
        self.mark("writing")
        report["resident"] = self.document()


def told(marks: Sequence[Mapping[str, Any]]) -> list[tuple[str, float, int]]:
    """What is shown, with seconds and bytes: of mini-batches the first, the last, and the one with most."""
    batches = [mark for mark in marks if mark["mini_batch"] is not None]
    most = max(batches, key=lambda mark: mark["resident_bytes"], default=None)
    chosen = [mark for mark in marks if mark["mini_batch"] is None or mark in (batches[0], batches[-1], most)]
    return [(_named(mark), mark["seconds"], mark["resident_bytes"]) for mark in chosen]


def _named(mark: Mapping[str, Any]) -> str:
    return mark["name"] if mark["mini_batch"] is None else f"{mark['name']} {mark['mini_batch']}"
