"""How to run: the options of `abw run`, and presets of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from abw.core.base.files import file_digest
from abw.core.ir.model import Model
from abw.core.ir.network import Granularity, LayoutName
from abw.core.policy.registry import CHOSEN
from abw.core.run.learning import Asked, Choice, launch_seconds
from abw.core.run.shards import Cut, Shard, require_shards
from abw.core.run.workload import Networks
from abw.core.spec.load import Overrides


@dataclass(frozen=True, slots=True, kw_only=True)
class CommonOptions:
    """How to run whatever runs: what `abw run`'s flags say of specs and programs.

    `told`: the executor's own options (`get_executor`). `output`: where the outputs go instead of the run's
    folder. `keep`: whether the run stays on disk, with a `note` and `tags`. `shard`: which section of the
    data is run alone, into a part of `output`.
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
    """How to run a spec.

    `input`: a pipe to read instances from (`-`: standard input) instead of the model's data, which are then
    what a policy is learned from; its first lines are where the model has none. `grown`: where instances
    that grew go. `auto_batch`: the mini-batch is chosen, such that it takes `memory` bytes at most (None: a
    share of those available). `trace`: where the run's timeline goes.
    """

    policy: str = CHOSEN
    encoding: Choice = "best"
    executor: str = "cpu"
    granularity: Granularity = "cell"
    layout: LayoutName = "planned"
    fuse: bool = False
    group: bool = False
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
        """What is done to graphs before they are scheduled."""
        return [name for name, on in (("fuse", self.fuse), ("group", self.group)) if on]

    def asked(self, model: Model, networks: Networks) -> Asked:
        """The policy asked for."""
        launch = launch_seconds(networks.network, self.executor)
        batch = model.data.batch
        return Asked(self.policy, self.encoding, self.seed, batch, launch, self.train_limit)

    def cut(self, model: Model, overrides: Overrides, what: str = "--shard") -> Cut:
        """How this run is cut into shards, which `what` asks for. Errors: AbwError where it cannot be."""
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
            "hoist": overrides.hoist,
            "policy": self.policy,
            "encoding": self.encoding,
            "executor": self.executor,
            "options": dict(self.told),
            "granularity": self.granularity,
            "layout": self.layout,
            "passes": self.passes,
            "skip_bad": self.skip_bad,
        }
        weights = file_digest(model.weights.file) if model.weights.file else None
        return Cut(model.files, data.path, data.format, data.batch, data.limit, self.output, weights, said)


@dataclass(frozen=True, slots=True)
class Preset:
    """Named defaults of `RunOptions`; `encoding` is the learned policy's, `summary` one line for people."""

    policy: str
    encoding: Choice
    granularity: Granularity
    layout: LayoutName
    executor: str
    summary: str


# After the systems compared in ED-Batch, section 5. Weights are stacked before the run in all of them.
PRESETS: Mapping[str, Preset] = {
    "vanilla-dynet": Preset(
        "agenda-static", "best", "op", "declared", "blas",
        "DyNet on operations: its agenda, operands gathered",
    ),
    "cavs-dynet": Preset(
        "agenda-static", "best", "cell", "declared", "blas",
        "DyNet on cells, as in Cavs: its agenda, variables as declared",
    ),
    "ed-batch": Preset(
        "fsm", "sort", "cell", "planned", "blas",
        "the paper: the learned FSM, variables ordered by the PQ-tree",
    ),
    "abw": Preset(
        "auto", "best", "cell", "planned", "cpu",
        "the default: the best policy in training, fused kernels",
    ),
}  # fmt: skip
