"""Printing: results to standard output, everything for people only to standard error."""

from __future__ import annotations

import codecs
import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from abw.core.base.errors import GLUE, AbwError, printable

if TYPE_CHECKING:
    from rich.progress import Progress as Bars
    from rich.progress import TaskID

    from abw.core.base.console import Grid
    from abw.core.base.progress import Progress


# Seconds between two lines of progress off a terminal.
SECONDS = 10.0


# The exit code when the reader of standard output is gone, as shells report it for other programs.
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
    """Standard output that ends the program quietly, with exit code 141, when its reader is gone.

    Errors: AbwError if it cannot be written, as on a full disk.
    """

    def __init__(self, out: TextIO) -> None:
        # characters that the encoding lacks are no reason to fail
        super().__init__(out.buffer, out.encoding, DEGRADED, line_buffering=out.isatty())

    def write(self, text: str) -> int:
        """Write a text."""
        with self._guarded():
            return super().write(text)

    def flush(self) -> None:
        """Write what is buffered."""
        with self._guarded():
            super().flush()

    @contextmanager
    def _guarded(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            # the rest of the text is discarded, else it would fail again when the program ends
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
            if isinstance(error, BrokenPipeError):
                raise SystemExit(CLOSED_PIPE) from None
            raise AbwError(f"cannot write standard output: {error.strerror}") from None


@contextmanager
def standard_output() -> Iterator[None]:
    """Make standard output an `Outlet` in the block, unless it is closed or redirected."""
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
    """Print one JSON document, or nothing if it cannot be encoded."""
    unicode = sys.stdout.encoding.lower().startswith("utf")
    sys.stdout.write(json.dumps(document, indent=1, ensure_ascii=not unicode) + "\n")


def grid(
    *columns: str,
    optional: Sequence[str] = (),
    left: Sequence[str] = (),
    prose: str | None = None,
) -> Grid:
    """Make a table that is whole at every width (`Grid`)."""
    from abw.core.base.console import Grid

    return Grid(*columns, optional=optional, left=left, prose=prose)


# Columns of a table of records: by heading a key with a format, or a function of the row.
Columns = dict[str, str | Callable[[Any], Any]]


def table(
    rows: Iterable[Mapping[str, Any]],
    columns: Columns,
    *,
    style: Callable[[Any], str | None] = lambda row: None,
    **layout: Any,  # noqa: ANN401 (as of `grid`)
) -> Grid:
    """Make a table of records.

    `columns`: by heading, a key with a format (`nodes:,`) or a function of the row; None is left blank.
    `style`: of a row. `layout`: as of `grid`.
    """
    made = grid(*columns, **layout)
    for row in rows:
        made.add_row(*(_cell(row, column) for column in columns.values()), style=style(row))
    return made


def _cell(row: Mapping[str, Any], column: str | Callable[[Any], Any]) -> Any:  # noqa: ANN401 (a text)
    if callable(column):
        return column(row)
    key, _, format = column.partition(":")
    value = row[key]
    if isinstance(value, list):
        return ", ".join(value)
    return "" if value is None else f"{value:{format}}"


def listed(texts: Iterable[str], most: int, noun: str = "") -> str:
    """List the first texts: `a, b and 3 types more`."""
    found = list(texts)
    rest = len(found) - most
    return ", ".join(found[:most]) + (f" and {rest} {noun} more".replace("  ", " ") if rest > 0 else "")


def show(*things: Any, style: str | None = None, whole: bool = False, on_stderr: bool = False) -> None:  # noqa: ANN401
    """Print tables and texts for people, one below the other.

    A text that is styled in parts is a list of texts and of pairs (text, style). `whole`: lines are not
    wrapped at the terminal's width.
    """
    from rich.text import Text

    from abw.core.base.console import Console

    console = Console(stderr=on_stderr)
    for thing in things:
        text = Text.assemble(*thing) if isinstance(thing, list) else thing
        console.print(text, style=style, soft_wrap=whole)


class _Lines:
    """Progress off a terminal: a line for each phase, and one every ten seconds of a long one."""

    def __init__(self) -> None:
        self.name = ""
        self.total: int | None = None
        self.since = time.monotonic()

    def phase(self, name: str, total: int | None = None) -> None:
        """Report that a phase begins."""
        print(printable(f"{name} ..."), file=sys.stderr, flush=True)
        self.name, self.total, self.since = name, total, time.monotonic()

    def reached(self, step: int, note: object = "") -> None:
        """Report that `step` steps of the phase are done."""
        if time.monotonic() > self.since + SECONDS:
            said = note if isinstance(note, str) and note else f"{step} of {self.total or '?'}"
            print(printable(f"{self.name}: {said}"), file=sys.stderr, flush=True)
            self.since = time.monotonic()


class _Live:
    """Progress on a terminal: a bar for the phase under way."""

    def __init__(self, bars: Bars) -> None:
        self.bars = bars
        self.task: TaskID | None = None
        self.total: int | None = None

    def phase(self, name: str, total: int | None = None) -> None:
        """Report that a phase begins."""
        if self.task is not None:
            self.bars.remove_task(self.task)
        self.total = total
        self.task = self.bars.add_task(name, total=total, note="")

    def reached(self, step: int, note: object = "") -> None:
        """Report that `step` steps of the phase are done."""
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
    """Format a number: 1,234, 12.3 k, 4.56 M; no line breaks before the unit."""
    for size, prefix in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            scale = 1e3 if prefix == "k" else size
            return f"{value / scale:.3g}{GLUE}{prefix}{unit}"
    text = f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"
    return f"{text}{GLUE}{unit}" if unit else text


def say_random(grows: bool) -> None:
    """Warn that what a model grows by untrained weights is not what a trained model would grow."""
    if grows:
        show([("its weights are random", "yellow"), ", and what grows depends on them: --weights FILE\n"])


def counted(number: int, noun: str, plural: str = "s") -> str:
    """Format a number with its noun: 1 mini-batch, 2 mini-batches."""
    return f"{amount(number)}{GLUE}{noun}{plural if number != 1 else ''}"


def duration(seconds: float) -> str:
    """Format seconds: 1.23 s, 45.6 ms, 789 µs."""
    for size, unit in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= size:
            return f"{seconds / size:.3g}{GLUE}{unit}"
    return f"{seconds * 1e6:.3g}{GLUE}µs"
