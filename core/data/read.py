"""Instances from a data file, by its format."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TypedDict, Unpack

import orjson

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
    match format:
        case "trees":
            return read_trees(feed, skip, limit)
        case "lattice":
            return read_lattices(feed, skip, limit)
        case "tags":
            return read_tags(feed, skip, limit, options.get("frequency", 0))
        case "pairs":
            return read_pairs(feed, skip, limit)
        case "plans":
            return read_plans(feed, skip, limit)
        case "words":
            return read_words(feed, skip, limit, options.get("tokens", ""))
        case _:
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
