"""A data file's bytes, read bit by bit, and the way from an offset to an error with line and column."""

from __future__ import annotations

import os
import stat
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO, NoReturn

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import DataError, Problem, Span, SpecError, did_you_mean, missing_file
from abw.core.base.files import ready

Bytes = NDArray[np.uint8]

MOST_PROBLEMS = 10
# More lines or instances than a file can have.
ALL = 2**31
# The path that means standard input.
STDIN = "-"
# So many seconds a pipe may take to give more before what is at hand is read without that.
LINGER = 0.01
# What some programs put before a file's first line.
BOM = b"\xef\xbb\xbf"
_BLOCK = 1 << 16
_LEAST_BLOCK = 1 << 12
_LINE = 64  # bytes of a line of which nothing is known
_NEWLINE = 10
_BLANK = 32


@dataclass(frozen=True, slots=True)
class Fault:
    """What a parser stopped at: an offset, and what is wrong there."""

    at: int
    message: str
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Source:
    """Bytes of a file, from the beginning of line `line`; `text` (bytes,) is the same memory as an array.

    `ends` are its newlines. `waits` says that what follows them must be waited for, `owes` that lines were
    left out of them.
    """

    path: Path
    data: bytes
    text: Bytes
    ends: int
    line: int = 1
    waits: bool = False
    owes: bool = False

    @property
    def begin(self) -> int:
        """The offset of the first byte behind a byte order mark."""
        return len(BOM) if self.line == 1 and self.data.startswith(BOM) else 0

    def enough(self, seen: int, wanted: int, skip: int) -> bool:
        """Whether a reader that saw so many instances shall go on with these, and not ask for more lines."""
        return seen == wanted or (self.waits and (seen > skip or self.owes))

    def most(self) -> tuple[int, int]:
        """No fewer than its lines, and than the words on them between blanks. Cost: 0.15 ns a byte."""
        return 1 + self.ends, 2 + count_where(lambda block: block <= _BLANK, self.text)

    def problem(self, fault: Fault) -> Problem:
        """An error message for an offset; one behind the file's or the line's last word points there."""
        at = min(fault.at, len(self.data.rstrip()))
        first = self.data.rfind(b"\n", 0, at) + 1
        line = self.data[first : self.line_end(at)].rstrip(b"\r")
        column = len(line[: at - first].decode(errors="replace")) + 1
        number = self.data.count(b"\n", 0, first) + self.line
        span = Span(str(self.path), number, column, line.decode(errors="replace"))
        return Problem(fault.message, span, fault.hint)

    def check(self, end: int) -> None:
        """Refuse what is not UTF-8 before the offset `end`."""
        if self.data.isascii():
            return
        try:
            str(memoryview(self.data)[:end], "utf-8")
        except UnicodeDecodeError as error:
            fault = Fault(error.start, "not UTF-8", "save the file in the encoding UTF-8")
            raise DataError([self.problem(fault)]) from None

    def refuse(self, faults: Iterable[Fault], spans: Iterable[range] | None = None) -> NoReturn:
        """Raise a DataError with the first ten faults; that the text is not UTF-8 goes before them.

        `spans`: see DataError.
        """
        found = list(islice(faults, MOST_PROBLEMS))
        self.check(self.line_end(found[-1].at))
        raise DataError(map(self.problem, found), spans)

    def full_lines(self, most: int) -> list[tuple[int, int, int]]:
        """The first lines that hold more than white space: the number of each, from 0, its begin, its end."""
        found: list[tuple[int, int, int]] = []
        number, begin = 0, self.begin
        while begin < len(self.data) and len(found) < most:
            end = self.line_end(begin)
            if self.data[begin:end].strip():
                found.append((number, begin, end))
            number, begin = number + 1, end + 1
        return found

    def line_end(self, at: int) -> int:
        """The offset of the newline, or of the end of the file, that follows."""
        newline = self.data.find(b"\n", at)
        return newline if newline >= 0 else len(self.data)


@dataclass(frozen=True, slots=True)
class Section:
    """Whole lines of a file: its bytes `begin` to `end`, with `count` instances.

    They begin with line `line`, behind `seen` instances. `last`: nothing follows in the file.
    """

    begin: int
    end: int
    line: int
    seen: int
    count: int
    last: bool = False


@contextmanager
def open_feed(path: Path, section: Section | None = None) -> Iterator[Feed]:
    """A file, or a section of it, to read bit by bit; `-` is standard input.

    Errors: DataError: missing, no file, unreadable.
    """
    if str(path) == STDIN:
        if sys.stdin is None:
            raise DataError([Problem("standard input is closed", hint="`< FILE`, or --data FILE")])
        yield Feed(Path("stdin"), 0)
        return
    with open_data(path, buffering=0) as file:
        yield Feed(path, file.fileno(), section)


def count_where(test: Callable[[Bytes], NDArray[np.bool_]], text: Bytes) -> int:
    """How many bytes are what is asked for. Cost: 0.15 ns a byte."""
    if len(text) <= 2 * _BLOCK:
        return int(np.count_nonzero(test(text)))
    # not all at once: that would take as much memory again
    return sum(count_where(test, text[at : at + _BLOCK]) for at in range(0, len(text), _BLOCK))


def newlines(text: Bytes) -> int:
    """How many newlines a text has. Cost: 0.15 ns a byte."""
    return count_where(lambda block: block == _NEWLINE, text)


class Feed:
    """A file read bit by bit: what was read of it and not yet taken.

    `line` is the number of the line with which that begins, `seen` the instances before it, those left out
    among them; `taken` are the bytes.
    `size` are the file's bytes, None where that cannot be told: a pipe, a terminal. `waited` are the seconds
    spent waiting for those. `left` is for formats whose head says how many instances follow.
    """

    def __init__(self, path: Path, file: int | bytes, section: Section | None = None) -> None:
        """`file`: a descriptor, or the bytes themselves where they are at hand; of a regular file perhaps a
        section alone.
        """
        self.path, self.section = path, section
        self.line, self.seen, self.taken = 1, 0, 0
        self.left: int | None = None
        self.beside: object = None  # what reads the file beside it
        self.head: Span | None = None
        self.waited = 0.0
        self._rest, self._ended = (file, True) if isinstance(file, bytes) else (b"", False)
        if isinstance(file, bytes):
            self.size: int | None = len(file)
        else:
            found = os.fstat(file)
            self.size = found.st_size if stat.S_ISREG(found.st_mode) else None
            self._file = file
            if section:
                self.size, self.line, self.seen = section.end - section.begin, section.line, section.seen
                os.lseek(file, section.begin, os.SEEK_SET)
        self._owes = False
        self._left_out: list[int] = []  # where what is left out begins, of lines not yet taken
        self._failed: DataError | None = None
        self._failed_line = 0

    def windows(self, lines: int) -> Iterator[Source]:
        """The next lines, at least `lines`, then twice as many, …, at last all.

        No more is read than is needed, and arrays for it need be no longer: memory costs when it is first
        touched. Of a pipe that gives no more for now, the whole lines at hand come before it is waited for
        (not where ALL are wanted). Errors: DataError where 2 GiB or more are wanted at once; that of
        `fail_at`.
        """
        if self._failed:
            data = self._rest[: self._offset(self._failed_line)]
            if data:
                yield self._source(data, None, True, self._owes)
            raise self._failed
        if self.size is not None and lines >= self.size >= ALL:
            raise DataError([Problem(f"{self.path}: 2 GiB or more", hint="split the file")])
        eager = self.size is None and lines < ALL
        blocks = [self._rest] if self._rest else []
        found, held = newlines(np.frombuffer(self._rest, np.uint8)) if self._rest else 0, len(self._rest)
        while True:
            while found < lines and not self._ended:
                if eager and found and not self._ready(LINGER):
                    blocks = [self._joined(blocks)]
                    yield self._lines(found, waits=True)
                more = self._read(self._block(lines, found, held))
                blocks += [more] if more else []
                found, held = found + newlines(np.frombuffer(more, np.uint8)), held + len(more)
            blocks = [self._joined(blocks)]
            if found < lines:
                break
            lines *= 2
            yield self._lines(found, waits=False)
        yield self._source(self._rest, found, False, False)

    def numbers(self, lines: NDArray[np.int32], skip: int) -> NDArray[np.int64]:
        """The numbers (n,) of instances not yet taken, which begin on `lines` (n,) behind `skip` others."""
        first = self.seen + skip
        numbers = np.arange(first, first + len(lines))
        if self._left_out:
            numbers += np.searchsorted(np.array(self._left_out, np.int64), lines)
        return numbers

    def take(self, source: Source, end: int, instances: int) -> None:
        """What a source holds before the offset `end` was read: so many instances."""
        self.line += source.ends - newlines(source.text[end:])
        passed = sum(line < self.line for line in self._left_out)
        self._left_out = self._left_out[passed:]
        self.seen += instances + passed
        self.taken += min(end, len(source.data))
        self._rest = self._rest[end:]
        self._owes = False

    def fail_at(self, error: DataError) -> None:
        """End the file before a mistake: what stands before it can be read, then the error is raised.

        The error again where that was done already.
        """
        if self._failed:
            raise self._failed
        where = error.problems[0].where
        lines = [span.start for span in error.spans] or [where.line if where else 0]
        self._failed = error
        # a mistake before all that is left, in a file's head, is found at its end
        self._failed_line = min(lines) if min(lines) >= self.line else ALL

    def leave_out(self, spans: Sequence[range]) -> None:
        """Make lines blank that were read and not yet taken, so that the others can be."""
        data = bytearray(self._rest)
        ends = [-1, *np.flatnonzero(np.frombuffer(self._rest, np.uint8) == _NEWLINE).tolist(), len(data)]
        for span in spans:
            first, last = span.start - self.line, min(span.stop - self.line, len(ends) - 1)
            for begin, end in pairwise(ends[first : last + 1]):
                data[begin + 1 : end] = b" " * (end - begin - 1)
        self._rest = bytes(data)
        self._left_out = sorted([*self._left_out, *(span.start for span in spans)])
        self._owes = True
        if self.left is not None:
            self.left -= len(spans)

    def _offset(self, line: int) -> int:
        """Where a line begins in what is left, or where that ends."""
        ends = np.flatnonzero(np.frombuffer(self._rest, np.uint8) == _NEWLINE)
        before = line - self.line
        if before > len(ends):
            return len(self._rest)
        return int(ends[before - 1]) + 1 if before > 0 else 0

    def _block(self, lines: int, found: int, held: int) -> int:
        """How many bytes to read next for so many lines: of a file no more than those likely take, by the
        `held` bytes of those `found`.
        """
        if self.size is None:
            return _BLOCK
        if lines >= self.size:
            return max(self.size + 1, _BLOCK)
        likely = 17 * held // 16 * (lines - found) // found if found else _LINE * lines
        return min(max(likely, _LEAST_BLOCK), _BLOCK)

    def _joined(self, blocks: list[bytes]) -> bytes:
        self._rest = b"".join(blocks)
        return self._rest

    def _lines(self, ends: int, waits: bool) -> Source:
        """The whole lines that have been read."""
        return self._source(self._rest[: self._rest.rfind(b"\n") + 1], ends, waits, self._owes)

    def _source(self, data: bytes, ends: int | None, waits: bool, owes: bool) -> Source:
        text = np.frombuffer(data, np.uint8)
        return Source(self.path, data, text, newlines(text) if ends is None else ends, self.line, waits, owes)

    def _ready(self, seconds: float) -> bool:
        """Whether something can be read now, or after that time."""
        begun = time.perf_counter()
        found = ready(self._file, seconds)
        self.waited += time.perf_counter() - begun
        return found

    def _read(self, most: int) -> bytes:
        begun = time.perf_counter()
        try:
            if self.section:
                most = min(most, self.section.end - os.lseek(self._file, 0, os.SEEK_CUR))
            more = os.read(self._file, most)
        except OSError as error:
            raise DataError([Problem(f"{self.path}: {error.strerror}")]) from None
        if self.size is None:
            self.waited += time.perf_counter() - begun
        self._ended = not more
        return more


def open_data(path: Path, buffering: int = -1) -> BinaryIO:
    """A file that is to be read whole or bit by bit; `buffering` is `open`'s.

    Errors: DataError: missing, no file, unreadable.
    """
    try:
        return path.open("rb", buffering)
    except FileNotFoundError:
        raise DataError([Problem(f"{path}: no such file", hint=missing_file(path))]) from None
    except IsADirectoryError:
        hint = did_you_mean("", sorted(p.name for p in path.iterdir() if p.is_file())[:10])
        raise DataError([Problem(f"{path}: a folder, not a file", hint=hint)]) from None
    except OSError as error:
        raise DataError([Problem(f"{path}: {error.strerror}")]) from None


# So many lines are looked at, or as many as come without waiting.
LINES = 256


class Head:
    """A pipe whose first lines can be had as a file; what is read of it later begins with them."""

    def __init__(self, pipe: Path, stack: ExitStack) -> None:
        self._pipe, self._stack = pipe, stack
        self._file: Path | None = None
        self._feed: Feed | None = None

    def file(self) -> Path:
        """A file with the first lines, there as long as the block of `looked_at`. Errors: DataError.

        Waits until the pipe gives a line.
        """
        if self._file is None:
            source = next(self.feed().windows(LINES))
            folder = self._stack.enter_context(TemporaryDirectory(prefix="abw-"))
            self._file = Path(folder) / "stdin"
            self._file.write_bytes(source.data)
        return self._file

    def told(self, error: SpecError) -> None:
        """Tell mistakes that were found in the file as those of the pipe."""
        if self._file:
            error.rename(str(self._file), str(self.feed().path))

    def feed(self) -> Feed:
        """All of the pipe. Errors: DataError."""
        if self._feed is None:
            self._feed = self._stack.enter_context(open_feed(self._pipe))
        return self._feed


@contextmanager
def looked_at(pipe: Path) -> Iterator[Head]:
    """A pipe, opened when something of it is asked for.

    Mistakes found in its head are reported as mistakes in the pipe.
    """
    with ExitStack() as stack:
        head = Head(pipe, stack)
        try:
            yield head
        except SpecError as error:
            head.told(error)
            raise
