"""Models with idioms of PyTorch's users: each is for a list of words, some for those in `ITEMS`."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from tests.torch import odd
from tests.torch.odd import Base, named


class Idiom(Base):
    def __init__(self):
        super().__init__()
        self.transitions = nn.Parameter(torch.randn(6, 6))


class Recursive(Idiom):
    def forward(self, words):
        return odd.folded(self, words) * self.word(words[0]).new_ones(6)


class Halves(Idiom):
    """Slices with a step, products of elements, padding, and booleans that are numbers of PyTorch's."""

    def forward(self, words):
        x = torch.sigmoid(self.linear(self.embed(torch.tensor(words))))
        pad = functional.pad(x[0], (1, 2), value=0.5) * functional.pad(x, (1, 2, 0, 1))[-1].sum()
        right = (x[0].argmax() == words[0] % 6).item()
        return x[:, ::2] * x[:, 1::2], x[0].prod() + x.prod(1).sum(), pad, right


class Numbers(Idiom):
    """Whole numbers beside others, and sizes."""

    def forward(self, words):
        x = self.linear(self.embed(torch.tensor(words))).view(len(words), 2, 3)
        row = x[0].view(-1)
        return row + torch.arange(6), row.long(), row.to(torch.int64).sum(), x.permute(2, 1, 0)[:1].shape


class Unnamed(Idiom):
    """Softmax of three dimensions is along the first where none is named."""

    def forward(self, words):
        x = self.linear(self.word(words[0]))
        return (
            functional.softmax(x.view(2, 1, 3)),
            functional.log_softmax(x.view(2, 3)),
            functional.softmax(x),
        )


class Crf(Idiom):
    """PyTorch's tutorial: the best of max over tags, by `torch.max(…)[1].item()`, and its path."""

    def forward(self, words):
        last, path = torch.full((1, 6), -100.0), []
        last[0][2] = 0.0
        for scores in self.linear(self.embed(torch.tensor(words))):
            pointers, most = [], []
            for tag in range(6):
                found = last + self.transitions[tag]
                best = torch.max(found, 1)[1].item()
                pointers.append(best)
                most.append(found[0][best].view(1))
            last = (torch.cat(most) + scores).view(1, -1)
            path.append(pointers)
        values, index = last.max(dim=1)
        return values, path, index


class Pointer(Idiom):
    """A mask of booleans, cloned and written: nothing is chosen twice."""

    def forward(self, words):
        x, chosen = self.embed(torch.tensor(words)), []
        h, mask = x[0], torch.zeros(len(words), dtype=torch.bool)
        for _ in words:
            scores = self.score(torch.tanh(self.linear(x) + h)).squeeze(-1).masked_fill(mask, -1e9)
            logs = functional.log_softmax(scores, dim=0)
            i = logs.argmax().item()
            mask = mask.clone()
            mask[i] = True
            chosen.append(logs[i])
            h = torch.tanh(self.linear(x[i]) + h)
        return torch.stack(chosen).sum(), mask


class Chained(Idiom):
    def forward(self, words):
        h = torch.zeros(6)
        for w in words:
            h = h + self.word(w)
            h.mul_(0.5).add_(self.linear(self.word(w)))
        return h


class Keywords(Idiom):
    def forward(self, words):
        x = self.embed(input=torch.tensor(words))
        y = functional.linear(input=x, weight=self.linear.weight, bias=self.linear.bias)
        z = functional.softmax(input=torch.mul(input=y, other=y), dim=-1)
        product = torch.matmul(input=z, other=self.matrix)
        return torch.sum(input=product, dim=0) + torch.log1p(y.square()).sum() + torch.expm1(z).sum(0)


class Pairs(Idiom):
    """Elements of rows by numbers of rows and columns."""

    def forward(self, words):
        x = functional.log_softmax(self.linear(self.embed(torch.tensor(words))), dim=-1)
        columns = torch.tensor([w % 2 for w in words])
        some = x[[0, -1]]
        return x[torch.arange(len(words)), columns].sum(), some, x[[0, -1], 1], x[[-1, 0], :2]


class Kinds(Idiom):
    """What booleans become, and tensors like another."""

    def forward(self, words):
        x = self.linear(self.word(words[0]))
        mask = (x > 0).clone()
        kept = mask.contiguous().to(x.device)
        like = torch.full_like(self.word(words[0]), 0.5) + torch.ones_like(self.word(words[0]))
        return mask, ~kept, x.type(torch.FloatTensor) * kept.float() * like


class NoState(Idiom):
    """Cells called without a state, which is zeros then."""

    def __init__(self):
        super().__init__()
        self.lstm, self.gru, self.rnn = nn.LSTMCell(6, 6), nn.GRUCell(6, 6), nn.RNNCell(6, 6)

    def forward(self, words):
        state: Any = None
        g: Any = None
        r: Any = None
        for w in words:
            x = self.word(w).unsqueeze(0)
            state = self.lstm(x, state)
            g, r = self.gru(x) if g is None else self.gru(x, g), self.rnn(x, r)
        return self.lstm(torch.zeros(1, 6)), state, g + r


class Booleans(Idiom):
    """Booleans of rows stay booleans, and choose rows."""

    def forward(self, words):
        x = self.linear(torch.stack([self.word(w) for w in words]))
        masks = []
        for _ in range(1):
            masks.append(x > 0)
            masks += [~masks[0], masks[0] & (x < 1), masks[0][0]]
        odd = torch.tensor([w % 2 == 1 for w in words])
        return masks, masks[0].sum(), (x * masks[0]).sum(0), x[odd].sum(0), x[x[:, 0] > 0].sum(0)


class MoreLosses(Idiom):
    def __init__(self):
        super().__init__()
        self.smooth = nn.CrossEntropyLoss(label_smoothing=0.1)
        self.some, self.rank = nn.CrossEntropyLoss(ignore_index=0), nn.MarginRankingLoss(margin=0.1)

    def forward(self, words):
        x, y = self.linear(self.embed(torch.tensor([*words, 1]))), torch.tensor([w % 6 for w in [*words, 1]])
        apart = functional.kl_div(x[0].log_softmax(-1), x[-1].softmax(-1), reduction="sum")
        rows = torch.index_select(x, 0, torch.tensor([0, -1]) % len(x)).sum()
        return self.smooth(x, y) + self.some(x, y) + apart, self.rank(x[0], x[-1], torch.ones(6)), rows


class Empty(Idiom):
    """Instances without words."""

    def forward(self, words):
        rows = self.embed(torch.tensor(words, dtype=torch.long))
        h = torch.zeros(6)
        for row in rows:
            h = torch.tanh(self.linear(h) + row)
        return h + self.linear(rows).sum(0)


class Wide(Idiom):
    """A node of many children, of which some are taken one by one."""

    def forward(self, words):
        rows = [self.linear(self.word(w)) for w in words]
        x = torch.stack(rows)
        shares = torch.softmax(self.score(x).squeeze(-1), 0)
        return (shares.unsqueeze(1) * x).sum(0), x.max(0).values, list(torch.cat(rows).shape)


ITEMS = {"empty": [[], [1, 2], [3]], "wide": [[w % 30 for w in range(1500)], [1, 2], [3]]}
WARNED = ("unnamed",)  # by PyTorch, too
MODELS = named(Idiom)
