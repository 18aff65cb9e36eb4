"""Instances as they come: chunk after chunk of a file or a pipe, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sized
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, TypeVar, Unpack

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import AbwError, DataError, Problem
from abw.core.data.feed import ALL, Feed
from abw.core.data.instances import Instances
from abw.core.data.read import Options, take


@dataclass(frozen=True, slots=True)
class Bad:
    """An instance that was left out: the line on which it begins, what is wrong, and its id, if known."""

    line: int
    message: str
    name: str | int = ""


# Instances that are read together.
Some = TypeVar("Some", bound=Sized)


@dataclass(frozen=True, slots=True)
class Chunk(Generic[Some]):
    """Instances that follow each other in a file, and those left out between them."""

    instances: Some
    bad: tuple[Bad, ...]


@dataclass(frozen=True, slots=True)
class Piece:
    """`count` instances that follow each other: those that could be read, with their places among all (n,).

    `errors` are by place what is wrong with the others.
    """

    instances: Instances
    count: int
    place: NDArray[np.integer[Any]]
    errors: Mapping[int, AbwError]


def chunk_piece(chunk: Chunk[Instances]) -> Piece:
    """A chunk's instances, and those left out."""
    lines, bad = chunk.instances.lines, [b.line for b in chunk.bad]
    every = np.sort(np.concatenate([lines, np.array(bad, np.int32)]))
    wrong = zip(np.searchsorted(every, bad).tolist(), chunk.bad, strict=True)
    errors = {at: AbwError(b.message) for at, b in wrong}
    return Piece(chunk.instances, len(every), np.searchsorted(every, lines), errors)


def objects_piece(instances: Instances, errors: Mapping[int, AbwError]) -> Piece:
    """Objects as they were read, all but those with errors."""
    count = len(instances) + len(errors)
    return Piece(instances, count, instances.numbers if errors else np.arange(count), errors)


def chunks(
    feed: Feed,
    format: str,
    size: int,
    *,
    first: int | None = None,
    limit: int | None = None,
    skip_bad: bool = False,
    **options: Unpack[Options],
) -> Iterator[Chunk[Instances]]:
    """The instances of a file, `size` at a time, `limit` at most; fewer where a pipe gives no more for now.

    With `first` there are so many in the first chunk, and twice as many in each as in the one before, up to
    `size`: what comes behind has something to do soon.

    With a `frequency` (format tags) the whole file is one chunk, since its words must be counted first. With
    `skip_bad`, what is malformed is left out and reported, else raised as DataError behind the instances
    before it; of a lattice whose length cannot be read it is raised in any case. Memory: as much as one chunk
    takes, and what is read of the file beyond it (64 KiB at most).
    """
    if options.get("beside") and skip_bad:
        hint = "of a malformed line nobody knows how many rows are its own: mend the data"
        raise AbwError(
            "instances cannot be left out of data with arrays in a separate file", hint=hint, exit_code=2
        )

    if options.get("frequency"):
        size, first = ALL, None
    taken = partial(take, feed, format, 0, **options)
    return chunks_by(taken, feed, size, first=first, limit=limit, skip_bad=skip_bad)


def chunks_by(
    take: Callable[[int], Some],
    feed: Feed,
    size: int,
    *,
    first: int | None = None,
    limit: int | None = None,
    skip_bad: bool = False,
) -> Iterator[Chunk[Some]]:
    """Chunks of any reader: `take` takes so many instances at most of what is left of the feed."""
    pending: list[Bad] = []
    left = ALL if limit is None else limit
    now = first or size
    while left > 0:
        try:
            found = take(min(now, left))
        except DataError as error:
            if not skip_bad or not error.spans:
                feed.fail_at(error)
                continue
            reported = zip(error.spans, error.problems, strict=True)
            pending += [Bad(span.start, _said(problem)) for span, problem in reported]
            feed.leave_out(error.spans)
            continue
        if not len(found) and not pending:
            return
        # mistakes are told for lines behind the chunk, too: they wait for their turn
        ready = [b for b in pending if b.line < feed.line or not len(found)]
        pending = [b for b in pending if b not in ready]
        yield Chunk(found, tuple(sorted(ready, key=lambda b: b.line)))
        left -= len(found)
        now = min(2 * now, size)


def _said(problem: Problem) -> str:
    """A mistake on one line."""
    where = f"{problem.where}: " if problem.where else ""
    return f"{where}{problem.message}"
