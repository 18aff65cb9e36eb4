"""Reads the instances of programs, as objects, from a file or pipe."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from abw.core.base.errors import AbwError
from abw.core.data.feed import Feed
from abw.core.data.plain import Plain, plain, read_values
from abw.core.data.read import Chunk, chunks, chunks_by
from abw.core.ir.formats import FORMATS
from abw.core.store.outputs import LINES

# So many instances are read together.
READ_AHEAD = 1024


def format_of(data: Path, chosen: str | None) -> str:
    """The format of a program's data: `chosen`, or by the file's ending. Errors: AbwError."""
    if chosen:
        return chosen
    if data.suffix in (*LINES, ".json"):
        return "json"
    raise AbwError(
        f"nothing says what the lines of {data} are",
        hint=f"--format {', '.join(FORMATS[:-1])} or json (a JSON value a line; that of .jsonl)",
        exit_code=2,
    )


def items_of(
    feed: Feed, format: str, batch: int, *, limit: int | None = None, skip_bad: bool = False
) -> Iterator[Chunk[Plain]]:
    """Yield the instances of a file, some mini-batches at a time; see `chunks` for malformed ones."""
    size = batch * max(1, READ_AHEAD // batch)
    if format == "json":
        yield from chunks_by(lambda n: read_values(feed, n), feed, size, limit=limit, skip_bad=skip_bad)
        return
    for part in chunks(feed, format, size, limit=limit, skip_bad=skip_bad):
        yield Chunk(plain(part.instances), part.bad)


def batches_of(found: Plain, batch: int) -> Iterator[Plain]:
    """Yield the mini-batches of instances that were read together."""
    for first in range(0, len(found), batch):
        some = slice(first, first + batch)
        yield Plain(found.objects[some], found.lines[some], found.numbers[some], found.names[some])
