"""Models over trees and DAGs: level by level, what has the same height at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from abw.bench.gallery.batches import Edges, Graph, Tensor, graph, joined, padded, vocabulary
from abw.bench.gallery.trees import Flat, Levels, TreeLSTM, flattened, levels, tree_of

CLASSES = 3


class AttentiveTree:
    """treelstm-attend: the tree LSTM by level, then softmax over the nodes of each tree."""

    def __init__(self, data: Path, hidden: int) -> None:
        self.tree = TreeLSTM(vocabulary(data / "words.txt"), hidden)
        self.module = self.tree.module
        self.module["key"] = nn.Linear(hidden, hidden)
        self.module.register_parameter("q", nn.Parameter(torch.randn(hidden)))

    def state(self) -> dict[str, Tensor]:
        """As PyTorch has it."""
        return dict(self.module.state_dict())

    def read(self, line: str) -> Flat:
        """A tree as arrays."""
        return flattened(tree_of(line, self.tree.rows))

    def prepare(self, instances: Sequence[Flat]) -> tuple[Levels, Edges]:
        """The trees' levels, and which nodes are a tree's."""
        made = levels(instances)
        tree = np.repeat(np.arange(len(instances)), [len(some.height) for some in instances])
        return made, Edges.of(made.place.numpy(), tree, len(instances))

    def compute(self, batch: tuple[Levels, Edges]) -> Tensor:
        """Scores of classes for every tree."""
        made, edges = batch
        h = self.tree.states(made)
        scores = self.module["key"](h) @ self.module.q / h.shape[1] ** 0.5
        weights = edges.softmax(scores.index_select(0, edges.source))
        return self.module["out"](edges.sum(h, weights, bags=True))


@dataclass(frozen=True, slots=True)
class Level:
    """Operations `nodes` (n,), and what they attend to: places (n, most), False in `there` where none."""

    nodes: Tensor
    read: Tensor
    absent: Tensor


@dataclass(frozen=True, slots=True)
class Dags:
    """Rows of names (n,), leaves, operations by level from the leaves up and from the roots down."""

    rows: Tensor
    leaves: Tensor
    up: tuple[Level, ...]
    down: tuple[Level, ...]
    operations: Tensor


class BothWays:
    """bidag: by level up, then down; what an operation attends to is padded to the most of its level."""

    def __init__(self, data: Path, hidden: int) -> None:
        self.names = vocabulary(data / "names.txt")
        self.module = nn.ModuleDict(
            {
                "embed": nn.Embedding(len(self.names), hidden),
                "leaf": nn.Linear(hidden, hidden),
                "up": nn.GRU(hidden, hidden, batch_first=True),
                "back": nn.Linear(2 * hidden, hidden),
                "out": nn.Linear(2 * hidden, CLASSES),
            }
        )

    def state(self) -> dict[str, Tensor]:
        """As PyTorch has it."""
        return dict(self.module.state_dict())

    def read(self, line: str) -> Graph:
        """An expression."""
        return graph(line, "name", self.names)

    def prepare(self, instances: Sequence[Graph]) -> Dags:
        """Levels of both directions."""
        read = joined(instances, "arguments")
        pairs = read.links["arguments"]
        n = len(read.rows)
        below: list[list[int]] = [[] for _ in range(n)]
        users: list[list[int]] = [[] for _ in range(n)]
        for user, argument in pairs.tolist():
            below[user].append(argument)
            users[argument].append(user)
        heights, depths = np.zeros(n, np.int64), np.zeros(n, np.int64)
        for v in range(n):  # arguments come before what reads them
            heights[v] = max((heights[u] + 1 for u in below[v]), default=0)
        for v in reversed(range(n)):
            depths[v] = max((depths[u] + 1 for u in users[v]), default=0)
        operations = heights > 0
        return Dags(
            torch.from_numpy(read.rows),
            torch.from_numpy(np.flatnonzero(~operations)),
            tuple(_level(np.flatnonzero(heights == level), below) for level in range(1, heights.max() + 1)),
            tuple(
                _level(np.flatnonzero(operations & (depths == level)), users)
                for level in range(depths[operations].max() + 1)
            ),
            torch.from_numpy(np.flatnonzero(operations)),
        )

    def compute(self, batch: Dags) -> Tensor:
        """Scores of classes for every operation."""
        parts = self.module
        x = parts["embed"](batch.rows)
        up, down = torch.zeros_like(x), torch.zeros_like(x)  # padding reads rows that no level has written
        up[batch.leaves] = parts["leaf"](x.index_select(0, batch.leaves)).tanh_()
        weights = parts["up"].all_weights[0]
        for level in batch.up:
            query = x.index_select(0, level.nodes)
            up[level.nodes] = torch.gru_cell(query, _attended(query, up, level), *weights)
        for depth, level in enumerate(batch.down):
            state = up.index_select(0, level.nodes)
            above = _attended(state, down, level) if depth else torch.zeros_like(state)
            down[level.nodes] = parts["back"](torch.cat([state, above], 1)).tanh_()
        both = torch.cat([up, down], 1).index_select(0, batch.operations)
        return parts["out"](both)


def _level(nodes: NDArray[np.int64], read: list[list[int]]) -> Level:
    places, there = padded([read[node] for node in nodes])
    return Level(torch.from_numpy(nodes), places, ~there)


def _attended(query: Tensor, states: Tensor, level: Level) -> Tensor:
    """For each query (n, d) the weighted sum of the states that its operation reads."""
    rows = states.index_select(0, level.read.view(-1)).view(*level.read.shape, -1)
    scores = torch.bmm(rows, query[:, :, None])[:, :, 0] / query.shape[1] ** 0.5
    weights = scores.masked_fill_(level.absent, -torch.inf).softmax(1)
    return torch.bmm(weights[:, None], rows)[:, 0]
