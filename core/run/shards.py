"""A run cut into shards: the section of the data of each, and what all must have in common."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import abw
from abw.core.base.errors import AbwError
from abw.core.base.files import file_hash
from abw.core.data.feed import STDIN, Section
from abw.core.data.sections.index import Index, index_of
from abw.core.store.outputs import STDOUT, require_suffix
from abw.core.store.shard_files import Part, RunKey, refuse_others


@dataclass(frozen=True, slots=True)
class Shard:
    """Shard `number`, from 1, of a run cut into `shards`."""

    number: int
    shards: int

    def __str__(self) -> str:
        return f"{self.number}/{self.shards}"


@dataclass(frozen=True, slots=True)
class Share:
    """The section of the data that a shard runs, and the part of the output that it writes."""

    section: Section
    part: Part
    run_key: RunKey

    def document(self) -> dict[str, int]:
        """The document in a run's report."""
        section = self.section
        return {
            "number": self.part.number,
            "of": self.part.parts,
            "first_line": section.line,
            "first_instance": section.seen,
        }


@dataclass(frozen=True, slots=True)
class Cut:
    """How a run is cut into shards, and what its outputs depend on.

    `files`: of the model; `weights`: the digest of the file of weights; `said`: all options that affect the
    outputs.
    """

    files: tuple[Path, ...]
    data: Path
    format: str
    batch: int
    limit: int | None
    output: Path
    weights: str | None
    said: Mapping[str, Any]

    def run_key(self, index: Index) -> dict[str, Any]:
        """Everything that the output depends on; `index`: of the data."""
        about: dict[str, Any] = {"abw": abw.__version__, "data": index.hash}
        about["weights"] = self.weights
        about |= {os.path.relpath(f, self.files[0].parent): file_hash(f) for f in self.files}
        about |= {"batch": self.batch, "limit": self.limit, "format": self.format}
        return about | dict(self.said)

    @property
    def index(self) -> Index:
        """The index of the data. Errors: DataError."""
        return index_of(self.data, self.format)

    def share(self, shard: Shard) -> Share:
        """The task of a shard. Errors: AbwError if there are parts of another run; DataError."""
        index = self.index
        run_key = self.run_key(index)
        refuse_others(self.output, run_key, shard.shards)
        part = Part(self.output, shard.number, shard.shards)
        return Share(index.section(shard.number, shard.shards, self.batch, self.limit), part, run_key)


def require_shards(
    what: str,
    output: Path | None,
    data: Path,
    *,
    skip_bad: bool,
    limit: int | None,
    refused: Mapping[str, str],
) -> None:
    """Refuse runs that cannot be cut into shards, as `what` (`--shard`, `--engine`) requests.

    Errors: AbwError.

    `refused`: other options that were given, each with the reason why it does not go with shards.
    """

    def refuse(message: str, hint: str) -> AbwError:
        return AbwError(f"{what} {message}", hint=hint, exit_code=2)

    if output is None or str(output) == STDOUT:
        hint = "they lie in FILE.parts/ until `abw join FILE`"
        raise refuse("needs --output FILE: parts of it are written", hint)
    require_suffix(output)
    if str(data) == STDIN or not data.is_file():
        raise refuse("needs data in a file, since the end of a pipe is unknown", "--data FILE")
    if skip_bad and limit is not None:
        raise refuse(
            "goes with --limit or with --skip-bad, not with both: the limit is of instances that are good",
            "leave one out",
        )
    for option, why in refused.items():
        raise refuse(f"does not go with {option}: {why}", "leave one of them out")
