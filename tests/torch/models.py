"""Models of PyTorch's for one instance, as people write them; none knows of abw."""

from __future__ import annotations

import random
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


FEATURES = {"Scan": 12, "Index": 14, "Sort": 7, "Hash": 5, "Join": 11, "Loop": 6}
CHILDREN = {"Scan": 0, "Index": 0, "Sort": 1, "Hash": 1, "Join": 2, "Loop": 2}


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


class Drops(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.linear = nn.Embedding(9, 6), nn.Linear(6, 6)
        self.drop = nn.Dropout(0.4)

    def forward(self, words):
        h = torch.zeros(6)
        for word in words:
            h = torch.tanh(self.linear(self.drop(self.embed(torch.tensor(word)))) + h)
        rows = torch.stack([h, h * 2, self.embed(torch.tensor(words[0]))])
        return nn.functional.dropout(rows, 0.3, self.training).sum(0)


WORDS = 30
rng = random.Random(0)


def binary(n):
    if n == 1:
        return Node(rng.randrange(WORDS))
    k = rng.randrange(1, n)
    return Node(0, [binary(k), binary(n - k)])


def sentence(least=1, most=9):
    return [rng.randrange(WORDS) for _ in range(rng.randrange(least, most))]


def dependencies(n):
    nodes = [Node(i) for i in range(n)]
    for i in range(1, n):
        nodes[rng.randrange(max(0, i - 3), i)].children.append(nodes[i])
    return nodes[0]


def tagged():
    return [(w if w % 3 else None, sentence(1, 6)) for w in sentence(1, 7)]


def plan(depth):
    kind = rng.choice([k for k, n in CHILDREN.items() if (n == 0) == (depth == 0 or rng.random() < 0.2)])
    children = [plan(max(depth - 1, 0)) for _ in range(CHILDREN[kind])]
    return {"type": kind, "features": torch.randn(FEATURES[kind]), "children": children}


def five(name: str, hidden: int = 8, count: int = 6) -> tuple[Any, tuple[list[Any], ...]]:
    """One of the five models, and its instances as columns."""
    rng.seed(3)
    torch.manual_seed(3)
    several = range(count)
    match name:
        case "tree":
            return BinaryTreeLSTM(WORDS, hidden), ([binary(rng.randrange(1, 9)) for _ in several],)
        case "child-sum":
            trees = [dependencies(rng.randrange(1, 10)) for _ in several]
            words = [torch.randint(WORDS, (10,)) for _ in several]
            return ChildSumTreeLSTM(WORDS, hidden, hidden), (trees, words)
        case "tagger":
            return CharTagger(WORDS, WORDS, hidden), ([tagged() for _ in several],)
        case "plans":
            return PlanCost(hidden), ([plan(rng.randrange(1, 4)) for _ in several],)
        case "parser":
            return Parser(WORDS, hidden), ([sentence(2, 8) for _ in several],)
    raise ValueError(name)


FIVE = ("tree", "child-sum", "tagger", "plans", "parser")


def tensors(x: Any) -> list[Any]:
    """All tensors of floats in nested lists."""
    if isinstance(x, torch.Tensor):
        return [x] if x.dtype.is_floating_point else []
    if isinstance(x, dict):
        x = list(x.values())
    return [t for y in x for t in tensors(y)] if isinstance(x, list | tuple) else []


def loss_of(outputs: Any) -> Any:
    """A number that depends on each output in a way of its own."""
    return sum((t * torch.linspace(0.5, 1.5, t.numel()).view(t.shape)).sum() for t in tensors(outputs))


def assert_alike(wanted: Any, found: Any, tolerance: float = 2e-6) -> None:
    """Values within the tolerance of the largest of a tensor, all else the same."""
    if isinstance(wanted, torch.Tensor):
        assert isinstance(found, torch.Tensor)
        assert found.shape == wanted.shape
        assert found.dtype == wanted.dtype
        if wanted.numel() and wanted.dtype.is_floating_point:
            scale = max(1.0, float(wanted.detach().abs().max()))
            assert float((wanted - found).detach().abs().max()) <= tolerance * scale
        else:
            assert torch.equal(wanted, found)
    elif isinstance(wanted, list | tuple):
        assert type(wanted) is type(found)
        assert len(wanted) == len(found)
        for a, b in zip(wanted, found, strict=True):
            assert_alike(a, b, tolerance)
    elif isinstance(wanted, dict):
        assert list(wanted) == list(found)
        assert_alike(list(wanted.values()), list(found.values()), tolerance)
    else:
        assert wanted == found


def gradients(model: Any, outputs: Any) -> dict[str, Any]:
    """The gradients of the parameters that the outputs depend on."""
    for p in model.parameters():
        p.grad = None
    loss_of(outputs).backward()
    return {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def check(model: Any, *columns: Any, trains: bool = True, tolerance: float = 2e-6, **options: Any) -> Any:
    """Run a model batched and one by one: values and gradients have to be PyTorch's. Returns `fast`."""
    from abw.torch import batch

    fast = batch(model, **options)
    with torch.no_grad():
        wanted = [model(*item) for item in zip(*columns, strict=True)]
        for _ in range(2):
            assert_alike(wanted, fast(*columns), tolerance)
    if trains:
        theirs = gradients(model, [model(*item) for item in zip(*columns, strict=True)])
        for _ in range(2):
            ours = gradients(model, fast(*columns))
            largest = max(float(g.abs().max()) for g in theirs.values())
            for name, gradient in theirs.items():
                scale = max(float(gradient.abs().max()), 0.02 * largest)
                off = float((gradient - ours.get(name, 0)).abs().max())
                assert off <= 1e-5 * scale, (name, off / scale)
    return fast
