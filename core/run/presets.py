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


PRESETS: Mapping[str, Preset] = {
    "vanilla-dynet": Preset(
        "agenda-static", "best", "op", "declared", "blas",
        "DyNet on elementary operations: a node an operation, its agenda, operands gathered",
    ),
    "cavs-dynet": Preset(
        "agenda-static", "best", "cell", "declared", "blas",
        "DyNet on static subgraphs as in Cavs: a node a cell, its agenda, variables as they come",
    ),
    "ed-batch": Preset(
        "fsm", "sort", "cell", "planned", "blas",
        "the paper: a node a cell, the learned FSM (encoding sort), variables laid out by the PQ-tree",
    ),
    "abw": Preset(
        "auto", "best", "cell", "planned", "cpu",
        "the default: the policy that does best in training, planned layouts, fused kernels",
    ),
}  # fmt: skip
"""After the systems compared in ED-Batch, section 5. Weights are stacked before the run in all of them."""
