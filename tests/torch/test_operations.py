"""Each operation is PyTorch's, forward and backward, inside of a stretch of code and on its own."""

from __future__ import annotations

import importlib.util
import warnings

import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install torch")
pytest.importorskip("greenlet", reason="models that decide need greenlet: pip install greenlet")

from tests.torch.models import check  # noqa: E402

# Of `x`, `y` (6,), `m` (4, 6), `n` (4, 6), `b` (2, 3, 4), `rows` (K, 6), `w` (2, 3, 4) of the model;
# masks of the instance: `hidden` (4,) and `later` (4, 4) of booleans, `far` (4, 4) of numbers.
OPERATIONS = {
    "einsum, matrix and vector": "torch.einsum('ij,j->i', m, x)",
    "einsum, two matrices": "torch.einsum('ik,jk->ij', m, n)",
    "einsum, batched": "torch.einsum('bij,bkj->bik', b, w)",
    "einsum, three factors": "torch.einsum('i,ij,j', m @ x, m, y)",
    "einsum, outer and sums": "torch.einsum('i,j->ji', x, y) + torch.einsum('ij->j', m)",
    "einsum, turned": "torch.einsum('abc,cd->dab', b, torch.einsum('ij->ji', m)[:4])",
    "bmm": "torch.bmm(b, w.transpose(1, 2))",
    "matmul, many and one": "b @ m + (b.unsqueeze(0) @ m[:, :4]).sum()",
    "matmul, broadcast": "torch.matmul(b.unsqueeze(1), w.transpose(1, 2)).sum(0)",
    "baddbmm": "torch.baddbmm(b[:, :, :3], b, w.transpose(1, 2))",
    "permutations":
        "b.permute(2, 0, 1).cumsum(0) * b.transpose(0, 2).transpose(1, 2) + b.movedim(0, -1).mean()",
    "middle dimensions": "b.sum(1) + b.softmax(1).mean(1) + b.max(1)[0] * b.softmax(0).sum((0, 1)).mean()",
    "three dimensions broadcast":
        "b * w[:, :1] + b[:, :, :1] * w[0] - w[1, :, :1] + b.mean((0, 2), keepdim=True)",
    "three dimensions cut":
        "torch.cat([b[:, 1:], w.chunk(3, 1)[0]], 1).reshape(4, 6) * b.flatten(1).reshape(4, 6)",
    "stack of matrices": "torch.stack([m, n], 1).view(4, 12) + torch.stack([m, n]).view(4, 12)",
    "cumsum": "torch.cumsum(x, 0) + m.cumsum(1)[0] + m.cumsum(dim=0)[3] + b.cumsum(1).sum()",
    "cumsum of a list": "torch.cumsum(rows, 0)[-1] * rows.cumsum(1).mean(0)",
    "attention": "F.scaled_dot_product_attention(m, n, m * n)",
    "attention, causal": "F.scaled_dot_product_attention(m, n, m, is_causal=True)",
    "attention, masked": "F.scaled_dot_product_attention(m, n, m, attn_mask=~later)",
    "attention, weighed": "F.scaled_dot_product_attention(m, n, m, attn_mask=far, scale=0.3)",
    "attention of heads": "F.scaled_dot_product_attention(b, w, b, is_causal=True)",
    "heads": "self.heads(m, n, m)[0]",
    "heads, one sequence": "self.heads(m.unsqueeze(1), n.unsqueeze(1), n.unsqueeze(1))[0]",
    "heads, padding": "self.heads(m, n, m, key_padding_mask=hidden)[0]",
    "heads, later ones": "self.heads(m, m, m, attn_mask=later, need_weights=False)[0]",
    "heads, both": "self.heads(m, m, m, attn_mask=later, key_padding_mask=hidden)[0]",
    "heads, numbers": "self.heads(m, n, m, attn_mask=far)[0]",
    "heads, weights": "self.heads(m, n, m)[1]",
    "keywords": "max([(0, self.heads(m, key=n, value=m, need_weights=False)[0])])[1]",
    "encoder": "self.encoder(m.unsqueeze(0), src_key_padding_mask=hidden.unsqueeze(0), src_mask=later)",
    "conv1d": "self.conv(m.t().unsqueeze(0))",
    "conv1d, alone": "F.conv1d(m.t(), self.conv.weight, padding=1)",
    "conv1d, steps": "F.conv1d(m.t().unsqueeze(0), self.conv.weight, stride=2, padding=2, dilation=2)",
    "masks": "torch.where(later, m @ n.t(), far).masked_fill(later & ~later.t(), 0.5)",
    "masks made": "torch.where((x > 0) & (y > 0) | ~(x < y), x, y)",
    "flip and repeat":
        "x.flip(0) + m.flip(0, 1)[0] + m.repeat(2, 1)[5] + x.repeat(2)[6:] + b.repeat(1, 2, 1).sum()",
    "hard ones":
        "F.hardswish(x) + F.hardsigmoid(y) + F.selu(x) + F.mish(y) + F.relu6(x) + (x.square() + 1).log2()",
    "division": "torch.div(x, 0.3, rounding_mode='floor') + torch.rsub(x, y, alpha=2) + y.trunc()",
    "topk": "x.topk(3)[0].sum() * y + torch.topk(y, 2, largest=False).values.mean()",
    "sort": "x.sort()[0] * y.sort(descending=True).values",
    "gather":
        "x.gather(0, torch.tensor([2, 0])).sum() + m.gather(1, torch.tensor([[1], [0], [5], [3]])).mean()",
    "min": "m.min(0)[0] * torch.min(x, y) - x.min() + torch.min(m, 1).values.mean()",
}  # fmt: skip

SOURCE = """import torch
from torch import nn
from torch.nn import functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.linear = nn.Embedding(30, 6), nn.Linear(6, 24)
        self.w = nn.Parameter(torch.randn(2, 3, 4))
        self.heads, self.conv = nn.MultiheadAttention(6, 2), nn.Conv1d(6, 5, 3)
        self.encoder = nn.TransformerEncoderLayer(6, 2, 8, 0.0, batch_first=True)

    def forward(self, words, hidden, later, far):
        w, x, y = self.w, self.embed(torch.tensor(words[0])), self.embed(torch.tensor(words[-1]))
        rows = torch.stack([self.embed(torch.tensor(word)) for word in words])
        m, n = self.linear(x).view(4, 6), self.linear(y).view(4, 6)
        b = torch.tanh(self.linear(x * y)).view(2, 3, 4)
        return EXPRESSION
"""
LATER = torch.triu(torch.ones(4, 4), 1).bool()
HIDDEN = [torch.tensor([False, False, i % 2 == 0, True]) for i in range(4)]
FAR = [torch.randn(4, 4) for _ in range(4)]
WORDS = [[1, 2, 3], [4, 5], [6], [7, 8, 9, 1]]


@pytest.mark.parametrize("name", OPERATIONS)
def test_an_operation_is_pytorchs(name, tmp_path):
    file = tmp_path / "written.py"
    file.write_text(SOURCE.replace("EXPRESSION", OPERATIONS[name]), encoding="utf-8")
    spec = importlib.util.spec_from_file_location("written", file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing is left to PyTorch
        check(module.Model().eval(), WORDS, HIDDEN, [LATER] * 4, FAR, tolerance=1e-5)
