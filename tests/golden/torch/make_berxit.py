"""How PyTorch leaves a BERT early: the twin of make.py beside it, for specs/berxit.yaml.

A state_dict, `berxit.npz`, with the tensors of nn.TransformerEncoderLayer under the names that the spec has,
and in `berxit-expected.npz` of every sentence the `classes` (scores), and how many `layers` it took.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[2] / "specs" / "data"
HIDDEN, HEADS, CLASSES, PLACES, MOST, SURE = 8, 2, 4, 40, 12, -0.4
NAMES = {
    "words.weight": "words",
    "places.weight": "places",
    "norm.weight": "embed.gain",
    "norm.bias": "embed.bias",
    "layer.self_attn.in_proj_weight": "project.W",
    "layer.self_attn.in_proj_bias": "project.b",
    "layer.self_attn.out_proj.weight": "block.O",
    "layer.self_attn.out_proj.bias": "block.o",
    "layer.norm1.weight": "block.gain1",
    "layer.norm1.bias": "block.bias1",
    "layer.linear1.weight": "block.A",
    "layer.linear1.bias": "block.a1",
    "layer.linear2.weight": "block.B",
    "layer.linear2.bias": "block.b1",
    "layer.norm2.weight": "block.gain2",
    "layer.norm2.bias": "block.bias2",
    "exit.weight": "exit.W",
    "exit.bias": "exit.b",
    "classify.weight": "class.W",
    "classify.bias": "class.b",
}


class Berxit(nn.Module):
    """One layer of BERT, again and again until the first word's exit is sure."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(rows, HIDDEN), nn.Embedding(PLACES, HIDDEN)
        self.norm = nn.LayerNorm(HIDDEN)
        self.layer = nn.TransformerEncoderLayer(
            HIDDEN, HEADS, 2 * HIDDEN, 0.0, activation="gelu", batch_first=True
        )
        self.exit, self.classify = nn.Linear(HIDDEN, 1), nn.Linear(HIDDEN, CLASSES)

    def forward(self, words: Tensor) -> tuple[Tensor, int, float]:
        """The classes' scores of a sentence, how many layers it took, and how nearly it took others."""
        h = self.norm(self.words(words) + self.places(torch.arange(len(words))))
        layers, near = 0, 1.0
        while True:
            h, layers = self.layer(h[None])[0], layers + 1
            score = float(self.exit(h[0]))
            near = min(near, abs(score - SURE))
            if score > SURE or layers == MOST:
                return self.classify(h[0]), layers, near


@torch.no_grad()
def main() -> None:
    torch.manual_seed(1)
    words = {word: row for row, word in enumerate((DATA / "words.txt").read_text().split("\n")[:-1])}
    lines = (DATA / "tags.txt").read_text().splitlines()
    sentences = [
        [words.get(pair.rpartition("|")[0], words["<unk>"]) for pair in line.split()] for line in lines
    ]
    model = Berxit(len(words)).eval()
    for parameter in model.layer.parameters():
        parameter.add_(0.2 * torch.randn_like(parameter))
    model.exit.bias.fill_(0.0)
    # half of the sentences are sure before the last layer
    firsts = []
    for sentence in sentences:
        h = model.norm(model.words(torch.tensor(sentence)) + model.places(torch.arange(len(sentence))))
        scores = []
        for _ in range(MOST):
            h = model.layer(h[None])[0]
            scores.append(float(model.exit(h[0])))
        firsts.append(max(scores))
    model.exit.bias.fill_(SURE - float(np.median(firsts)))
    found = [model(torch.tensor(sentence)) for sentence in sentences]
    layers = np.array([count for _, count, _ in found])
    print("sentences by layers:", np.bincount(layers), "nearest:", min(near for _, _, near in found))
    state = {NAMES[name]: value.contiguous().numpy() for name, value in model.state_dict().items()}
    np.savez(HERE / "berxit.npz", **state)
    np.savez(
        HERE / "berxit-expected.npz", classes=torch.stack([c for c, _, _ in found]).numpy(), layers=layers
    )


if __name__ == "__main__":
    main()
