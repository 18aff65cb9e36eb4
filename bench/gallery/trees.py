"""Trees level by level in PyTorch: a binary tree LSTM, and what it reads of a mini-batch."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

# The row of each word; others have that of <unk>.
Rows = Mapping[str, int]


class TreeLSTM:
    """A binary tree LSTM (specs/torch-treelstm.yaml): scores of classes for every node."""

    def __init__(self, rows: Rows, hidden: int, classes: int = 5) -> None:
        self.rows = rows
        self.module = nn.ModuleDict(
            {
                "embed": nn.Embedding(len(rows), hidden),
                "leaf": nn.Linear(hidden, 3 * hidden),
                "node": nn.Linear(2 * hidden, 5 * hidden),
                "out": nn.Linear(hidden, classes),
            }
        )

    def states(self, made: Levels) -> Any:  # noqa: ANN401
        """The state h of each node, in the order of levels."""
        parts = self.module
        hidden = parts["embed"].weight.shape[1]
        h, c = (torch.empty(len(made.place), hidden) for _ in range(2))
        begin = 0
        for level in made.levels:
            if begin == 0:
                gates = parts["leaf"](parts["embed"](level))
                i, o = gates[:, : 2 * hidden].sigmoid().split(hidden, 1)
                new = i * gates[:, 2 * hidden :].tanh()
            else:
                gates = parts["node"](h.index_select(0, level).view(-1, 2 * hidden))
                i, fl, fr, o = gates[:, : 4 * hidden].sigmoid().split(hidden, 1)
                cl, cr = c.index_select(0, level).view(-1, 2, hidden).unbind(1)
                new = i * gates[:, 4 * hidden :].tanh() + fl * cl + fr * cr
            end = begin + len(new)
            c[begin:end] = new
            h[begin:end] = o * new.tanh()
            begin = end
        return h


@dataclass(frozen=True, slots=True)
class Flat:
    """A tree's nodes in preorder: `height` (n,), `word` (n,) and `children` (n, 2); 0 where there is none."""

    height: NDArray[np.int64]
    word: NDArray[np.int64]
    children: NDArray[np.int64]


def flattened(tree: Any) -> Flat:  # noqa: ANN401
    """A tree as arrays."""
    height: list[int] = []
    word: list[int] = []
    children: list[tuple[int, int]] = []

    def visit(part: Any) -> int:  # noqa: ANN401
        place = len(height)
        height.append(0)
        word.append(part if isinstance(part, int) else 0)
        children.append((0, 0))
        if not isinstance(part, int):
            left = visit(part[0])
            right = visit(part[1])
            children[place] = (left, right)
            height[place] = 1 + max(height[left], height[right])
        return place

    visit(tree)
    return Flat(np.array(height), np.array(word), np.array(children))


@dataclass(frozen=True, slots=True)
class Levels:
    """A mini-batch of trees by level: the leaves' words, then of each level both children's places, one after
    the other; `place` is where each node, in preorder, comes in this order.
    """

    levels: tuple[Any, ...]
    place: Any


def levels(flat: Sequence[Flat]) -> Levels:
    """All nodes of the same height in a mini-batch as one level."""
    start = np.cumsum([0] + [len(tree.height) for tree in flat])
    height = np.concatenate([tree.height for tree in flat])
    word = np.concatenate([tree.word for tree in flat])
    children = np.concatenate([tree.children + first for tree, first in zip(flat, start, strict=False)])
    order = np.argsort(height, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    leaves, *inner = np.split(order, np.cumsum(np.bincount(height))[:-1])
    arrays = (word[leaves], *(place[children[nodes]].ravel() for nodes in inner))
    return Levels(tuple(torch.from_numpy(array) for array in arrays), torch.from_numpy(place))


def tree_of(line: str, rows: Rows) -> Any:  # noqa: ANN401
    """The tree of a line."""
    unknown = rows["<unk>"]
    stack: list[list[Any]] = [[]]
    for token in re.findall(r"[()]|[^\s()]+", line):
        if token == "(":
            stack.append([])
        elif token == ")":
            _, *parts = stack.pop()  # the first is the label
            leaf = len(parts) == 1
            stack[-1].append(rows.get(parts[0], unknown) if leaf else tuple(parts))
        else:
            stack[-1].append(token)
    return stack[0][0]
