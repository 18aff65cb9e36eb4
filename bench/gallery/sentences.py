"""Models with attention over sentences: padded, with masks; nn.LSTM on packed sequences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from abw.bench.gallery.batches import Graph, Tensor, graph, joined, padded, vocabulary

HEADS, LAYERS, SET_CLASSES, TREE_CLASSES = 2, 2, 3, 5


@dataclass(frozen=True, slots=True)
class Pairs:
    """Both sides packed, and where in their padded arrays words are."""

    sources: Any
    targets: Any
    source_there: Tensor
    target_there: Tensor


class Translation:
    """attention-nmt: packed LSTMs, attention as two batched products over padded arrays."""

    def __init__(self, data: Path, hidden: int) -> None:
        self.sources, self.targets = (vocabulary(data / f"{name}.txt") for name in ("english", "german"))
        self.module = nn.ModuleDict(
            {
                "source": nn.Embedding(len(self.sources), hidden),
                "target": nn.Embedding(len(self.targets), hidden),
                "encoder": nn.LSTM(hidden, hidden, batch_first=True),
                "decoder": nn.LSTM(hidden, hidden, batch_first=True),
                "mix": nn.Linear(2 * hidden, hidden, bias=False),
                "out": nn.Linear(hidden, len(self.targets)),
            }
        )

    def state(self) -> dict[str, Tensor]:
        """As PyTorch has it."""
        return dict(self.module.state_dict())

    def read(self, line: str) -> tuple[list[int], list[int]]:
        """Rows of the words of both sides."""
        source, target = line.split(" ||| ")
        return [self.sources[word] for word in source.split()], [
            self.targets[word] for word in target.split()
        ]

    def prepare(self, instances: Sequence[tuple[list[int], list[int]]]) -> Pairs:
        """Sentences of both sides."""
        sources, targets = ([pair[side] for pair in instances] for side in (0, 1))
        return Pairs(_packed(sources), _packed(targets), padded(sources)[1], padded(targets)[1])

    def compute(self, batch: Pairs) -> Tensor:
        """Scores of words for every word of a target."""
        parts, unpack = self.module, nn.utils.rnn.pad_packed_sequence
        sources, targets = batch.sources, batch.targets
        encoded, state = parts["encoder"](sources._replace(data=parts["source"](sources.data)))
        decoded, _ = parts["decoder"](targets._replace(data=parts["target"](targets.data)), state)
        keys, queries = (unpack(some, batch_first=True)[0] for some in (encoded, decoded))
        scores = torch.bmm(queries, keys.transpose(1, 2))
        weights = scores.masked_fill_(~batch.source_there[:, None], -torch.inf).softmax(2)
        context = torch.bmm(weights, keys)
        words = torch.cat([context, queries], 2)[batch.target_there]
        return parts["out"](parts["mix"](words).tanh())


class SetTransformer:
    """set-transformer: nn.TransformerEncoderLayer in its quick way for inference, with a padding mask."""

    def __init__(self, data: Path, hidden: int) -> None:
        self.words = vocabulary(data / "words.txt")
        self.module = nn.ModuleDict(
            {
                "embed": nn.Embedding(len(self.words), hidden),
                "layers": nn.ModuleList(_encoder_layer(hidden) for _ in range(LAYERS)),
                "pool": _encoder_layer(hidden),
                "out": nn.Linear(hidden, SET_CLASSES),
            }
        )
        self.module.register_parameter("seed", nn.Parameter(torch.randn(hidden)))

    def state(self) -> dict[str, Tensor]:
        """As PyTorch has it."""
        return dict(self.module.state_dict())

    def read(self, line: str) -> list[int]:
        """Rows of the words."""
        unknown = self.words["<unk>"]
        return [self.words.get(token.rpartition("|")[0], unknown) for token in line.split()]

    def prepare(self, instances: Sequence[list[int]]) -> tuple[Tensor, Tensor]:
        """Rows of words, padded, and where there are none."""
        rows, there = padded(instances)
        return rows, ~there

    def compute(self, batch: tuple[Tensor, Tensor]) -> Tensor:
        """Scores of classes for every sentence."""
        rows, absent = batch
        parts = self.module
        x = parts["embed"](rows)
        for layer in parts["layers"]:
            x = layer(x, src_key_padding_mask=absent)
        pool = parts["pool"]
        seed = parts.seed.expand(len(rows), 1, -1)
        heard = pool.self_attn(seed, x, x, key_padding_mask=absent, need_weights=False)[0]
        h = pool.norm1(seed + heard)[:, 0]
        return parts["out"](pool.norm2(h + pool.linear2(pool.linear1(h).relu_())))


@dataclass(frozen=True, slots=True)
class Sentences:
    """Padded words; who may attend to whom; the head's place (the last, of zeros, for a root)."""

    rows: Tensor
    allowed: Tensor
    heads: Tensor
    there: Tensor


class TreeTransformer:
    """tree-transformer: scaled_dot_product_attention with a mask for each sentence."""

    def __init__(self, data: Path, hidden: int) -> None:
        self.words = vocabulary(data / "words.txt")
        self.module = nn.ModuleDict(
            {
                "embed": nn.Embedding(len(self.words), hidden),
                "layers": nn.ModuleList(_encoder_layer(hidden) for _ in range(LAYERS)),
                "heads": nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(LAYERS)),
                "out": nn.Linear(hidden, TREE_CLASSES),
            }
        )

    def state(self) -> dict[str, Tensor]:
        """As PyTorch has it."""
        return dict(self.module.state_dict())

    def read(self, line: str) -> Graph:
        """A sentence with its tree."""
        return graph(line, "word", self.words)

    def prepare(self, instances: Sequence[Graph]) -> Sentences:
        """A word may attend to the words of the same head, and to itself."""
        read = joined(instances, "parent")
        starts = np.cumsum(read.sizes) - read.sizes
        rows, there = padded([some.rows.tolist() for some in instances])
        longest = rows.shape[1]
        parent = np.full(rows.shape, -1)
        child, head = read.links["parent"].T
        instance = read.instance[child]
        parent[instance, child - starts[instance]] = head - starts[instance]
        same = (parent[:, :, None] == parent[:, None]) & (parent >= 0)[:, :, None]
        places = np.where(parent >= 0, parent + longest * np.arange(len(instances))[:, None], rows.numel())
        return Sentences(
            rows,
            torch.from_numpy(same | np.eye(longest, dtype=bool))[:, None],
            torch.from_numpy(places.ravel()),
            there,
        )

    def compute(self, batch: Sentences) -> Tensor:
        """Scores of classes for every word."""
        parts = self.module
        x = parts["embed"](batch.rows)
        n, longest, hidden = x.shape
        for layer, head in zip(parts["layers"], parts["heads"], strict=True):
            flat = torch.cat([x.view(-1, hidden), x.new_zeros(1, hidden)])
            above = flat.index_select(0, batch.heads).view(x.shape)
            attention = layer.self_attn
            qkv = nn.functional.linear(x, attention.in_proj_weight, attention.in_proj_bias)
            q, k, v = qkv.view(n, longest, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
            heard = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=batch.allowed)
            a = attention.out_proj(heard.transpose(1, 2).reshape(x.shape))
            h = layer.norm1(x + head(above) + a)
            x = layer.norm2(h + layer.linear2(layer.linear1(h).relu_()))
        return parts["out"](x[batch.there])


def _packed(lists: Sequence[Sequence[int]]) -> Any:  # noqa: ANN401
    return nn.utils.rnn.pack_sequence([torch.tensor(some) for some in lists], enforce_sorted=False)


def _encoder_layer(hidden: int) -> Any:  # noqa: ANN401
    return nn.TransformerEncoderLayer(hidden, HEADS, 2 * hidden, dropout=0.0, batch_first=True).eval()
