"""specs/ner.yaml in PyTorch, trained from the weights that abw draws, in abw's order of instances.

`python tests/golden/torch/make_ner.py` writes `ner.npz`: the losses of 40 small steps, and some weights after
them. With `--train FILE --dev FILE --seeds 0 1 2` it trains whole epochs instead, and prints what
`abw train ner --data FILE --dev FILE --seed N` prints. Needs abw besides PyTorch.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from make import DATA, HERE  # type: ignore[import-not-found]
from torch import Tensor

from abw.core.spec.load import Overrides
from abw.core.train.checkpoint import named
from abw.core.train.metrics import Score
from abw.core.train.session import TrainOptions, begin

SPEC = HERE.parents[2] / "specs/ner.yaml"
STEPS, BATCH, RATE, CLIP, SIZES = 40, 4, 0.02, 5.0, {"hidden": 6, "embed": 5}

# The tags, and for each position the arcs that end there: where they begin, and what they are.
Lattice = tuple[list[int], list[list[tuple[int, int]]]]


def lattices(path: Path) -> Iterator[Lattice]:
    """The instances of a file."""
    numbers = iter([int(n) for n in path.read_text().split()])
    for _ in range(next(numbers)):
        length = next(numbers)
        tags = [next(numbers) for _ in range(length)]
        arcs = [[(next(numbers), next(numbers)) for _ in range(next(numbers))] for _ in range(length)]
        yield tags, arcs


class Tagger:
    """The model, position after position, all instances of a mini-batch at once."""

    def __init__(self, values: dict[str, np.ndarray]) -> None:
        self.values = {
            n: torch.from_numpy(v).to(torch.get_default_dtype(), copy=True).requires_grad_()
            for n, v in values.items()
        }

    def lstm(self, name: str, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        w = self.values
        i, f, o, u = (x @ w[f"{name}.W{g}"].T + h @ w[f"{name}.U{g}"].T + w[f"{name}.b{g}"] for g in "ifou")
        c = f.sigmoid() * c + i.sigmoid() * u.tanh()
        return o.sigmoid() * c.tanh(), c

    def row(self, table: str, numbers: Sequence[int]) -> Tensor:
        return torch.nn.functional.embedding(torch.tensor(numbers), self.values[table], sparse=True)

    def __call__(self, batch: Sequence[Lattice]) -> Tensor:
        """Scores of all positions (n, tags), instance after instance."""
        count, longest = len(batch), max(len(tags) for tags, _ in batch)
        state = [tuple(self.values[n].expand(count, -1) for n in ("h0", "c0"))]
        for t in range(1, longest):
            ends, owners = [], []
            for name in ("char", "word"):
                arcs = [
                    (b, start, number)
                    for b, (tags, at) in enumerate(batch)
                    if t < len(tags)
                    for start, number in at[t]
                    if (start == t - 1) == (name == "char")
                ]
                if arcs:
                    low = min(start for _, start, _ in arcs)
                    before = torch.tensor([(start - low) * count + b for b, start, _ in arcs])
                    h, c = (torch.cat(part)[before] for part in zip(*state[low:], strict=True))
                    ends.append(self.lstm(name, self.row(f"{name}s", [n for _, _, n in arcs]), h, c))
                    owners += [b for b, _, _ in arcs]
            to = torch.tensor(owners)
            many = torch.bincount(to, minlength=count).clamp(min=1)[:, None]
            state.append(
                tuple(
                    torch.zeros(count, part[0].shape[1]).index_add(0, to, torch.cat(part)) / many
                    for part in zip(*ends, strict=True)
                )
            )
        h = c = torch.zeros_like(state[0][0])
        back = []
        for t in reversed(range(longest)):
            here = [b for b, (tags, _) in enumerate(batch) if t < len(tags)]
            x = torch.zeros(count, self.values["chars"].shape[1])
            if t:
                x = x.index_add(
                    0, torch.tensor(here), self.row("chars", [batch[b][1][t][0][1] for b in here])
                )
            there = torch.zeros(count, 1, dtype=torch.bool).index_fill(0, torch.tensor(here), True)
            h, c = (
                torch.where(there, new, old)
                for new, old in zip(self.lstm("back", x, h, c), (h, c), strict=True)
            )
            back.append(h)
        left, right = torch.stack([h for h, _ in state], 1), torch.stack(back[::-1], 1)
        w = self.values
        scores = left @ w["tag.Wl"].T + right @ w["tag.Wr"].T + w["tag.b"]
        return torch.cat([scores[b, : len(tags)] for b, (tags, _) in enumerate(batch)])


class Steps:
    """Adam, of tables only the rows that were read, behind clipping by the norm of all gradients."""

    def __init__(self, model: Tagger, rate: float) -> None:
        self.model = model
        tables = [v for n, v in model.values.items() if n in ("chars", "words")]
        others = [v for n, v in model.values.items() if n not in ("chars", "words")]
        self.optimizers = [torch.optim.SparseAdam(tables, lr=rate), torch.optim.Adam(others, lr=rate)]

    def __call__(self, batch: Sequence[Lattice], clip: float) -> tuple[float, int]:
        wanted = torch.tensor([tag for tags, _ in batch for tag in tags])
        loss = torch.nn.functional.cross_entropy(self.model(batch), wanted, reduction="sum")
        for optimizer in self.optimizers:
            optimizer.zero_grad()
        (loss / len(batch)).backward()
        grads = []
        for value in self.model.values.values():
            if value.grad is not None:
                value.grad = value.grad.coalesce() if value.grad.is_sparse else value.grad
                grads.append(value.grad.values() if value.grad.is_sparse else value.grad)
        norm = float(torch.stack([g.double().norm() for g in grads]).norm())
        if norm > clip:
            for g in grads:
                g.mul_(clip / norm)
        for optimizer in self.optimizers:
            optimizer.step()
        return float(loss.detach()), len(wanted)


def f1(model: Tagger, batch: Sequence[Lattice], names: Sequence[str]) -> float:
    """F1 of spans."""
    score = Score("span-f1")
    with torch.no_grad():
        for first in range(0, len(batch), 16):
            part = batch[first : first + 16]
            found = model(part).argmax(1).split([len(tags) for tags, _ in part])
            for tags, given in zip(part, found, strict=True):
                score.add_spans([names[n] for n in given.tolist()], [names[n] for n in tags[0]])
    return score.value


def keep() -> None:
    """Forty steps on the data that ship, in double precision."""
    torch.set_default_dtype(torch.float64)
    begun = begin(SPEC, Overrides(dims=SIZES), TrainOptions(executor="reference"))
    model = Tagger(named(begun.learner.network, begun.learner.params))
    steps, every = Steps(model, RATE), list(lattices(DATA / "lattice.txt"))
    losses = []
    for step in range(STEPS):
        first = step * BATCH % len(every)
        losses.append(steps(every[first : first + BATCH], CLIP)[0])
    kept = {n: model.values[n].detach().float().numpy() for n in ("tag.b", "char.Ui", "word.Wu", "h0")}
    np.savez_compressed(HERE / "ner.npz", losses=np.array(losses), **kept)


def whole(train: Path, dev: Path, seeds: Sequence[int]) -> None:
    """Epochs as the spec says."""
    data, told = list(lattices(train)), list(lattices(dev))
    for seed in seeds:
        begun = begin(SPEC, Overrides(data=train), TrainOptions(seed=seed, executor="reference"))
        how, names = begun.learner.training, begun.learner.model.answers["tags"].names
        assert names is not None
        model = Tagger(named(begun.learner.network, begun.learner.params))
        steps = Steps(model, how.optimizer.rate)
        for epoch in range(how.epochs):
            order = np.random.default_rng([seed, epoch]).permutation(len(data))
            total = count = 0.0
            for first in range(0, len(order), how.batch):
                loss, values = steps([data[i] for i in order[first : first + how.batch]], how.clip)
                total, count = total + loss, count + values
            score = f1(model, told, names)
            print(f"seed {seed} epoch {epoch + 1}: loss {total / count:.4f}, span-f1 {score:.4f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", type=Path)
    parser.add_argument("--dev", type=Path)
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    told = parser.parse_args()
    torch.set_num_threads(1)
    if told.train:
        whole(told.train, told.dev, told.seeds)
    else:
        keep()
