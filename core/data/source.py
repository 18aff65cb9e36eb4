"""A data file's bytes, and the way from an offset in them to an error with line and column."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO, NoReturn

import numpy as np
from numpy.typing import NDArray

from abw.core.errors import DataError, Problem, Span, did_you_mean

Bytes = NDArray[np.uint8]

MOST_PROBLEMS = 10
ALL = 2**31
"""More lines or instances than a file can have."""
_BLOCK = 1 << 16
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Fault:
    """What a parser stopped at: an offset, and what is wrong there."""

    at: int
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """A file's bytes; `text` (bytes,) is the same memory as an array."""

    path: Path
    data: bytes
    text: Bytes

    @property
    def begin(self) -> int:
        """The offset of the first byte behind a byte order mark."""
        return len(_BOM) if self.data.startswith(_BOM) else 0

    def problem(self, fault: Fault) -> Problem:
        """An error message for an offset; one behind the file's or the line's last word points there."""
        at = min(fault.at, len(self.data.rstrip()))
        first = self.data.rfind(b"\n", 0, at) + 1
        line = self.data[first : self.line_end(at)].rstrip(b"\r")
        column = len(line[: at - first].decode(errors="replace")) + 1
        number = self.data.count(b"\n", 0, first) + 1
        span = Span(str(self.path), number, column, line.decode(errors="replace"))
        return Problem(fault.message, span, fault.hint)

    def check(self, end: int) -> None:
        """Refuse what is not UTF-8 before the offset `end`."""
        try:
            str(memoryview(self.data)[:end], "utf-8")
        except UnicodeDecodeError as error:
            fault = Fault(error.start, "not UTF-8", "save the file in the encoding UTF-8")
            raise DataError([self.problem(fault)]) from None

    def refuse(self, faults: Iterable[Fault]) -> NoReturn:
        """Raise a DataError with the first ten faults; that the text is not UTF-8 goes before them."""
        found = list(islice(faults, MOST_PROBLEMS))
        self.check(self.line_end(found[-1].at))
        raise DataError(map(self.problem, found))

    def line_end(self, at: int) -> int:
        """The offset of the newline, or of the end of the file, that follows."""
        newline = self.data.find(b"\n", at)
        return newline if newline >= 0 else len(self.data)

    def require(self, seen: int, skip: int, empty_hint: str = "") -> None:
        """Refuse a file of `seen` instances where more than `skip` are needed."""
        where = Span(str(self.path), 1)
        if seen == 0:
            raise DataError([Problem("no instances in the file", where, empty_hint)])
        if seen <= skip:
            raise DataError([Problem(f"cannot skip {skip} instances: the file has {seen}", where)])


def open_source(path: Path) -> Source:
    """All of a file. Errors: DataError where it is missing, no file, unreadable, or 2 GiB and more."""
    return next(windows(path, ALL))


def windows(path: Path, lines: int) -> Iterator[Source]:
    """The first lines of a file, at least `lines`, then twice as many, …, at last all of it.

    No more is read than is needed, and arrays for it need be no longer: memory costs when it is first
    touched. Errors: DataError as `open_source`.
    """
    with _open(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size >= ALL:
            raise DataError([Problem(f"{path}: 2 GiB or more", hint="split the file")])
        block = _BLOCK if lines < size else max(size + 1, _BLOCK)
        blocks: list[bytes] = []
        found = 0
        while True:
            while found < lines and (more := file.read(block)):
                blocks.append(more)
                found += more.count(b"\n")
            data = b"".join(blocks)
            if found < lines:
                break
            lines *= 2
            yield _source(path, data[: data.rfind(b"\n") + 1])
    yield _source(path, data)


def _source(path: Path, data: bytes) -> Source:
    return Source(path, data, np.frombuffer(data, np.uint8))


def _open(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise DataError([Problem(f"{path}: no such file", hint=_neighbour(path))]) from None
    except IsADirectoryError:
        hint = did_you_mean("", sorted(p.name for p in path.iterdir() if p.is_file())[:10])
        raise DataError([Problem(f"{path}: a folder, not a file", hint=hint)]) from None
    except OSError as error:
        raise DataError([Problem(f"{path}: {error.strerror}")]) from None


def _neighbour(path: Path) -> str:
    """A hint for a missing file: a file of a similar name beside it, or the folder that is missing."""
    folder = path.parent
    if not folder.is_dir():
        return f"there is no folder {folder}"
    return did_you_mean(path.name, sorted(p.name for p in folder.iterdir())[:1000])
