"""The first lines of a pipe, looked at before it is read: in place of data of the model's own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from abw.core.base.errors import SpecError
from abw.core.data.feed import Feed, open_feed

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
