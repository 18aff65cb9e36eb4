"""Instances from a data file, by its format: all of them, or chunk after chunk in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sized
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypedDict, TypeVar, Unpack

import numpy as np
import orjson
from numpy.typing import NDArray

from abw.core.base.errors import AbwError, DataError, Problem, Span, did_you_mean
from abw.core.data.feed import ALL, Feed, open_feed
from abw.core.data.instances import Instances
from abw.core.data.readers.jsonl import read_json
from abw.core.data.readers.lattice import read_lattices
from abw.core.data.readers.pairs import SHORT, read_pairs
from abw.core.data.readers.plans import read_plans
from abw.core.data.readers.tags import read_tags
from abw.core.data.readers.trees import read_trees
from abw.core.data.readers.words import read_words
from abw.core.ir.formats import FORMATS
from abw.core.ir.schema import Schema

# The readers of formats without options.
_READERS = {
    "trees": read_trees,
    "lattice": read_lattices,
    "plans": read_plans,
    "pairs": read_pairs,
}


class Options(TypedDict, total=False):
    """How a format is read.

    `frequency` (tags): words that occur less often are spelt out as characters. `tokens` (words): a regular
    expression that finds a line's tokens ('': what stands between blanks). `beside` (json): the suffix of the
    file of arrays beside the data (`abw.core.data.sidecar`); `schema` (json): what the instances must be made
    of, without which all that is left of a file is read, to find it.
    """

    frequency: int
    tokens: str
    beside: str
    schema: Schema | None


def read(
    path: Path, format: str, *, skip: int = 0, limit: int | None = None, **options: Unpack[Options]
) -> Instances:
    """The instances `skip` to `skip + limit` of a file; of format json all of it is read to find the schema.

    An instance's vertices begin with its own of kind 'instance'; the formats' modules say how others follow.
    Blank lines, CRLF, a byte order mark and a missing last newline are accepted; any byte up to 32 parts
    words, but a line of control characters alone is malformed. Errors: AbwError for a wrong argument,
    DataError with up to ten places of a wrong file.
    Cost: at most 60 ns for a node of the graphs that the shipped models make; with a limit, only so much of
    the file is parsed (of json, and of tags with a frequency, all).
    """
    frequency = options.get("frequency", 0)
    for name, least, value in (("skip", 0, skip), ("frequency", 0, frequency), ("limit", 1, limit)):
        if value is not None and not least <= value <= ALL:
            raise AbwError(f"{name} cannot be {value}", hint=f"from {least} to {ALL}", exit_code=2)
    if format not in FORMATS:
        raise AbwError(f"no data format '{format}'", hint=did_you_mean(format, FORMATS))
    with open_feed(path) as feed:
        taken = take(feed, format, skip, ALL if limit is None else limit, **options)
        if len(taken) == 0:
            where = Span(str(path), 1)
            if feed.seen == 0:
                hint = SHORT if format == "pairs" else ""
                raise DataError([Problem("no instances in the file", where, hint)])
            raise DataError([Problem(f"cannot skip {skip} instances: the file has {feed.seen}", where)])
    return taken


def take(feed: Feed, format: str, skip: int, limit: int, **options: Unpack[Options]) -> Instances:
    """Instances `skip` to `skip + limit` of what is left of a file, as `read` gives them; none at its end.

    Errors: DataError; then nothing was taken.
    """
    try:
        return _taken(feed, format, skip, limit, options)
    except DataError as error:
        if format not in ("json", "plans") and _is_json(error.problems[0]):
            raise _for_json(error, format) from None
        raise


def _taken(feed: Feed, format: str, skip: int, limit: int, options: Options) -> Instances:
    if read := _READERS.get(format):
        return read(feed, skip, limit)
    if format == "tags":
        return read_tags(feed, skip, limit, options.get("frequency", 0))
    if format == "words":
        return read_words(feed, skip, limit, options.get("tokens", ""))
    return read_json(feed, skip, limit, options.get("schema"), options.get("beside", ""))


def _is_json(problem: Problem) -> bool:
    """Whether a line with a mistake is an object of JSON."""
    text = problem.where.text.strip() if problem.where else ""
    if not text.startswith("{"):
        return False
    try:
        return isinstance(orjson.loads(text), dict)
    except orjson.JSONDecodeError:
        return False


def _for_json(error: DataError, format: str) -> DataError:
    """One error in place of one for each line of JSON."""
    where = error.problems[0].where
    message = f"this looks like JSON lines, and format {format} is read"
    hint = "data: {format: json} reads them; --data names another file"
    return DataError([Problem(message, where and replace(where, column=1), hint)], error.spans[:1])


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
