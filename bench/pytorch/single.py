"""Six models of PyTorch's, each for one instance, as people write them; none knows of abw. Needs PyTorch."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch import nn


class Node:
    def __init__(self, word, children=()):
        self.word, self.children, self.state = word, list(children), None

    def is_leaf(self):
        return not self.children


class BinaryTreeLSTM(nn.Module):
    """Operations inline in a recursion, tensors of (1, d), results in a list on `self`."""

    def __init__(self, words, hidden, classes=5):
        super().__init__()
        self.embed = nn.Embedding(words, hidden)
        self.leaf = nn.Linear(hidden, 3 * hidden)
        self.node = nn.Linear(2 * hidden, 5 * hidden)
        self.out = nn.Linear(hidden, classes)
        self.scores = []

    def traverse(self, node):
        if node.is_leaf():
            x = self.embed(torch.LongTensor([node.word]))
            i, o, u = self.leaf(x).chunk(3, 1)
            c = torch.sigmoid(i) * torch.tanh(u)
        else:
            lh, lc = self.traverse(node.children[0])
            rh, rc = self.traverse(node.children[1])
            gates = self.node(torch.cat((lh, rh), 1))
            i, fl, fr, o, u = torch.chunk(gates, 5, dim=1)
            c = torch.sigmoid(i) * torch.tanh(u) + torch.sigmoid(fl) * lc + torch.sigmoid(fr) * rc
        h = torch.sigmoid(o) * torch.tanh(c)
        self.scores.append(self.out(h))
        return h, c

    def forward(self, tree):
        self.scores = []
        self.traverse(tree)
        return torch.cat(self.scores)


class ChildSumTreeLSTM(nn.Module):
    """Children stacked to (k, d), sums over them, states kept on the tree, word vectors beside it."""

    def __init__(self, words, dim, mem, classes=5):
        super().__init__()
        self.mem = mem
        self.emb = nn.Embedding(words, dim)
        self.ioux, self.iouh = nn.Linear(dim, 3 * mem), nn.Linear(mem, 3 * mem)
        self.fx, self.fh = nn.Linear(dim, mem), nn.Linear(mem, mem)
        self.out = nn.Linear(mem, classes)

    def node_forward(self, inputs, child_c, child_h):
        child_h_sum = torch.sum(child_h, dim=0, keepdim=True)
        iou = self.ioux(inputs) + self.iouh(child_h_sum)
        i, o, u = torch.split(iou, iou.size(1) // 3, dim=1)
        i, o, u = torch.sigmoid(i), torch.sigmoid(o), torch.tanh(u)
        f = torch.sigmoid(self.fh(child_h) + self.fx(inputs).repeat(len(child_h), 1))
        fc = torch.mul(f, child_c)
        c = torch.mul(i, u) + torch.sum(fc, dim=0, keepdim=True)
        return c, torch.mul(o, torch.tanh(c))

    def encode(self, tree, inputs):
        for child in tree.children:
            self.encode(child, inputs)
        if not tree.children:
            child_c, child_h = torch.zeros(1, self.mem), torch.zeros(1, self.mem)
        else:
            child_c, child_h = zip(*(child.state for child in tree.children), strict=True)
            child_c, child_h = torch.cat(child_c, dim=0), torch.cat(child_h, dim=0)
        tree.state = self.node_forward(inputs[tree.word], child_c, child_h)
        return tree.state

    def forward(self, tree, words):
        _, h = self.encode(tree, self.emb(words))
        return self.out(h)


class CharTagger(nn.Module):
    """A BiLSTM of nn.LSTMCell over words, rare ones by an LSTM over their characters."""

    def __init__(self, words, chars, hidden, tags=9):
        super().__init__()
        half = hidden // 2
        self.half, self.hidden = half, hidden
        self.words, self.chars = nn.Embedding(words, hidden), nn.Embedding(chars, half)
        self.char_fwd, self.char_bwd = nn.LSTMCell(half, half), nn.LSTMCell(half, half)
        self.fwd, self.bwd = nn.LSTMCell(hidden, hidden), nn.LSTMCell(hidden, hidden)
        self.tag = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.Tanh(), nn.Linear(hidden, tags))

    def run(self, cell, inputs, size):
        h, c = torch.zeros(1, size), torch.zeros(1, size)
        outputs = []
        for x in inputs:
            h, c = cell(x, (h, c))
            outputs.append(h)
        return outputs

    def word(self, word):
        if word[0] is not None:
            return self.words(torch.tensor([word[0]]))
        letters = [self.chars(torch.tensor([c])) for c in word[1]]
        last = self.run(self.char_fwd, letters, self.half)[-1]
        return torch.cat([last, self.run(self.char_bwd, letters[::-1], self.half)[-1]], dim=1)

    def forward(self, sentence):
        inputs = [self.word(w) for w in sentence]
        fwd = self.run(self.fwd, inputs, self.hidden)
        bwd = self.run(self.bwd, inputs[::-1], self.hidden)[::-1]
        return torch.cat([self.tag(torch.cat([f, b], 1)) for f, b in zip(fwd, bwd, strict=True)], dim=0)


FEATURES = {"Scan": 12, "Index": 14, "Sort": 7, "Hash": 5, "Group": 9, "Join": 11, "Loop": 6, "Merge": 8}
CHILDREN = {"Scan": 0, "Index": 0, "Sort": 1, "Hash": 1, "Group": 1, "Join": 2, "Loop": 2, "Merge": 2}


class Unit(nn.Module):
    def __init__(self, inner, hidden, out):
        super().__init__()
        layers = (nn.Linear(inner, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.dense = nn.Sequential(*layers, nn.Linear(hidden, out), nn.ReLU())

    def forward(self, x):
        return self.dense(x)


class PlanCost(nn.Module):
    """A query plan's cost: an MLP for each kind of operator, numbers of the instance."""

    def __init__(self, hidden, out=8):
        super().__init__()
        self.units = nn.ModuleDict({k: Unit(n + CHILDREN[k] * out, hidden, out) for k, n in FEATURES.items()})
        self.times = []

    def operator(self, plan):
        parts = [plan["features"]]
        for child in plan["children"]:
            parts.append(self.operator(child))  # noqa: PERF401
        output = self.units[plan["type"]](torch.cat(parts, dim=-1))
        self.times.append(output[0])
        return output

    def forward(self, plan):
        self.times = []
        output = self.operator(plan)
        return output[0], torch.stack(self.times)


class SentenceEncoder(nn.Module):
    """Self-attention over the words of a sentence of any length, and their mean."""

    def __init__(self, words, hidden, classes=5):
        super().__init__()
        self.embed = nn.Embedding(words, hidden)
        self.layer = nn.TransformerEncoderLayer(hidden, 4, 2 * hidden, 0.0, batch_first=True)
        self.out = nn.Linear(hidden, classes)

    def forward(self, sentence):
        x = self.layer(self.embed(torch.tensor(sentence)).unsqueeze(0))
        return self.out(x.mean(1))


SHIFT, LEFT, RIGHT = range(3)


class StackLSTM:
    """A stack of an LSTM's states: no module."""

    def __init__(self, cell, initial):
        self.cell, self.states = cell, [initial]

    def push(self, x):
        self.states.append(self.cell(x, self.states[-1]))

    def pop(self):
        return self.states.pop()

    def top(self):
        return self.states[-1][0]


class Parser(nn.Module):
    """A shift-reduce parser that goes by `argmax().item()`."""

    def __init__(self, words, hidden):
        super().__init__()
        self.embed, self.acts = nn.Embedding(words, hidden), nn.Embedding(3, hidden)
        self.stack_cell, self.buffer_cell = nn.LSTMCell(hidden, hidden), nn.LSTMCell(hidden, hidden)
        self.action_cell = nn.LSTMCell(hidden, hidden)
        self.hidden_layer, self.score = nn.Linear(3 * hidden, hidden), nn.Linear(hidden, 3)
        self.compose = nn.Linear(2 * hidden, hidden)
        self.h0 = nn.Parameter(torch.randn(1, hidden) * 0.1)
        self.c0 = nn.Parameter(torch.randn(1, hidden) * 0.1)

    def forward(self, sentence):
        start = (self.h0, self.c0)
        stack, buffer = StackLSTM(self.stack_cell, start), StackLSTM(self.buffer_cell, start)
        history = StackLSTM(self.action_cell, start)
        waiting: list[Any] = []
        for word in reversed(sentence):
            x = self.embed(torch.tensor([word]))
            buffer.push(x)
            waiting.append(x)
        values: list[Any] = []
        actions = []
        while waiting or len(values) > 1:
            summary = torch.cat([stack.top(), buffer.top(), history.top()], dim=1)
            logits = self.score(torch.tanh(self.hidden_layer(summary)))
            if not waiting:
                action = 1 + logits[:, 1:].argmax(dim=1).item()
            elif len(values) < 2:
                action = SHIFT
            else:
                action = logits.argmax(dim=1).item()
            if action == SHIFT:
                value = waiting.pop()
                buffer.pop()
            else:
                right, left = values.pop(), values.pop()
                stack.pop()
                stack.pop()
                head, child = (left, right) if action == LEFT else (right, left)
                value = torch.tanh(self.compose(torch.cat([head, child], dim=1)))
            values.append(value)
            stack.push(value)
            history.push(self.acts(torch.tensor([action])))
            actions.append(action)
        return actions, values[0]


def read_trees(file: Path, count: int) -> tuple[list[Node], int]:
    """Binary trees in brackets, as `(3 (2 It) (4 (3 works) (2 well)))`, and the number of words."""
    words: dict[str, int] = {}

    def node(tokens: Any) -> Node:
        next(tokens)  # the label
        if (token := next(tokens)) != "(":
            next(tokens)
            return Node(words.setdefault(token.lower(), len(words)))
        left = node(tokens)
        next(tokens)
        right = node(tokens)
        next(tokens)
        return Node(0, [left, right])

    found = []
    with file.open(encoding="utf-8") as lines:
        for line, _ in zip(lines, range(count), strict=False):
            tokens = iter(line.replace("(", " ( ").replace(")", " ) ").split())
            next(tokens)
            found.append(node(tokens))
    return found, len(words)


def read_words(file: Path, count: int) -> list[list[str]]:
    """Sentences of words, each with a tag behind `|`."""
    with file.open(encoding="utf-8") as lines:
        some = [line for line, _ in zip(lines, range(count), strict=False)]
    return [[token.rsplit("|", 1)[0] for token in line.split()] for line in some]


def numbered(sentences: Iterable[Iterable[str]]) -> tuple[list[list[int]], int]:
    """Sentences as numbers of words, and how many words there are."""
    words: dict[str, int] = {}
    found = [[words.setdefault(word.lower(), len(words)) for word in one] for one in sentences]
    return found, len(words)


def heads(n: int, rng: random.Random) -> Node:
    """A tree over n words whose heads are drawn, with as many children as dependency parses have."""
    nodes = [Node(i) for i in range(n)]
    order = list(range(n))
    rng.shuffle(order)
    for at, i in enumerate(order[1:], 1):
        nodes[order[rng.randrange(max(0, at - 6), at)]].children.append(nodes[i])
    return nodes[order[0]]


def plan(depth: int, rng: random.Random) -> dict[str, Any]:
    """A query plan of random operators with random features."""
    leaf = depth == 0 or rng.random() < 0.2
    kind = rng.choice([k for k, n in CHILDREN.items() if (n == 0) == leaf])
    children = [plan(max(depth - 1, 0), rng) for _ in range(CHILDREN[kind])]
    return {"type": kind, "features": torch.randn(FEATURES[kind]), "children": children}


def spelt(sentences: list[list[str]]) -> tuple[list[list[tuple[int | None, list[int]]]], int, int]:
    """Sentences of words: the number of each, None if it is rare, and its characters'; how many there are."""
    counts: dict[str, int] = {}
    for word in (word for one in sentences for word in one):
        counts[word] = counts.get(word, 0) + 1
    common = {word: i for i, word in enumerate(w for w, n in counts.items() if n >= 5)}
    chars: dict[str, int] = {}
    found = [
        [(common.get(word), [chars.setdefault(c, len(chars)) for c in word]) for word in one]
        for one in sentences
    ]
    return found, len(common), len(chars)


def of_data(name: str, data: Path, hidden: int, count: int) -> tuple[Any, tuple[list[Any], ...]]:
    """A model by its name and its instances, as columns, of the files in a folder."""
    torch.manual_seed(0)
    rng = random.Random(1)
    if name == "binary tree LSTM":
        trees, words = read_trees(data / "trees/train.txt", count)
        return BinaryTreeLSTM(words, hidden), (trees,)
    if name == "query plans":
        return PlanCost(hidden, 32), ([plan(rng.randrange(3, 6), rng) for _ in range(count)],)
    text = read_words(data / "tags/dev.txt", count)
    if name == "tagger with characters":
        items, words, chars = spelt(text)
        return CharTagger(words, chars, hidden), (items,)
    sentences, words = numbered(text)
    if name == "self-attention":
        return SentenceEncoder(words, hidden).eval(), (sentences,)
    if name == "child-sum tree LSTM":
        columns = [heads(len(one), rng) for one in sentences], [torch.tensor(one) for one in sentences]
        return ChildSumTreeLSTM(words, hidden, hidden), columns
    return Parser(words, hidden), (sentences,)


NAMES = (
    "binary tree LSTM", "child-sum tree LSTM", "tagger with characters", "query plans", "shift-reduce parser",
    "self-attention",
)  # fmt: skip
