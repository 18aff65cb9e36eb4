"""Attention over a list of any length is a node a row; what else is made of scores is a cell a length."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abw.core.base.errors import AbwError

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install torch")

from torch import nn  # noqa: E402

import abw.torch  # noqa: E402
from tests.torch.models import check  # noqa: E402

# Trees: the parent of each node, of which no other comes before its own.
TREES = [[-1], [-1, 0], [-1, 0, 0, 2, 2, 0], [-1, 0, 1, 1], [-1, 0, 0, 0, 3, 4, 4, 2]]
SENTENCES = [[3], [1, 2], [4, 4, 1], [5, 6, 7, 8, 0], [2, 1]]


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(9, 8), nn.Linear(8, 3)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, words):
        x = self.embed(torch.tensor(words)).unsqueeze(0)
        y, _ = self.attention(x, x, x)
        return self.out(x + y).sum(1)


class Scaled(Heads):
    def forward(self, words):
        x = self.embed(torch.tensor(words))
        y = nn.functional.scaled_dot_product_attention(x, torch.tanh(x), self.out(x))
        return y.max(0).values


class ByHand(Heads):
    def forward(self, words):
        x = self.embed(torch.tensor(words))
        weights = torch.softmax(0.5 * (x @ torch.tanh(x).T) / 2, dim=-1)
        return torch.tanh(torch.matmul(weights, x)).mean(0)


class Apart(Heads):
    def forward(self, words):
        x = self.embed(torch.tensor(words))
        scores = x @ x.t()
        return (torch.softmax(scores, 0) @ x).sum(0) + scores.sum() + (scores - 1)[0, 0]


class Causal(Heads):
    def forward(self, words):
        x = self.embed(torch.tensor(words))
        return nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True).sum(0)


class Across(Heads):
    def forward(self, words):
        x, y = self.embed(torch.tensor(words)), self.embed(torch.tensor([*words, 1]))
        return (torch.softmax(x @ y.t(), -1) @ y).sum(0)


@pytest.mark.parametrize(
    ("model", "said"),
    [(Heads, "2 heads"), (Scaled, "1 head"), (ByHand, "1 head"), (Causal, "1 head"), (Across, "1 head")],
)
def test_attention_over_a_list_is_a_node_for_each_row(model, said):
    torch.manual_seed(1)
    report = check(model().eval(), SENTENCES).report()
    assert f"attention, {said}" in report
    assert "for each row" in report


def test_scores_that_are_used_otherwise_are_computed_for_each_length():
    torch.manual_seed(1)
    assert "attention" not in check(Apart().eval(), SENTENCES).report()


def ancestors(parents):
    """Which nodes each node sees: itself, and those above it."""
    n = len(parents)
    seen = torch.zeros(n, n, dtype=torch.bool)
    for i in range(n):
        j = i
        while j >= 0:
            seen[i, j] = True
            j = parents[j]
    return seen


class OfTrees(nn.Module):
    heads = 2

    def __init__(self):
        super().__init__()
        self.embed, self.out = nn.Embedding(9, 8), nn.Linear(8, 3)
        self.q, self.k, self.v = (nn.Linear(8, 8) for _ in range(3))
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.dropout = nn.Dropout(0.5)

    def forward(self, parents):
        x = self.embed(torch.tensor([i % 9 for i in range(len(parents))]))
        return self.out(torch.tanh(x + self.attend(x, parents))).mean(0)


class Filled(OfTrees):
    def attend(self, x, parents):
        scores = self.q(x) @ self.k(x).T / 8**0.5
        scores = scores.masked_fill(~ancestors(parents), float("-inf"))
        return self.dropout(torch.softmax(scores, -1)) @ self.v(x)


class InPlace(OfTrees):
    def attend(self, x, parents):
        scores = torch.matmul(self.q(x), self.k(x).transpose(-2, -1))
        seen = ancestors(parents).long()
        scores.masked_fill_(seen == 0, -1e9)
        return torch.softmax(0.3 * scores, dim=-1).matmul(self.v(x))


class Chosen(OfTrees):
    def attend(self, x, parents):
        seen = ancestors(parents).float()
        scores = torch.where(seen > 0, self.q(x) @ self.k(x).T, -9e15)
        return torch.softmax(scores, 1).mm(self.v(x))


class Zeros(OfTrees):
    def attend(self, x, parents):
        n = len(parents)
        seen = torch.zeros(n, n)
        for i, j in ancestors(parents).nonzero().tolist():
            seen[i][j] = 1
        scores = (self.q(x) @ self.k(x).T).masked_fill(seen == 0, -1e9)
        return torch.softmax(scores, -1) @ self.v(x)


class Buffer(OfTrees):
    """As in GPTs: the part of a buffer that is as long as the list."""

    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.tril(torch.ones(9, 9)))

    def attend(self, x, parents):
        n, _ = x.size()
        scores = (self.q(x) @ self.k(x).T).masked_fill(self.seen[:n, :n] == 0, -math.inf)
        return torch.softmax(scores, -1) @ self.v(x)


class Added(OfTrees):
    def attend(self, x, parents):
        hidden = (1 - ancestors(parents).float()) * -1e9
        return torch.softmax(self.q(x) @ self.k(x).T + hidden, -1) @ self.v(x)


class Product(OfTrees):
    def attend(self, x, parents):
        given = (one.unsqueeze(0).unsqueeze(0) for one in (self.q(x), self.k(x), self.v(x)))
        return nn.functional.scaled_dot_product_attention(*given, attn_mask=ancestors(parents))[0, 0]


class Module(OfTrees):
    def attend(self, x, parents):
        x = x.unsqueeze(0)
        leaf = torch.tensor([[i not in parents for i in range(len(parents))]])
        leaf[0, 0] = False
        found, _ = self.attention(x, x, x, key_padding_mask=leaf, attn_mask=~ancestors(parents))
        return found.squeeze(0)


class Together(OfTrees):
    """As the annotated transformer has it: several heads, a function of its own."""

    def attend(self, x, parents):
        n = x.size(0)
        q, k, v = (one(x).view(n, 2, -1).transpose(0, 1) for one in (self.q, self.k, self.v))
        found, _ = together(q, k, v, ancestors(parents).unsqueeze(0), self.dropout)
        return found.transpose(0, 1).contiguous().view(n, 8)


def together(query, key, value, mask=None, dropout=None):
    scores = torch.matmul(query, key.transpose(-2, -1)) / 2.0
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    weights = nn.functional.softmax(scores, dim=-1)
    if dropout is not None:
        weights = dropout(weights)
    return torch.matmul(weights, value), weights


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (Filled, "1 head"), (InPlace, "1 head"), (Chosen, "1 head"), (Added, "1 head"), (Product, "1 head"),
        (Zeros, "1 head"), (Buffer, "1 head"), (Module, "2 heads"), (Together, "2 heads"),
    ],
)  # fmt: skip
def test_a_query_attends_to_the_keys_that_its_mask_shows(model, said):
    torch.manual_seed(1)
    report = check(model().eval(), TREES).report()
    assert f"attention, {said}" in report


@settings(max_examples=12)
@given(st.lists(st.integers(1, 7), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_masks_of_any_kind_hide_what_they_do_in_pytorch(lengths, random):
    torch.manual_seed(1)
    masks = [torch.tensor([[random.random() < 0.4 for _ in range(n)] for _ in range(n)]) for n in lengths]
    check(MASKED, [list(range(n)) for n in lengths], masks)


class Masked(Heads):
    def forward(self, words, hidden):  # type: ignore[override]
        x = self.embed(torch.tensor(words))
        scores = (x @ torch.tanh(x).T).masked_fill(hidden, -1e9)
        return (scores.softmax(-1) @ self.out(x)).mean(0)


class Returned(Heads):
    def forward(self, words, hidden):  # type: ignore[override]
        x = self.embed(torch.tensor(words))
        weights = (x @ x.T).masked_fill(hidden, -1e9).softmax(-1)
        return weights @ x, weights


torch.manual_seed(1)
MASKED = Masked().eval()


def test_weights_of_attention_are_returned():
    hidden = [torch.ones(n, n).triu(1).bool() for n in (3, 2)]
    check(Returned().eval(), [[1, 2, 3], [4, 0]], hidden)


class Hidden(Heads):
    def forward(self, words):
        x = self.embed(torch.tensor(words))
        hidden = torch.zeros(len(words), len(words), dtype=torch.bool)
        hidden[-1] = True
        scores = (x @ x.T).masked_fill(hidden, -math.inf)
        return (torch.softmax(scores, -1) @ x).sum(0)


def test_a_row_without_keys_is_refused():
    fast = abw.torch.batch(Hidden().eval())
    with pytest.raises(AbwError, match=r"row 2 of a mask hides all keys"):
        fast([[1, 2, 3]])


def test_what_would_be_compiled_for_many_lengths_is_refused_at_its_line():
    fast, sentences = abw.torch.batch(Apart().eval()), [[i % 9 for i in range(n)] for n in range(9, 14)]
    with (
        torch.no_grad(),
        pytest.warns(UserWarning, match=r"test_attention.py:\d+: .*for each length of a list"),
    ):
        fast(sentences)
    with pytest.raises(AbwError, match=r"test_attention.py:\d+: .*for each length of a list"):
        fast(sentences)


class First(Filled):
    def forward(self, parents):
        x = self.embed(torch.tensor([i % 9 for i in range(len(parents))]))
        return self.out(torch.tanh(x + self.attend(x, parents))[0])


def test_a_row_of_what_attention_gives_is_taken_out_of_a_list_of_any_length():
    chains = [[*range(-1, n)] for n in range(9, 15)]
    assert "for each row 2 operations; attention" in check(First().eval(), chains).report()


def test_a_mask_is_exported_by_a_cell_for_each_length(tmp_path):
    model, chains = Filled().eval(), [[*range(-1, n)] for n in range(9, 13)]
    path = abw.torch.batch(model).export(tmp_path, chains)
    lines = (tmp_path / "instances.jsonl").read_text().splitlines()
    found = abw.load(path)([json.loads(line) for line in lines])["out3"]
    with torch.no_grad():
        wanted = torch.stack([model(chain) for chain in chains])
    np.testing.assert_allclose(np.concatenate([*found]).reshape(wanted.shape), wanted, atol=2e-6)


class Dropped(Filled):
    def attend(self, x, parents):
        return self.dropout(torch.softmax(self.q(x) @ self.k(x).T, -1)) @ self.v(x)


def test_dropped_weights_of_many_lengths_are_refused_with_a_remedy():
    fast, chains = abw.torch.batch(Dropped()), [[*range(-1, n)] for n in range(9, 15)]
    with pytest.raises(AbwError, match=r"test_attention.py:\d+: .*set that dropout to 0, or call model.eval"):
        fast(chains)
