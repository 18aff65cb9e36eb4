"""Graph networks over molecules: a mini-batch is one graph of separate parts, its edges a list.

`with_bags` sums over edges are calls of embedding_bag, which multiplies and adds without writing the edges'
rows: quicker than index_add_, as PyTorch Geometric has it, and not what most people write.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from torch import nn

from abw.bench.gallery.batches import Edges, Graph, Joined, Tensor, graph, joined, vocabulary

HEADS, LAYERS, STEPS, CLASSES = 2, 2, 4, 3
BONDS = ("single", "double")


@dataclass(frozen=True, slots=True)
class Atoms:
    """A mini-batch: rows of elements, the edges that a model sums over, their weights if they have any."""

    rows: Tensor
    edges: Edges
    weights: Tensor | None = None
    total: Edges | None = None


class OverEdges:
    """What the three have in common: sums over edges, in either way."""

    bags: bool
    elements: dict[str, int]
    module: Any

    def with_bags(self) -> Self:
        """The same model, summing by embedding_bag."""
        other = copy(self)
        other.bags = True
        return other

    def state(self) -> dict[str, Tensor]:
        """As PyTorch has it."""
        return dict(self.module.state_dict())

    def read(self, line: str) -> Graph:
        """A molecule."""
        return graph(line, "element", self.elements)

    def prepare(self, instances: Sequence[Graph]) -> Atoms:
        """Molecules as one graph."""
        raise NotImplementedError

    def compute(self, batch: Atoms) -> Tensor:
        """Outputs in the order of molecules and atoms."""
        raise NotImplementedError


class GAT(OverEdges):
    """gat: the scores of all edges and heads, softmax over those of an atom, one weighted sum a layer."""

    def __init__(self, data: Path, hidden: int) -> None:
        self.bags, self.elements = False, vocabulary(data / "elements.txt")
        self.module = nn.ModuleDict(
            {"embed": nn.Embedding(len(self.elements), hidden), "out": nn.Linear(hidden, CLASSES)}
        )
        self.module["layers"] = nn.ModuleList()
        for _ in range(LAYERS):
            layer = nn.ModuleDict({"lin": nn.Linear(hidden, hidden, bias=False)})
            for name in ("att_src", "att_dst"):
                layer.register_parameter(name, nn.Parameter(torch.randn(HEADS, hidden // HEADS)))
            layer.register_parameter("bias", nn.Parameter(torch.randn(hidden)))
            self.module["layers"].append(layer)

    def state(self) -> dict[str, Tensor]:
        """With each head's vectors as a row of zeros elsewhere."""
        return {
            name: torch.block_diag(*value) if "att_" in name else value
            for name, value in self.module.state_dict().items()
        }

    def prepare(self, instances: Sequence[Graph]) -> Atoms:
        """An edge for each head, between rows of one head."""
        read = joined(instances, "near")
        near = read.links["near"]
        heads = np.arange(HEADS)
        target, source = (((near[:, end] * HEADS)[:, None] + heads).ravel() for end in (0, 1))
        return Atoms(torch.from_numpy(read.rows), Edges.of(source, target, len(read.rows) * HEADS))

    def compute(self, batch: Atoms) -> Tensor:
        """Scores of classes for every atom."""
        h, edges = self.module["embed"](batch.rows), batch.edges
        for layer in self.module["layers"]:
            z = layer["lin"](h).view(len(h), HEADS, -1)
            read, reads = ((z * part).sum(-1).view(-1) for part in (layer.att_src, layer.att_dst))
            scores = read.index_select(0, edges.source) + reads.index_select(0, edges.target)
            weights = edges.softmax(nn.functional.leaky_relu(scores, 0.2))
            heard = edges.sum(z.view(-1, z.shape[2]), weights, bags=self.bags)
            h = nn.functional.elu(heard.view(len(h), -1) + layer.bias)
        return self.module["out"](h)


class GGNN(OverEdges):
    """ggnn: one product for the messages along both kinds of bonds, one sum of them, one GRU cell a step."""

    def __init__(self, data: Path, hidden: int) -> None:
        self.bags, self.elements = False, vocabulary(data / "elements.txt")
        self.module = nn.ModuleDict(
            {
                "embed": nn.Embedding(len(self.elements), hidden),
                "one": nn.Linear(hidden, hidden, bias=False),
                "two": nn.Linear(hidden, hidden, bias=False),
                "gru": nn.GRUCell(hidden, hidden),
                "gate": nn.Linear(2 * hidden, CLASSES),
                "out": nn.Linear(hidden, CLASSES),
            }
        )
        self.messages = torch.cat([self.module[name].weight for name in ("one", "two")])

    def prepare(self, instances: Sequence[Graph]) -> Atoms:
        """Edges from the two messages of each atom, which are rows below each other."""
        read = joined(instances, *BONDS)
        total = Edges.of(np.arange(len(read.rows)), read.instance, len(instances))
        return Atoms(torch.from_numpy(read.rows), _bonds(read)[0], None, total)

    def compute(self, batch: Atoms) -> Tensor:
        """Scores of classes for every molecule."""
        parts = self.module
        x = h = parts["embed"](batch.rows)
        for _ in range(STEPS):
            said = nn.functional.linear(h, self.messages).view(-1, h.shape[1])
            h = parts["gru"](batch.edges.sum(said, bags=self.bags), h)
        votes = parts["gate"](torch.cat([h, x], 1)).sigmoid() * parts["out"](h)
        assert batch.total is not None
        return batch.total.sum(votes, bags=self.bags)


class RGCN(OverEdges):
    """rgcn: one product for an atom's own part and both messages, one weighted sum a layer."""

    def __init__(self, data: Path, hidden: int) -> None:
        self.bags, self.elements = False, vocabulary(data / "elements.txt")
        self.module = nn.ModuleDict(
            {"embed": nn.Embedding(len(self.elements), hidden), "out": nn.Linear(hidden, CLASSES)}
        )
        self.module["layers"] = nn.ModuleList(
            nn.ModuleDict(
                {
                    "root": nn.Linear(hidden, hidden),
                    "one": nn.Linear(hidden, hidden, bias=False),
                    "two": nn.Linear(hidden, hidden, bias=False),
                }
            )
            for _ in range(LAYERS)
        )
        self.messages = [
            torch.cat([layer[name].weight for name in ("one", "two")]) for layer in self.module["layers"]
        ]

    def prepare(self, instances: Sequence[Graph]) -> Atoms:
        """As for ggnn, each edge with the reciprocal of how many of its kind its atom has."""
        read = joined(instances, *BONDS)
        edges, weights = _bonds(read)
        return Atoms(torch.from_numpy(read.rows), edges, weights)

    def compute(self, batch: Atoms) -> Tensor:
        """Scores of classes for every atom."""
        h = self.module["embed"](batch.rows)
        for layer, messages in zip(self.module["layers"], self.messages, strict=True):
            said = nn.functional.linear(h, messages).view(-1, h.shape[1])
            h = layer["root"](h).add_(batch.edges.sum(said, batch.weights, bags=self.bags)).relu_()
        return self.module["out"](h)


def _bonds(read: Joined) -> tuple[Edges, Any]:
    """Edges from the messages of an atom by kind, rows below each other; one over each one's number."""
    sources, targets, shares = [], [], []
    for kind, name in enumerate(BONDS):
        pairs = read.links[name]
        sources.append(2 * pairs[:, 1] + kind)
        targets.append(pairs[:, 0])
        shares.append(1 / np.bincount(pairs[:, 0], minlength=len(read.rows))[pairs[:, 0]])
    target = np.concatenate(targets)
    weights = np.concatenate(shares)[np.argsort(target, kind="stable")]
    edges = Edges.of(np.concatenate(sources), target, len(read.rows))
    return edges, torch.from_numpy(weights.astype(np.float32))
