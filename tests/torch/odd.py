"""Models that do what is out of the way: each is for a list of words."""

from __future__ import annotations

import re

import torch
from torch import nn
from torch.nn import functional


class Base(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.linear, self.wide = nn.Embedding(30, 6), nn.Linear(6, 6), nn.Linear(12, 6)
        self.score, self.factor, self.loss = nn.Linear(6, 1), 0.5, nn.CrossEntropyLoss()
        self.matrix = nn.Parameter(torch.randn(6, 6))
        self.register_buffer("scale", torch.linspace(0.5, 1.5, 6))
        self.plain = torch.linspace(1, 2, 6)

    def word(self, w):
        return self.embed(torch.tensor(w))


def folded(model, words):
    """A function that calls itself, and that others call by its module."""
    x = model.word(words[0])
    if not isinstance(x, torch.Tensor):
        raise TypeError(x)
    return x if len(words) == 1 else torch.tanh(model.linear(x) + folded(model, words=words[1:]))


class Alias(Base):
    def forward(self, words):
        h = torch.tanh(self.linear(self.word(words[0])))
        c = h
        for w in words:
            c += self.word(w)
        return h * 2


class ReluInPlace(Base):
    def forward(self, words):
        h = self.linear(self.word(words[0]))
        functional.relu(h, inplace=True)
        return h


class DetachedDecision(Base):
    def forward(self, words):
        x = self.linear(self.word(words[0]))
        return self.linear(x) if x.data.max(0)[1].item() > 2 else x


class Buffers(Base):
    def forward(self, words):
        return self.linear(self.word(words[0]) * self.scale) * self.plain


class MadeInside(Base):
    def forward(self, words):
        return self.linear(self.word(words[0]) * torch.tensor([1.0, 2, 3, 4, 5, 6]))


class Floats(Base):
    def forward(self, words):
        x = self.word(words[0])
        for i, w in enumerate(words):
            x = torch.tanh(self.linear(x) * (w / 7.0)) + float(i)
        return x * len(words)


class WholeSentence(Base):
    def forward(self, words):
        x = torch.tanh(self.linear(self.embed(torch.tensor(words))))
        return x.mean(0) + x[-1] + x[:1].sum(0) + self.embed(torch.arange(len(words))).max(0).values


class SelfAttention(Base):
    def forward(self, words):
        x = self.embed(torch.tensor(words))
        return self.linear(torch.softmax(x @ x.t() / 2.0, -1) @ x).sum(0)


class RowsWritten(Base):
    def forward(self, words):
        out = torch.zeros(len(words), 6)
        for i, w in enumerate(words):
            out[i] = self.word(w)
        return self.linear(out).sum(0)


class Memo(Base):
    def forward(self, words):
        cache = {}
        for w in words:
            if w not in cache:
                cache[w] = self.linear(self.word(w))
        return sum(cache[w] for w in words)


class Nonlocal(Base):
    def forward(self, words):
        total, seen = torch.zeros(6), []

        def add(w):
            nonlocal total
            seen.append(torch.tanh(self.linear(self.word(w))))
            total = total + seen[-1]

        for w in words:
            add(w)
        before = torch.stack(seen).sum(0)
        add(words[0])
        return before + torch.stack(seen).sum(0) + total


class Comparisons(Base):
    def forward(self, words):
        x = self.linear(self.word(words[0]))
        if (x > 0).all():
            return x
        if (x > 0).any():
            return -x
        return x * 2


class MaskAndMax(Base):
    def forward(self, words):
        x = self.linear(self.word(words[0]))
        return x > 0, torch.max(x, 0), torch.cat([x, x]), self.scale, self.word(words[0])


class NumbersOfValues(Base):
    def forward(self, words):
        x = torch.softmax(self.linear(self.word(words[0])), -1)
        _, index = x.topk(2)
        return self.linear(x) * max(x.tolist()) + x[index[0].item()]


class Indices(Base):
    def forward(self, words):
        x = functional.log_softmax(self.linear(self.word(words[0])), -1)
        return x[torch.tensor([0, 2])].sum() + x[words[-1] % 6]


class ThreeDimensions(Base):
    def forward(self, words):
        x = self.embed(torch.tensor(words))
        return (x.unsqueeze(2) * x.unsqueeze(1)).sum(0).sum(0)


class Products(Base):
    def forward(self, words):
        x = self.word(words[0])
        y = torch.addmm(self.scale.unsqueeze(0), self.embed(torch.tensor([words[0]])), self.matrix)
        return x @ self.matrix + self.matrix @ x + self.matrix[0] + y.squeeze(0)


class Functions(Base):
    def forward(self, words):
        x = self.word(words[0])
        y = torch.sin(x) * torch.cos(x) + torch.erf(x) + x.abs() ** 1.5 + torch.sign(x)
        return functional.glu(torch.cat([x, y]), -1).sum() + functional.mse_loss(x, torch.zeros(6))


class Generator(Base):
    def forward(self, words):
        def states():
            h = torch.zeros(6)
            for w in words:
                h = torch.tanh(self.linear(h) + self.word(w))
                yield h

        return torch.stack(list(states())).max(0).values


class While(Base):
    def forward(self, words):
        h, n = self.linear(self.word(words[0])), 0
        while bool(self.score(h) < 0.3) and n < 5:
            h, n = torch.tanh(self.linear(h)) + 0.3, n + 1
        return {"state": h, "steps": n}


class Shapes(Base):
    def forward(self, words):
        a, b = self.embed(torch.tensor([words[0]])), self.word(words[-1])
        some = [self.word(w) if w % 2 else self.embed(torch.tensor([w])).squeeze(0) for w in words]
        return torch.stack([a.squeeze(0), b]).mean(0) + torch.stack(some).sum(0) + (a + b).view(-1)


class Expanded(Base):
    def forward(self, words):
        x = self.embed(torch.tensor(words))
        q = self.linear(x[0]).unsqueeze(0).expand(len(words), -1)
        return torch.tanh(self.wide(torch.cat([q, x], 1))).sum(0)


class Masked(Base):
    def forward(self, words):
        x = self.linear(self.word(words[0]))
        mask = torch.tensor([True, False] * 3)
        return torch.softmax(x.masked_fill(mask, float("-inf")), 0)


class DrawnInside(Base):
    def forward(self, words):
        torch.manual_seed(words[0])
        return self.linear(self.word(words[0])) + torch.rand(6)


class Factor(Base):
    def forward(self, words):
        return self.linear(self.word(words[0])) * self.factor


class Tried(Base):
    def forward(self, words):
        try:
            return self.linear(self.word(words[3]))
        except IndexError:
            return self.word(words[0])


class WrittenView(Base):
    def forward(self, words):
        h = self.linear(self.word(words[0]))
        v = h.view(1, -1)
        for w in words:
            v.add_(self.word(w))
        return h


class WrittenPart(Base):
    def forward(self, words):
        x = self.linear(self.word(words[0]))
        x[1:3] = 1.0
        return x


class WrittenElements(Base):
    def forward(self, words):
        mask, table, x = torch.zeros(6), torch.zeros(2, 6), self.linear(self.word(words[0]))
        for w in words:
            mask = mask.clone()
            mask[torch.tensor(w % 6)] = -1e9
            table[w % 2, -1] = x[w % 6]
            x = torch.softmax(self.linear(x) + mask, 0)
        return x + mask.clamp(min=-1.0) + table.sum(0)


class WeightsComputed(Base):
    def forward(self, words):
        x = self.word(words[0]) * torch.tensor([len(words) / 4.0])
        for w in words:
            weight = torch.tanh(self.matrix) * torch.sigmoid(self.matrix.t())
            x = functional.linear(x, weight) + torch.sigmoid(self.score.bias * self.word(w))
        return x * torch.exp(self.matrix[0])


class Distances(Base):
    def forward(self, words):
        x, zero = self.linear(self.word(words[0])), torch.zeros(6)
        apart = [torch.dist(x, self.linear(self.word(w))) for w in words]
        flat = functional.normalize(zero * x, dim=0) + functional.pairwise_distance(x, zero)
        return torch.stack(apart).sum() + (x * 0).norm() + flat


class NumbersAsked(Base):
    def forward(self, words):
        x = self.word(words[0])
        for i in range(len(words) * 4):
            t = 1 / (1 + abs(self.score(x).item()))
            x = torch.tanh(self.linear(x)) * t + self.word(words[i % len(words)]) * (1 - t)
            x = self.linear(x * t) * t / (i + 1)
        return x * 8


class Lists(Base):
    def __init__(self):
        super().__init__()
        self.factors = nn.ParameterList([nn.Parameter(torch.randn(1)) for _ in range(3)])
        self.named = nn.ParameterDict({"a": torch.randn(6, 6), "b": torch.randn(6)})

    def forward(self, words):
        x = self.word(words[0])
        for w in words:
            x = torch.tanh(self.named["a"] @ x + self.named["b"] * self.factors[w % 3])
        shares = torch.softmax(torch.cat(list(self.factors)), 0)
        return sum(share * x for share in shares)


class Sequentials(Base):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(self.linear, nn.Tanh(), nn.Linear(6, 6))

    def forward(self, words):
        x = self.word(words[0]) * torch.tensor(words[:1]) + torch.tensor([w % 2 for w in words]).sum()
        for layer in self.layers:
            x = layer(x)
        for i in range(len(self.layers)):
            x = self.layers[i](x)
        flags = torch.tensor([w % 2 for w in words])
        rows = self.layers[:2](self.embed(torch.tensor(words))) * flags.unsqueeze(1)
        return self.layers[-1](x) * torch.tensor(2) + rows.sum(0)


class Pools(Base):
    def forward(self, words):
        x = self.embed(torch.tensor(words)).t().unsqueeze(0)
        most = functional.max_pool1d(functional.relu(x), x.size(2)).squeeze(2)
        windows = functional.avg_pool1d(x.transpose(1, 2), 3, stride=2)[0].sum(0)
        y = self.wide(torch.cat([most, functional.adaptive_avg_pool1d(x, 1).squeeze(-1)], 1))
        return functional.adaptive_max_pool1d(y.unsqueeze(1), 1) + windows.sum()


class PairsOfRows(Base):
    def forward(self, words):
        x = torch.stack([self.word(w) for w in words])
        apart = torch.exp(-(x.unsqueeze(1) - x.unsqueeze(0)).pow(2).sum(-1))
        return apart.sum(1).mean()


class Columns(Base):
    def forward(self, words):
        x = torch.stack([self.word(w) for w in words])
        return x[:, :4].sum(0).sum() + x.sum(0), torch.tanh(x[:1]).squeeze(0)


class OneRow(Base):
    def forward(self, words):
        rows = torch.stack([self.word(w) for w in words * 2])
        return (torch.tanh(rows) + torch.stack([self.word(w) for w in words[:1]])).sum(0)


class OneOrMore(Base):
    def forward(self, words):
        rows = torch.stack([self.linear(self.word(w)) for w in words[: 1 + words[0] % 2]])
        x = torch.tanh(rows).squeeze(0)
        return x * 2


class EqualRows(Base):
    def forward(self, words):
        rows = torch.stack([self.linear(self.word(w)) for w in words])
        return rows.std(0, unbiased=False)


class AddedToEmbedding(Base):
    def forward(self, words):
        x = self.word(words[0])
        x += self.embed.weight[words[-1]]
        for w in words:
            y = self.word(w)
            y.mul_(x)
            x = x + torch.roll(y % 0.3, 2, 0) + functional.softsign(y)
        return x - self.word(words[0])


class Distributions(Base):
    def forward(self, words):
        scores = self.linear(self.word(words[0]))
        chosen = torch.distributions.Categorical(logits=scores * 1e4).sample()
        whole = torch.is_tensor(scores) and scores.new_tensor([1.0] * 6) + scores.new_full((6,), 2.0)
        spread = torch.distributions.Normal(scores, torch.ones(6)).log_prob(whole)
        return torch.distributions.Categorical(logits=scores).log_prob(chosen) + spread.sum()


class MoreLosses(Base):
    def forward(self, words):
        x, y = torch.sigmoid(self.linear(self.word(words[0]))), torch.ones(6)
        some = functional.binary_cross_entropy(x, y) + functional.smooth_l1_loss(x * 3, y)
        return some + functional.huber_loss(x, y) + functional.logsigmoid(x).sum()


class RowsTaken(Base):
    def forward(self, words):
        x = torch.cat([self.embed.weight[words[0]], self.matrix[len(words) - 1]])
        for w in words:
            x = torch.cat([torch.tanh(self.wide(x)), self.embed.weight[torch.tensor(-w)]])
            x = x * self.matrix[w % 6, w % 3] + self.matrix[-1][w % 2]
        rows = self.matrix[[w % 6 for w in words]]
        return x, rows.sum(0) * torch.stack([x[:6], x[6:]])[[1, 0]].sum(0)


class NoGradInside(Base):
    def forward(self, words):
        with torch.no_grad():
            y = torch.tanh(self.linear(self.word(words[0])))
        return self.linear(y)


class Detached(Base):
    def forward(self, words):
        return self.linear(self.word(words[0]).detach())


class DetachedRows(Base):
    """Rows that are detached where the same code has computed with others before."""

    def pooled(self, rows):
        return torch.stack(rows).sum(0)

    def forward(self, words):
        rows = [torch.tanh(self.linear(self.word(w))) for w in words]
        return self.pooled(rows), self.pooled([row.detach() for row in rows])


class Convolution(Base):
    def forward(self, words):
        x = self.embed(torch.tensor(words))
        return functional.conv2d(x.view(1, 1, -1, 6), torch.ones(3, 1, 1, 2)).sum()


class Carries(Base):
    def forward(self, words):
        for w in words:
            self.plain = torch.tanh(self.linear(self.plain) + self.word(w))
        return self.plain


class Cumsum(Base):
    def forward(self, words):
        x = self.word(words[0])
        for _ in words:
            x = torch.tanh(self.linear(torch.cumsum(x, 0)))
        return x


class Sorted(Base):
    def forward(self, words):
        values, order = self.linear(self.word(words[0])).sort(descending=True)
        return self.linear(values) * self.linear(self.word(words[-1])).topk(2)[0].sum() + order[0].item()


class Left(Base):
    def forward(self, words):
        return self.linear(torch.cumprod(self.word(words[0]), 0))


class Gathered(Base):
    def forward(self, words):
        x = functional.log_softmax(self.linear(self.embed(torch.tensor(words))), 1)
        rows = x.gather(1, torch.tensor([[w % 6] for w in words]))
        one = x[0].gather(0, torch.tensor([1, words[0] % 6]))
        return rows.sum() + one.sum() + sum(x[0][w % 6] for w in range(6)) + torch.min(x, 1)[0].sum()


class Close(Base):
    step = 2e-7

    def forward(self, words):
        scores = self.word(words[0])[:2] * 0 + torch.tensor([1, 1 + self.step])
        self.step = -self.step  # kept by the model, not by an instance: the two ways differ
        return scores.argmax().item()


class FlagsKept(Base):
    def forward(self, words):
        x, left = torch.zeros(6), torch.ones(6, dtype=torch.bool)
        for w in words:
            y = self.linear(self.word(w))
            ends = left.bitwise_and(y > 0.1)
            x, left = x + left * y, left & ~ends
            if not left.any():
                break
        return x * (x > y), left


class Orders(Base):
    def forward(self, words):
        x = torch.cumsum(self.embed(torch.tensor(words)), 0)
        scores = torch.stack([self.score(row)[0] for row in x])
        return x[scores.argmax().item()] * scores.min(0).values


class OutOfRange(Base):
    def forward(self, words):
        return self.linear(self.embed(torch.tensor(words[0] + 50)))


class Raises(Base):
    def forward(self, words):
        if len(words) > 2:
            raise ValueError("too long")
        return self.linear(self.word(words[0]))


class WrongShape(Base):
    def forward(self, words):
        x = self.word(words[0])
        return self.linear(torch.cat([x, x]))


class Held:
    """A helper of the model's that is no module."""

    def __init__(self):
        self.items = []

    def push(self, x):
        self.items.append(x if isinstance(x, torch.Tensor) else None)


class Helper(Base):
    def forward(self, words):
        held = Held()
        for w in words:
            held.push(self.linear(self.word(w)))
        return torch.stack(held.items).sum(0)


class Masks(Base):
    def forward(self, words):
        a, b = self.linear(self.word(words[0])), self.linear(self.word(words[-1]))
        inside = (a > 0) & (a < 0.5)
        larger = torch.where(a > b, a, b) if not (a >= b).all() else a
        return torch.where(~inside, a, torch.zeros(6)), larger, a > b, torch.gt(a, b)


class Lengths(Base):
    def forward(self, words):
        some = [self.word(w) for w in words]
        first = [self.word(w) for w in words[:1]]
        x, n = torch.stack(some).sum(0), len(some)
        for _ in range(n):
            x = torch.tanh(self.linear(x))
        return x / n + torch.stack(first).mean(0) * len(first)


class Beam(Base):
    def forward(self, words):
        best = [(0.0, self.word(words[0]))]
        for w in words:
            new = []
            for total, x in best:
                scores = functional.log_softmax(self.linear(x), -1)
                new += [(total + scores[i].item(), torch.tanh(self.linear(x) + w + i)) for i in range(2)]
            best = sorted(new, key=lambda pair: -pair[0])[:2]
        return best[0][1]


class Losses(Base):
    def forward(self, words):
        x = self.linear(self.embed(torch.tensor(words)))
        one = self.loss(x[0], torch.tensor(words[-1] % 6))
        row = functional.cross_entropy(x[:1], torch.tensor([words[0] % 6]))
        several = functional.cross_entropy(x, torch.tensor([w % 6 for w in words]), reduction="sum")
        y = functional.nll_loss(functional.log_softmax(x[-1:], 1), torch.tensor([2]))
        z = functional.binary_cross_entropy_with_logits(self.score(x[0]), torch.ones(1))
        return one + row * 2 + several + y + z


class Slices(Base):
    def forward(self, words):
        parts = [self.linear(self.word(w)).unsqueeze(0)[:, w % 3 :][0, : 3 - w % 2] for w in words]
        return torch.stack([part[:2].sum() for part in parts] + [part[-1] for part in parts])


class WrittenGiven(Base):
    def forward(self, words):
        factors = torch.ones(6)
        y = self.linear(self.word(words[0]) * factors)
        factors[0] = 5.0
        return y + self.word(words[0]) * factors


class WritesGlobal(Base):
    def forward(self, words):
        global COUNT
        COUNT += 1
        return self.linear(self.word(words[0]))


COUNT = 0


def named(base):
    """The classes derived from one, by their names."""
    return {re.sub("(?<!^)([A-Z])", r"_\1", one.__name__).lower(): one for one in base.__subclasses__()}


MODELS = named(Base)
NOT_TRAINED = ("masks", "alias", "relu_in_place", "mask_and_max", "factor")
REFUSED = {
    "writes_global": "assigns a global variable",
    "written_view": "written in place",
    "written_part": "written in place",
    "no_grad_inside": "switched off or on",
    "one_row": "take a single row",
    "detached": "a detached tensor is computed with",
    "detached_rows": "the detached tensor is computed with",
    "convolution": "conv2d",
}
# What is written by the instance, left to PyTorch, carries state on, decides nearly evenly, or raises errors.
OTHERS = ("written_given", "left", "carries", "close", "out_of_range", "raises", "wrong_shape")
TAKEN = [name for name in MODELS if name not in {*REFUSED, *OTHERS}]
