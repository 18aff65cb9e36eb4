"""How PyTorch translates: the twin of make.py for specs/torch-greedy.yaml and specs/torch-beam.yaml.

For each spec NAME a state_dict, `NAME.npz`, of a small model trained on specs/data/pairs.txt, and in
`NAME-expected.npz` the rows of the words that it says of every sentence: `greedy`, and `beam` of width 4,
and in `-offsets` where each sentence begins. Both are written out plainly, one sentence after the other.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

HERE = Path(__file__).resolve().parent
DATA = HERE.parents[2] / "specs" / "data"
EMBED, HIDDEN, LONGEST, WIDTH, TIMES = 8, 16, 20, 4, 22
# What a layer hands on: h of nn.GRU, (h, c) of nn.LSTM.
State = Any


def vocabulary(name: str) -> dict[str, int]:
    return {word: number for number, word in enumerate((DATA / name).read_text().split("\n")[:-1])}


SOURCES, TARGETS = vocabulary("english.txt"), vocabulary("german.txt")
BEGIN, END = TARGETS["<s>"], TARGETS["</s>"]


class Translator(nn.Module):
    """An encoder and a decoder that begins with the encoder's last state."""

    def __init__(self, layer: type[nn.LSTM] | type[nn.GRU]) -> None:
        super().__init__()
        self.source = nn.Embedding(len(SOURCES), EMBED)
        self.target = nn.Embedding(len(TARGETS), EMBED)
        self.encoder = layer(EMBED, HIDDEN)
        self.decoder = layer(EMBED, HIDDEN)
        self.out = nn.Linear(HIDDEN, len(TARGETS))

    def read(self, words: list[int]) -> State:
        state: State = self.encoder(self.source(torch.tensor(words)))[1]
        return state

    def say(self, words: list[int], state: State) -> tuple[Tensor, State]:
        """Scores behind each of the words, and the state behind the last."""
        h, state = self.decoder(self.target(torch.tensor(words)), state)
        return self.out(h), state

    @torch.no_grad()
    def greedy(self, source: list[int]) -> list[int]:
        said, state = [BEGIN], self.read(source)
        while len(said) <= LONGEST and (len(said) == 1 or said[-1] != END):
            scores, state = self.say(said[-1:], state)
            said.append(int(scores[0].argmax()))
        return said[1:]

    @torch.no_grad()
    def beam(self, source: list[int]) -> list[int]:
        """Hypotheses with their log-probability and state; those that have ended keep their place."""
        alive = [(0.0, [BEGIN], self.read(source))]
        ended: list[tuple[float, list[int]]] = []
        for _ in range(LONGEST):
            found: list[tuple[float, list[int], State | None]] = [(*pair, None) for pair in ended]
            for total, words, state in alive:
                scores, after = self.say(words[-1:], state)
                best = scores[0].log_softmax(0).topk(WIDTH)
                pairs = zip(best.values.tolist(), best.indices.tolist(), strict=True)
                found += [(total + more, [*words, word], after) for more, word in pairs]
            found = sorted(found, key=lambda one: -one[0])[:WIDTH]
            ended = [(total, words) for total, words, state in found if state is None or words[-1] == END]
            alive = [one for one in found if one[2] is not None and one[1][-1] != END]
            if not alive:
                break
        rest = [(total, words) for total, words, _ in alive]
        return max([*ended, *rest], key=lambda one: one[0])[1][1:]


def sentences() -> list[tuple[list[int], list[int]]]:
    pairs = [line.split(" ||| ") for line in (DATA / "pairs.txt").read_text().splitlines()]
    return [([SOURCES[w] for w in a.split()], [TARGETS[w] for w in b.split()]) for a, b in pairs]


def trained(layer: type[nn.LSTM] | type[nn.GRU]) -> Translator:
    """A model that has seen each pair some times: it knows words and ends, and not every sentence."""
    model = Translator(layer)
    steps = torch.optim.Adam(model.parameters(), 0.02)
    for step in range(TIMES * len(sentences())):
        source, target = sentences()[step % len(sentences())]
        scores, _ = model.say(target[:-1], model.read(source))
        loss = nn.functional.cross_entropy(scores, torch.tensor(target[1:]))
        steps.zero_grad()
        loss.backward()
        steps.step()
    return model


def main() -> None:
    torch.manual_seed(5)
    for name, layer in (("torch-greedy", nn.GRU), ("torch-beam", nn.LSTM)):
        model = trained(layer)
        np.savez(HERE / f"{name}.npz", **{k: v.numpy() for k, v in model.state_dict().items()})
        kept: dict[str, Any] = {}
        for how in (model.greedy, model.beam):
            said = [how(source) for source, _ in sentences()]
            kept[how.__name__] = np.array([word for one in said for word in one], np.int32)
            kept[f"{how.__name__}-offsets"] = np.append(0, np.cumsum([len(one) for one in said]))
        np.savez(HERE / f"{name}-expected.npz", **kept)


if __name__ == "__main__":
    main()
