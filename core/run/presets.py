"""Ways to run a model that have a name: what frameworks before did, and what this one does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from abw.core.ir.network import Granularity, LayoutName
from abw.core.run.learning import Choice


@dataclass(frozen=True, slots=True)
class Preset:
    """What a name stands for; `encoding` is the learned policy's. `summary` says it in one line."""

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
