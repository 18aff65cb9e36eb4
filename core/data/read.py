"""Instances from a data file, by its format."""

from __future__ import annotations

from pathlib import Path

from abw.core.data.instances import Instances
from abw.core.data.jsonl import read_json
from abw.core.data.lattice import read_lattices
from abw.core.data.pairs import read_pairs
from abw.core.data.source import ALL
from abw.core.data.tags import read_tags
from abw.core.data.trees import read_trees
from abw.core.errors import AbwError, did_you_mean
from abw.core.spec.formats import FORMATS


def read(
    path: Path, format: str, *, skip: int = 0, limit: int | None = None, frequency: int = 0
) -> Instances:
    """The instances `skip` to `skip + limit` of a file.

    `frequency` (format tags): words that occur less often in the file are spelt out as characters. An
    instance's vertices begin with its own of kind 'instance'; the modules of the formats say how the others
    follow. Blank lines, CRLF, a byte order mark and a missing last newline are accepted; any byte up to 32
    parts words. Errors: AbwError for a wrong argument, DataError with up to ten places of a wrong file.
    Cost: at most 60 ns for a node of the graphs that the shipped models make; with a limit, only so much of
    the file is parsed (of json, and of tags with a frequency, all).
    """
    if skip < 0 or frequency < 0 or (limit is not None and limit < 1):
        raise AbwError("skip and frequency may not be negative, and limit must be at least 1")
    if format not in FORMATS:
        raise AbwError(f"no data format '{format}'", hint=did_you_mean(format, FORMATS))
    most = ALL if limit is None else limit
    match format:
        case "trees":
            return read_trees(path, skip, most)
        case "lattice":
            return read_lattices(path, skip, most)
        case "tags":
            return read_tags(path, skip, most, frequency)
        case "pairs":
            return read_pairs(path, skip, most)
        case _:
            return read_json(path, skip, most)
