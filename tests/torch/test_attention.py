"""Attention over a list of any length is a node a row; what else is made of scores is a cell a length."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install torch")

from torch import nn  # noqa: E402

from tests.torch.models import check  # noqa: E402

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
    [(Heads, "2 heads"), (Scaled, "1 head"), (ByHand, "1 head")],
)
def test_attention_over_a_list_is_a_node_for_each_row(model, said):
    torch.manual_seed(1)
    report = check(model().eval(), SENTENCES).report()
    assert f"attention, {said}" in report
    assert "for each row" in report


@pytest.mark.parametrize("model", [Apart, Causal, Across])
def test_scores_that_are_used_otherwise_are_computed_for_each_length(model):
    torch.manual_seed(1)
    assert "attention" not in check(model().eval(), SENTENCES).report()
