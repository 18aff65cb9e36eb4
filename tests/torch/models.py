"""Models of PyTorch's for one instance, as people write them; none knows of abw."""

from __future__ import annotations

import random
from typing import Any

import torch
from torch import nn

from abw.bench.pytorch.single import (
    BinaryTreeLSTM,
    CharTagger,
    ChildSumTreeLSTM,
    Node,
    Parser,
    PlanCost,
    plan,
)


class Kinds(nn.Module):
    """Another layer for each kind of input, over an embedding whose row 0 is padding."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(9, 8, padding_idx=0)
        self.layers = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))

    def forward(self, kind, word):
        return torch.tanh(self.layers[kind](self.embed(torch.tensor(word))))


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
        noise = torch.randn_like(h) + torch.rand_like(rows[0]) if self.training else 0.0
        return nn.functional.dropout(rows, 0.3, self.training).sum(0) * noise + h


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
            return PlanCost(hidden), ([plan(rng.randrange(1, 4), rng) for _ in several],)
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


def check(model: Any, *columns: Any, trains: bool = True, tolerance: float = 5e-6, **options: Any) -> Any:
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
