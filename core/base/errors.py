"""Errors a user can meet: each says what is wrong, where, and what to do about it."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any


class AbwError(Exception):
    """Something the user can mend; printed without a traceback.

    `hint` says what to do next; `exit_code` is what the command line returns (1: failed, 2: usage).
    """

    def __init__(self, message: str, *, hint: str = "", exit_code: int = 1) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.exit_code = exit_code

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, vars(self))

    def __str__(self) -> str:
        return printable(f"{self.message}\n  hint: {self.hint}" if self.hint else self.message)


def _restored(kind: type[AbwError], args: tuple[Any, ...], content: dict[str, Any]) -> AbwError:
    """Make an error from another process again, without the arguments that it was first made of."""
    error = kind.__new__(kind, *args)
    vars(error).update(content)
    return error


class InterruptedWorkError(AbwError):
    """The user or the system stopped the work; the message says what is left of it."""


def from_system(error: MemoryError | OSError | RecursionError | UnicodeError) -> AbwError:
    """Turn what the system or Python refused into one line: its cause, and the file where that is known."""
    if isinstance(error, MemoryError):
        asked = f": {error}" if str(error) else ""
        return AbwError(f"not enough memory{asked}", hint="smaller mini-batches (--batch) take less")
    if isinstance(error, OSError):
        reason = error.strerror or str(error) or type(error).__name__
        return AbwError(f"{error.filename}: {reason}" if error.filename else reason)
    if isinstance(error, RecursionError):
        return AbwError("something is nested too deeply to be read")
    return AbwError(f"a text is not in the encoding it should have: {error}")


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a file: 1-based line and column, the line's text, the length of what is meant."""

    file: str
    line: int
    column: int = 1
    text: str = ""
    length: int = 1

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake in a file."""

    message: str
    where: Span | None = None
    hint: str = ""

    def __str__(self) -> str:
        return self.shown()

    def shown(self, after: Problem | None = None) -> str:
        """The mistake with its line and hint, except where the mistake `after` it shows the same ones."""
        lines = [f"{self.where}: {self.message}" if self.where else self.message]
        if self.where and self.where.text and not (after and after.where == self.where):
            number = str(self.where.line)
            text, column = _window(self.where.text, self.where.column)
            lines.append(f"  {number} | {printable(text)}")
            before = printable(text[: column - 1])
            marked = printable(text[column - 1 : column - 1 + self.where.length])
            marks = "^" * max(1, len(marked))
            # tabs stay tabs, so that the mark stands under what it means
            lead = "".join("\t" if c == "\t" else " " for c in before)
            lines.append(f"  {' ' * len(number)} | {lead}{marks}")
        if self.hint and not (after and after.hint == self.hint):
            lines.append(f"  hint: {self.hint}")
        return printable("\n".join(lines))


# Between a number and its unit: printed as a blank, at which no line is broken (`abw.core.base.console`).
GLUE = "\xa0"

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """A text that may hold parts of files, as a terminal can show it.

    Escaped (`\\x1b`) is what a terminal would obey, what turns the direction of writing, and what cannot be
    encoded; line ends and tabs stay. What was escaped before stays the same.
    """
    return _CONTROL.sub(lambda found: ascii(found.group())[1:-1], text)


def _window(text: str, column: int, width: int = 100) -> tuple[str, int]:
    """A long line cut to about `width` characters around the column, and the column in what is left."""
    if len(text) <= width:
        return text, column
    first = max(0, min(column - 1 - width // 2, len(text) - width))
    cut = text[first : first + width]
    lead = "…" if first else ""
    return lead + cut + ("…" if first + width < len(text) else ""), column - first + len(lead)


class SpecError(AbwError):
    """All the mistakes found in a spec, at once."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        pairs = zip_longest(self.problems, self.problems[1:])
        super().__init__("\n".join(p.shown(after) for p, after in pairs if p))

    def rename(self, file: str, name: str) -> None:
        """Report mistakes in one file as mistakes in what it stands for."""
        moved = (p.where and p.where.file == file and replace(p.where, file=name) for p in self.problems)
        pairs = zip(self.problems, moved, strict=True)
        SpecError.__init__(self, [replace(p, where=where) if where else p for p, where in pairs])


class InstanceError(SpecError):
    """A model cannot be run on an instance: number `instance` of those read together."""

    def __init__(self, problem: Problem, instance: int) -> None:
        super().__init__([problem])
        self.instance = instance


class DataError(SpecError):
    """A mistake in a data file; its line is the data file's.

    `spans` are the lines without which the file could be read on, those of the mistakes unless others are
    given; empty where nothing can be left out.
    """

    def __init__(self, problems: Iterable[Problem], spans: Iterable[range] | None = None) -> None:
        super().__init__(problems)
        lines = [p.where.line if p.where else 0 for p in self.problems]
        self.spans = tuple(range(n, n + 1) for n in lines if n) if spans is None else tuple(spans)


class CheckError(AssertionError):
    """A result breaks a rule that it must keep: a defect of abw, never of the user's input."""


def did_you_mean(name: str, allowed: Sequence[str]) -> str:
    """A hint for a wrong name: the nearest right one, else all of them."""
    near = difflib.get_close_matches(name, allowed, n=1, cutoff=0.6)
    if near:
        return f"did you mean '{near[0]}'?"
    return f"one of: {', '.join(sorted(allowed))}" if allowed else ""


def number_of(count: int, noun: str) -> str:
    """A number with its noun: 1 instance, 1,200 instances."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def missing_file(path: Path) -> str:
    """Hint at a name similar to a missing file's, else at files of its kind, or at a missing folder.

    Of a folder with very many files only the first thousand names are compared.
    """
    folder = path.parent
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except (OSError, ValueError):  # no text with a NUL names a folder
        return f"there is no folder {folder}"
    # an ending that two names share makes them no more alike
    stems = difflib.get_close_matches(path.stem, {Path(name).stem for name in names[:1000]}, n=3, cutoff=0.6)
    beside = [name for name in names[:1000] if Path(name).stem in stems]
    if near := difflib.get_close_matches(path.name, beside, n=1, cutoff=0.6):
        return f"did you mean '{near[0]}'?"
    alike = [name for name in names if Path(name).suffix == path.suffix and (folder / name).is_file()]
    if not alike:
        ending = f" *{path.suffix}" if path.suffix else " of that name"
        return f"the folder {folder.absolute()} holds no file{ending}"
    more = ", …" if len(alike) > 5 else ""
    return f"the folder {folder.absolute()} holds {', '.join(alike[:5])}{more}"


def install(*extras: str) -> str:
    """A hint how to install optional dependencies of abw. No package index has abw itself."""
    wanted = f'".[{",".join(extras)}]"' if extras else "."
    return f"in a clone of abw: pip install {wanted}"
