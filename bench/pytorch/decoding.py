"""Decoding batched by hand in PyTorch, as its users write it.

With abw's weights, from what was computed before growth; all sentences go on together, those that are done
are masked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

# So many hypotheses of a sentence a beam keeps.
WIDTH = 4

Arrays = Mapping[str, NDArray[np.float32]]


class Greedy:
    """Greedy decoding by an LSTM; a sentence is masked once it has as many words as are wanted."""

    def __init__(self, torch: Any, weights: Arrays, first: Arrays, lengths: NDArray[np.int64]) -> None:  # noqa: ANN401
        """Start from `first`, the states h and c (n, hidden); `lengths` (n,) are the numbers of words."""
        self.torch, given = torch, torch.from_numpy
        hidden, embed = weights["decoder.Wi"].shape
        self.cell = torch.nn.LSTMCell(embed, hidden)
        self.out = torch.nn.Linear(hidden, len(weights["score.b"]))
        cell, out = self.cell, self.out
        with torch.no_grad():
            for parameter, name in ((cell.weight_ih, "W"), (cell.weight_hh, "U"), (cell.bias_ih, "b")):
                parameter.copy_(given(_stacked(weights, name, "ifuo")))  # PyTorch's order
            cell.bias_hh.zero_()
            out.weight.copy_(given(weights["score.W"]))
            out.bias.copy_(given(weights["score.b"]))
        self.table = given(weights["targets"])
        self.first = given(first["h"]), given(first["c"])
        self.lengths = given(lengths)

    def run(self) -> list[list[int]]:
        """The words of each sentence."""
        torch = self.torch
        with torch.inference_mode():
            h, c = self.first
            word = torch.zeros(len(h), dtype=torch.long)
            said: list[Any] = []
            while not said or bool((self.lengths > len(said)).any()):
                h, c = self.cell(self.table[word], (h, c))
                word = self.out(h).argmax(1)
                said.append(word)
            return _cut(torch.stack(said, 1).tolist(), self.lengths.tolist())


class Beam(Greedy):
    """Beam search with `WIDTH` hypotheses a sentence, all of which go on until the longest has its words."""

    def run(self) -> list[list[int]]:
        """The words of each sentence's most probable hypothesis."""
        torch = self.torch
        with torch.inference_mode():
            h, c = (state.repeat_interleave(WIDTH, 0) for state in self.first)
            count, longest = len(self.lengths), int(self.lengths.max())
            word = torch.zeros(len(h), dtype=torch.long)
            base = WIDTH * torch.arange(count)[:, None]
            said, best = (torch.zeros(n, longest, dtype=torch.long) for n in (len(h), count))
            total = torch.full((count, WIDTH), -torch.inf)
            total[:, 0] = 0.0
            for step in range(longest):
                h, c = self.cell(self.table[word], (h, c))
                shares = torch.log_softmax(self.out(h), 1)
                words = shares.shape[1]
                shares = (total[:, :, None] + shares.view(count, WIDTH, -1)).view(count, -1)
                total, number = shares.topk(WIDTH, 1)
                came, word = (base + number // words).view(-1), (number % words).view(-1)
                h, c, said = h[came], c[came], said[came]
                said[:, step] = word
                ends = (self.lengths == step + 1).nonzero()[:, 0]
                best[ends] = said[WIDTH * ends]
            return _cut(best.tolist(), self.lengths.tolist())


def _stacked(weights: Arrays, name: str, gates: str) -> NDArray[np.float32]:
    """The weights of the decoder's gates below each other."""
    return np.concatenate([weights[f"decoder.{name}{gate}"] for gate in gates])


def _cut(rows: list[list[int]], lengths: list[int]) -> list[list[int]]:
    return [row[:length] for row, length in zip(rows, lengths, strict=True)]
