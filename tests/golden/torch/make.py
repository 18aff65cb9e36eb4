"""What PyTorch computes for specs/torch-*.yaml: `python tests/golden/torch/make.py` writes it anew.

For each spec NAME two files beside this one: a state_dict (`NAME.safetensors` or `NAME.npz`), and in
`NAME-expected.npz` the outputs in the order of instances and vertices. Data and vocabulary are the specs'
own. Needs torch and safetensors; the tests that read the files do not need torch.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[2] / "specs" / "data"
EMBED, HIDDEN, TAGS, CLASSES = 6, 5, 9, 5
LIMIT = 12
Tree = str | tuple["Tree", "Tree"]
WORDS = {word: row for row, word in enumerate((DATA / "words.txt").read_text().split("\n")[:-1])}


def row(word: str) -> int:
    """A word's row; unknown words have that of <unk>."""
    return WORDS.get(word, WORDS["<unk>"])


class Tagger(nn.Module):
    """Scores of tags for each word of a sentence."""

    def __init__(self, name: str, recurrent: nn.Module, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(WORDS), EMBED)
        self.add_module(name, recurrent)
        self.recurrent = name
        self.out = nn.Linear(width, TAGS)

    def forward(self, words: list[str]) -> Tensor:
        x = self.embed(torch.tensor([row(word) for word in words]))
        scores: Tensor = self.out(self.get_submodule(self.recurrent)(x)[0])
        return scores


class TreeLSTM(nn.Module):
    """A binary tree LSTM (Tai et al., 2015, section 3.2, N = 2): scores of classes for each node."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(WORDS), EMBED)
        self.leaf = nn.Linear(EMBED, 3 * HIDDEN)
        self.node = nn.Linear(2 * HIDDEN, 5 * HIDDEN)
        self.out = nn.Linear(HIDDEN, CLASSES)

    def forward(self, tree: Tree) -> list[Tensor]:
        """The scores of the tree's nodes in preorder."""
        return self.visit(tree)[2]

    def visit(self, tree: Tree) -> tuple[Tensor, Tensor, list[Tensor]]:
        if isinstance(tree, str):
            i, o, u = self.leaf(self.embed.weight[row(tree)]).chunk(3)
            c = i.sigmoid() * u.tanh()
            below = []
        else:
            hl, cl, left = self.visit(tree[0])
            hr, cr, right = self.visit(tree[1])
            i, fl, fr, o, u = self.node(torch.cat([hl, hr])).chunk(5)
            c = i.sigmoid() * u.tanh() + fl.sigmoid() * cl + fr.sigmoid() * cr
            below = left + right
        h = o.sigmoid() * c.tanh()
        return h, c, [self.out(h), *below]


class ChildSum(nn.Module):
    """A child-sum tree LSTM (Tai et al., 2015, section 3.1): scores of classes for each word."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(len(WORDS), EMBED)
        self.iou_x = nn.Linear(EMBED, 3 * HIDDEN)
        self.iou_h = nn.Linear(HIDDEN, 3 * HIDDEN, bias=False)
        self.f_x = nn.Linear(EMBED, HIDDEN)
        self.f_h = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.out = nn.Linear(HIDDEN, CLASSES)

    def forward(self, words: list[str], children: list[list[int]]) -> list[Tensor]:
        states: dict[int, tuple[Tensor, Tensor]] = {}

        def visit(node: int) -> tuple[Tensor, Tensor]:
            if node not in states:
                below = [visit(child) for child in children[node]]
                x = self.embed.weight[row(words[node])]
                h = sum((h for h, _ in below), torch.zeros(HIDDEN))
                i, o, u = (self.iou_x(x) + self.iou_h(h)).chunk(3)
                c = i.sigmoid() * u.tanh()
                for hk, ck in below:
                    c = c + (self.f_x(x) + self.f_h(hk)).sigmoid() * ck
                states[node] = o.sigmoid() * c.tanh(), c
            return states[node]

        return [self.out(visit(node)[0]) for node in range(len(words))]


def sentences() -> Iterator[list[str]]:
    for line in (DATA / "tags.txt").read_text().splitlines()[:LIMIT]:
        yield [token.rsplit("|", 1)[0] for token in line.split()]


def trees() -> Iterator[Tree]:
    """Binary trees as pairs of pairs, a leaf being its word."""
    for line in (DATA / "trees.txt").read_text().splitlines()[:LIMIT]:
        stack: list[list[Tree]] = [[]]
        for token in re.findall(r"[()]|[^\s()]+", line):
            if token == "(":
                stack.append([])
            elif token == ")":
                _, *parts = stack.pop()
                stack[-1].append(parts[0] if len(parts) == 1 else (parts[0], parts[1]))
            else:
                stack[-1].append(token)
        yield stack[0][0]


def dependencies() -> Iterator[tuple[list[str], list[list[int]]]]:
    for line in (DATA / "dependency.jsonl").read_text().splitlines()[:LIMIT]:
        graph = json.loads(line)
        words = [vertex["word"] for vertex in graph["vertices"]]
        children: list[list[int]] = [[] for _ in words]
        for head, child in graph["links"]["children"]:
            children[head].append(child)
        yield words, children


def keep(name: str, model: nn.Module, outputs: list[Tensor], ending: str) -> None:
    state = {key: value.contiguous() for key, value in model.state_dict().items()}
    if ending == ".safetensors":
        save_file(state, HERE / f"{name}{ending}")
    else:
        np.savez(HERE / f"{name}{ending}", **{key: value.numpy() for key, value in state.items()})
    np.savez(HERE / f"{name}-expected.npz", torch.stack(outputs).numpy())


@torch.no_grad()
def main() -> None:
    torch.manual_seed(8)
    lstm = Tagger("lstm", nn.LSTM(EMBED, HIDDEN, batch_first=True), HIDDEN)
    two = nn.LSTM(EMBED, HIDDEN, num_layers=2, bidirectional=True, batch_first=True)
    bilstm = Tagger("lstm", two, 2 * HIDDEN)
    gru = Tagger("gru", nn.GRU(EMBED, HIDDEN, batch_first=True), HIDDEN)
    for name, model, ending in (
        ("torch-lstm", lstm, ".safetensors"),
        ("torch-bilstm", bilstm, ".npz"),
        ("torch-gru", gru, ".npz"),
    ):
        keep(name, model, [scores for words in sentences() for scores in model(words)], ending)
    tree = TreeLSTM()
    keep("torch-treelstm", tree, [y for t in trees() for y in tree(t)], ".safetensors")
    childsum = ChildSum()
    keep("torch-childsum", childsum, [y for d in dependencies() for y in childsum(*d)], ".npz")


if __name__ == "__main__":
    main()
