"""How to run: the options of `abw run`, and presets of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import abw
from abw.core.base.errors import AbwError
from abw.core.base.files import file_digest, file_hash
from abw.core.data.feed import STDIN, Section
from abw.core.data.shards import Index, index_of
from abw.core.graph.equal.consing import DedupMode
from abw.core.ir.model import Model
from abw.core.ir.network import Granularity, LayoutName
from abw.core.policy.registry import CHOSEN
from abw.core.run.hoisting import hoisted_types
from abw.core.run.learning import Asked, Choice
from abw.core.run.workload import Networks, open_networks
from abw.core.spec.load import Overrides
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonOptions:
    """The options that runs of specs and programs share.

    `told`: the executor's own options (`get_executor`). `output`: the file of outputs, by default in the
    run's folder. `keep`: whether the run stays on disk, with a `note` and `tags`. `shard`: the section of the
    data that is run, into a part of `output`.
    """

    told: Mapping[str, object] = field(default_factory=dict)
    threads: int | None = None
    verify: bool = False
    check_finite: bool = False
    output: Path | None = None
    skip_bad: bool = False
    keep: bool = True
    note: str = ""
    tags: tuple[str, ...] = ()
    shard: Shard | None = None


@dataclass(frozen=True, slots=True)
class RunOptions(CommonOptions):
    """Options of a run of a spec.

    `input`: a pipe of instances (`-`: standard input) to run instead of the model's data; policies are still
    learned from these, or from the first lines of the pipe if the model has none. `grown`: the file of grown
    instances. `auto_batch`: choose the mini-batch, of at most `memory` bytes (None: a share of what is
    available). `trace`: the file of the timeline.
    """

    policy: str = CHOSEN
    encoding: Choice = "best"
    executor: str = "cpu"
    granularity: Granularity = "cell"
    layout: LayoutName = "planned"
    fuse: bool = False
    group: bool = False
    dedup: DedupMode = "auto"
    seed: int = 0
    train_limit: int | None = None
    profile: bool = False
    input: Path | None = None
    grown: Path | None = None
    auto_batch: bool = False
    memory: int | None = None
    trace: Path | None = None

    @property
    def passes(self) -> list[str]:
        """The names of what is done to graphs before they are scheduled."""
        return [name for name, on in (("fuse", self.fuse), ("group", self.group)) if on]

    def networks(self, model: Model) -> Networks:
        """The networks of a model by these options. Errors: AbwError."""
        return open_networks(
            model,
            self.granularity,
            self.layout,
            fuse=self.fuse,
            group=self.group,
            dedup=self.dedup,
            leaves=self.executor == "cpu" and not self.check_finite,
        )

    def asked(self, model: Model, networks: Networks) -> Asked:
        """The policy that these options request."""
        asked = Asked(self.policy, self.encoding, self.seed, model.data.batch, limit=self.train_limit)
        return asked.on(networks.network, self.executor)

    def cut(self, model: Model, overrides: Overrides, what: str = "--shard") -> Cut:
        """How the option `what` cuts this run into shards. Errors: AbwError if it cannot be cut."""
        data = model.data
        refused = {
            "--grown": (self.grown, "its file would have to be put together, too"),
            "--batch auto": (self.auto_batch, "each shard would choose a size of its own; say a number"),
            "frequency": (data.frequency, "words are counted in all of the data (format tags)"),
            "beside": (data.beside, "rows of the arrays beside are counted from the beginning of the data"),
        }
        require_shards(
            what,
            self.output,
            self.input or data.path,
            skip_bad=self.skip_bad,
            limit=data.limit,
            refused={option: why for option, (given, why) in refused.items() if given},
        )
        assert self.output
        said = {
            "dims": dict(model.dims),
            "coin": data.seed,
            "seed": self.seed,
            "hoist": list(hoisted_types(model)),
            **{name: getattr(self, name) for name in ("policy", "encoding", "executor")},
            "options": dict(self.told),
            **{name: getattr(self, name) for name in ("granularity", "layout", "passes", "skip_bad")},
        }
        weights = file_digest(model.weights.file) if model.weights.file else None
        return Cut(model.files, data.path, data.format, data.batch, data.limit, self.output, weights, said)


@dataclass(frozen=True, slots=True)
class Preset:
    """Named defaults of `RunOptions`; `encoding` is the learned policy's."""

    policy: str
    encoding: Choice
    granularity: Granularity
    layout: LayoutName
    executor: str
    dedup: DedupMode


# The systems compared in ED-Batch, section 5: DyNet on operations and on cells, the paper's own; and abw.
# In all of them, weights are stacked before the run.
PRESETS: Mapping[str, Preset] = {
    "vanilla-dynet": Preset("agenda-static", "best", "op", "declared", "blas", "off"),
    "cavs-dynet": Preset("agenda-static", "best", "cell", "declared", "blas", "off"),
    "ed-batch": Preset("fsm", "sort", "cell", "planned", "blas", "off"),
    "abw": Preset("auto", "best", "cell", "planned", "cpu", "auto"),
}
