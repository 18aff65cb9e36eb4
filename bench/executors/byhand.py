"""Trained models written in PyTorch: for one instance, and batched by hand as one would without abw."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Rows = Mapping[str, int]
"""The row of each word; others have that of <unk>."""


def _torch() -> Any:  # noqa: ANN401
    import torch

    return torch


def _joined(outputs: Sequence[Any]) -> Floats:
    joined: Floats = _torch().cat(outputs).numpy()
    return joined


class TreeLSTM:
    """A binary tree LSTM (specs/torch-treelstm.yaml): scores of classes for every node."""

    def __init__(self, rows: Rows, hidden: int, classes: int = 5) -> None:
        nn = _torch().nn
        self.rows = rows
        self.module = nn.ModuleDict(
            {
                "embed": nn.Embedding(len(rows), hidden),
                "leaf": nn.Linear(hidden, 3 * hidden),
                "node": nn.Linear(2 * hidden, 5 * hidden),
                "out": nn.Linear(hidden, classes),
            }
        )

    def read(self, path: Path) -> list[Flat]:
        """The file's trees as `batched` wants them."""
        return [flattened(tree) for tree in trees(path, self.rows)]

    def one_by_one(self, path: Path) -> Floats:
        """Recursion over each tree."""
        torch, parts = _torch(), self.module
        embed, leaf, node = parts["embed"].weight, parts["leaf"], parts["node"]

        def visit(tree: Any, states: list[Any]) -> tuple[Any, Any]:  # noqa: ANN401
            place = len(states)
            states.append(None)
            if isinstance(tree, int):
                i, o, u = leaf(embed[tree]).chunk(3)
                c = i.sigmoid() * u.tanh()
            else:
                hl, cl = visit(tree[0], states)
                hr, cr = visit(tree[1], states)
                i, fl, fr, o, u = node(torch.cat([hl, hr])).chunk(5)
                c = i.sigmoid() * u.tanh() + fl.sigmoid() * cl + fr.sigmoid() * cr
            h = o.sigmoid() * c.tanh()
            states[place] = h
            return h, c

        outputs = []
        for tree in trees(path, self.rows):
            states: list[Any] = []
            visit(tree, states)
            outputs.append(parts["out"](torch.stack(states)))
        return _joined(outputs)

    def batched(self, path: Path, batch: int) -> Floats:
        """Level by level: all nodes of the same height in a mini-batch at once."""
        flat = self.read(path)
        return _joined([self._levels(flat[first : first + batch]) for first in range(0, len(flat), batch)])

    def _levels(self, flat: Sequence[Flat]) -> Any:  # noqa: ANN401
        made = levels(flat)
        return self.module["out"](self.states(made)).index_select(0, made.place)

    def states(self, made: Levels) -> Any:  # noqa: ANN401
        """The state h of each node, in the order of levels."""
        torch, parts = _torch(), self.module
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


class BiLSTM:
    """A tagger of two layers in both directions (specs/torch-bilstm.yaml): scores of tags for every word."""

    def __init__(self, rows: Rows, hidden: int, tags: int = 9) -> None:
        nn = _torch().nn
        self.rows = rows
        self.module = nn.ModuleDict(
            {
                "embed": nn.Embedding(len(rows), hidden),
                "lstm": nn.LSTM(hidden, hidden, num_layers=2, bidirectional=True, batch_first=True),
                "out": nn.Linear(2 * hidden, tags),
            }
        )

    def read(self, path: Path) -> list[Any]:
        """The rows of each sentence's words, as `batched` wants them."""
        return [_torch().tensor(words) for words in sentences(path, self.rows)]

    def one_by_one(self, path: Path) -> Floats:
        """One call of nn.LSTM for each sentence."""
        parts = self.module
        every = self.read(path)
        return _joined([parts["out"](parts["lstm"](parts["embed"](words))[0]) for words in every])

    def batched(self, path: Path, batch: int) -> Floats:
        """Packed sequences: what PyTorch has for sentences of different lengths."""
        torch, parts = _torch(), self.module
        rnn = torch.nn.utils.rnn
        every = self.read(path)
        outputs = []
        for first in range(0, len(every), batch):
            words = every[first : first + batch]
            lengths = torch.tensor([len(sentence) for sentence in words])
            packed = rnn.pack_sequence(words, enforce_sorted=False)
            packed, _ = parts["lstm"](packed._replace(data=parts["embed"](packed.data)))
            scores = packed._replace(data=parts["out"](packed.data))
            padded, _ = rnn.pad_packed_sequence(scores, batch_first=True)
            outputs.append(padded[torch.arange(padded.shape[1]) < lengths[:, None]])
        return _joined(outputs)


ByHand = TreeLSTM | BiLSTM
"""A model by hand: from a data file to its outputs, in the order of instances and vertices."""


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
    from_numpy = _torch().from_numpy
    return Levels(tuple(from_numpy(array) for array in arrays), from_numpy(place))


def sentences(path: Path, rows: Rows) -> Iterator[list[int]]:
    """The words' rows of each line `word|TAG ...`."""
    unknown = rows["<unk>"]
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield [rows.get(token.rpartition("|")[0], unknown) for token in line.split()]


def trees(path: Path, rows: Rows) -> Iterator[Any]:
    """Binary trees, one a line: a leaf is its word's row, any other node a pair."""
    with path.open(encoding="utf-8") as file:
        for line in file:
            yield tree_of(line, rows)


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
