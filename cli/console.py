"""Printing: results to standard output, everything for people only to standard error."""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from abw.core.base.errors import GLUE, AbwError, printable

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from abw.core.base.grid import Grid
    from abw.core.base.progress import Progress


# Where nobody watches, progress is told so often.
SECONDS = 10.0


# The exit code where nobody reads standard output any more, as shells have it for other programs.
CLOSED_PIPE = 141


# What abw itself prints beyond ASCII, for encodings that lack it; dots of curves are `*`.
PLAIN = {
    "×": "x", "µ": "u", "…": "...", "→": "->", "←": "<-", "≤": "<=", "≥": ">=", "≠": "!=", "–": "-", "—": "-",
    "−": "-", "·": ".", "•": "*", "’": "'", "‘": "'", "“": '"', "”": '"', "│": "|", "─": "-", "━": "-",
    "█": "#", "\xa0": " ", "\u2800": " ", **{bar: str(n) for n, bar in enumerate("▁▂▃▄▅▆▇", 1)},
}  # fmt: skip


def _degraded(error: UnicodeError) -> tuple[str, int]:
    """Characters that an encoding lacks, in ASCII."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found = error.object[error.start : error.end]
    said = (PLAIN.get(c) or ("*" if "\u2800" < c <= "\u28ff" else None) for c in found)
    escaped = (ascii(c)[1:-1] for c in found)
    return "".join(s or e for s, e in zip(said, escaped, strict=True)), error.end


DEGRADED = "abw-ascii"
codecs.register_error(DEGRADED, _degraded)


class Outlet(io.TextIOWrapper):
    """Standard output. Where nobody reads it any more the program ends quietly, with exit code 141.

    Errors: AbwError where it cannot be written, as on a full disk.
    """

    def __init__(self, out: TextIO) -> None:
        # what the encoding does not have is no reason to fail
        super().__init__(out.buffer, out.encoding, DEGRADED, line_buffering=out.isatty())

    def write(self, text: str) -> int:
        """Write a text."""
        with self._told():
            return super().write(text)

    def flush(self) -> None:
        """Write what is still held back."""
        with self._told():
            super().flush()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            # what is left of the text goes nowhere, else it would fail again when the program ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            if isinstance(error, BrokenPipeError):
                raise SystemExit(CLOSED_PIPE) from None
            raise AbwError(f"cannot write standard output: {error.strerror}") from None


@contextmanager
def standard_output() -> Iterator[None]:
    """Let standard output be an `Outlet`, with all of it written at the end; not one closed or redirected."""
    before = sys.stdout
    if not isinstance(before, io.TextIOWrapper):
        yield
        return
    sys.stdout = outlet = Outlet(before)
    try:
        try:
            yield
        finally:
            outlet.flush()
    finally:
        sys.stdout = before
        outlet.detach()


def say(text: object) -> None:
    """Print lines of text on standard output, control characters escaped."""
    print(printable(str(text)))


def print_json(document: Any) -> None:  # noqa: ANN401
    """Print one JSON document, whole: nothing of it is printed where it cannot be made."""
    unicode = sys.stdout.encoding.lower().startswith("utf")
    sys.stdout.write(json.dumps(document, indent=1, ensure_ascii=not unicode) + "\n")


def give(
    report: dict[str, Any], as_json: bool, show: Callable[[dict[str, Any]], None], quiet: bool = False
) -> None:
    """Print a report: as JSON, or for people, by `show`, unless quiet."""
    if as_json:
        print_json(report)
    elif not quiet:
        show(report)


def grid(
    *columns: str, optional: Sequence[str] = (), left: Sequence[str] = (), prose: str | None = None
) -> Grid:
    """A table that is whole at every width (`Grid`)."""
    from abw.core.base.grid import Grid

    return Grid(*columns, optional=optional, left=left, prose=prose)


def show(*things: RenderableType) -> None:
    """Print tables and texts."""
    from abw.core.base.console import Console

    console = Console()
    for thing in things:
        console.print(thing)


class _Lines:
    """Progress where nobody watches: a line a phase, and one every ten seconds of a long one."""

    def __init__(self) -> None:
        self.name = ""
        self.total: int | None = None
        self.told = time.monotonic()

    def phase(self, name: str, total: int | None = None) -> None:
        """Begin a phase."""
        print(printable(f"{name} ..."), file=sys.stderr, flush=True)
        self.name, self.total, self.told = name, total, time.monotonic()

    def reached(self, step: int, note: object = "") -> None:
        """`step` steps of the phase are done."""
        if time.monotonic() > self.told + SECONDS:
            said = note if isinstance(note, str) and note else f"{step} of {self.total or '?'}"
            print(printable(f"{self.name}: {said}"), file=sys.stderr, flush=True)
            self.told = time.monotonic()


class _Live:
    """Progress on a terminal: a bar for the phase under way."""

    def __init__(self, bars: Bars) -> None:
        self.bars = bars
        self.task: TaskID | None = None
        self.total: int | None = None

    def phase(self, name: str, total: int | None = None) -> None:
        """Begin a phase."""
        if self.task is not None:
            self.bars.remove_task(self.task)
        self.total = total
        self.task = self.bars.add_task(name, total=total, note="")

    def reached(self, step: int, note: object = "") -> None:
        """`step` steps of the phase are done."""
        if self.task is not None:
            said = note if isinstance(note, str) and note else f"{step}/{self.total or '?'}"
            self.bars.update(self.task, completed=step, note=said)


@contextmanager
def progress(quiet: bool) -> Iterator[Progress]:
    """Progress for one command: bars on a terminal, lines elsewhere, nothing when quiet."""
    from abw.core.base.progress import Quiet

    if quiet:
        yield Quiet()
    elif sys.stderr.isatty() and not os.environ.get("CI") and os.environ.get("TERM") != "dumb":
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        said, note = TextColumn("{task.description}"), TextColumn("{task.fields[note]}")
        columns = (said, BarColumn(), note, TimeElapsedColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
            yield _Live(bars)
    else:
        yield _Lines()


def amount(value: float, unit: str = "") -> str:
    """A number for people: 1,234, 12.3 k, 4.56 M; no line is broken between it and its unit."""
    for size, prefix in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            scale = 1e3 if prefix == "k" else size
            return f"{value / scale:.3g}{GLUE}{prefix}{unit}"
    text = f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
    return f"{text}{GLUE}{unit}" if unit else text


def say_random(grows: bool) -> None:
    """Say of a model that grows by untrained weights that its graphs are no trained model's."""
    if grows:
        from rich.text import Text

        from abw.core.base.console import Console

        why = ", and what grows depends on them: --weights FILE\n"
        Console().print(Text.assemble(("its weights are random", "yellow"), why))


def counted(number: int, noun: str, plural: str = "s") -> str:
    """A number with its noun: 1 mini-batch, 2 mini-batches."""
    return f"{amount(number)}{GLUE}{noun}{plural if number != 1 else ''}"


def duration(seconds: float) -> str:
    """Seconds for people: 1.23 s, 45.6 ms, 789 µs."""
    for size, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= size:
            return f"{seconds / size:.3g}{GLUE}{unit}"
    return f"{seconds * 1e6:.3g}{GLUE}µs"
