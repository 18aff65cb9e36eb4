"""Teacher forcing as PyTorch has it: the twin of make_gradients.py for specs/seq2seq.yaml.

In `seq2seq-gradients.npz`, of the first INSTANCES sentences, the mean cross-entropy of each next word when
all words before it are the given ones (`loss`); and the gradients of their sum over the number of sentences,
by the names of abw's parameters and tables, in double precision. The weights are those that abw draws. Needs
abw besides PyTorch.
"""

from __future__ import annotations

import numpy as np
import torch
from make import DATA, HERE  # type: ignore[import-not-found]
from torch import Tensor, nn

from abw.core.exec.params import init_params
from abw.core.spec.load import Overrides
from abw.core.train.checkpoint import named
from abw.core.train.session import TrainOptions, begin

SIZE, INSTANCES = 4, 6
PAIR = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")


def main() -> None:
    spec = HERE.parents[2] / "specs/seq2seq.yaml"
    begun = begin(spec, Overrides(dims={"hidden": SIZE}, limit=INSTANCES), TrainOptions())
    network = begun.learner.network
    drawn = named(network, init_params(network, 0))
    w = {name: torch.from_numpy(v).double().requires_grad_() for name, v in drawn.items()}
    rows = {table.name: table.vocab for table in begun.learner.model.tables}

    def read(table: str, words: list[str]) -> Tensor:
        vocab = rows[table]
        assert vocab is not None
        return w[table][[vocab.rows[word] for word in words]]

    def layer(name: str, x: Tensor, h: Tensor) -> Tensor:
        states, _ = torch._VF.gru(
            x[:, None], h[None], [w[f"{name}.{part}"] for part in PAIR], True, 1, 0.0, False, False, False
        )
        return states[:, 0]

    total, values = torch.zeros((), dtype=torch.float64), 0
    for line in (DATA / "pairs.txt").read_text().splitlines()[:INSTANCES]:
        source, target = (side.split() for side in line.split(" ||| "))
        keys = layer("encoder", read("sources", source), torch.zeros(1, SIZE, dtype=torch.float64))
        queries = layer("decoder", read("targets", target[:-1]), keys[-1:])
        around = (queries @ keys.T / SIZE**0.5).softmax(1) @ keys
        scores = queries @ w["score.Wl"].T + around @ w["score.Wr"].T + w["score.b"]
        wanted = rows["targets"]
        assert wanted is not None
        gold = torch.tensor([wanted.rows[word] for word in target[1:]])
        total = total + nn.functional.cross_entropy(scores, gold, reduction="sum")
        values += len(gold)
    (total / INSTANCES).backward()
    found = {name: torch.zeros_like(v) if v.grad is None else v.grad for name, v in w.items()}
    arrays = {name: gradient.float().numpy() for name, gradient in found.items()}
    np.savez_compressed(HERE / "seq2seq-gradients.npz", loss=(total / values).detach().numpy(), **arrays)


if __name__ == "__main__":
    main()
