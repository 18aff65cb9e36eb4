"""An epoch of specs/sst.yaml, everything included, beside the same one in PyTorch by level with autograd."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.bench.executors.blas import import_torch
from abw.bench.libraries.levels import by_level, heights, levels
from abw.bench.libraries.trees import TreeLstm
from abw.core.base.errors import AbwError
from abw.core.base.progress import Quiet
from abw.core.data.derive import link
from abw.core.data.instances import Instances
from abw.core.data.lookup import word_rows
from abw.core.ir.model import Table
from abw.core.spec.load import Overrides
from abw.core.train.checkpoint import Position, named
from abw.core.train.dropout import Dropout
from abw.core.train.loop import Loop, open_dev
from abw.core.train.session import Begun, TrainOptions, begin
from abw.core.train.steps import Alone

Longs = NDArray[np.int64]


def bench_epoch(data: Path, sizes: Mapping[int, int], epochs: int, specs: Path) -> dict[str, Any]:
    """CPU seconds of whole epochs by hidden size, in mini-batches of `sizes[hidden]`; one thread; in turns.

    Shuffling, mini-batches, steps, the optimiser, and the dev data's accuracy; not reading, nor words left
    out, so that both have the same losses. The median of all epochs but the first, in which abw compiles.
    `difference`: of the losses of the last epoch. `torch_seconds` is None where PyTorch is absent.
    """
    from abw.core.exec.cpu.profile.peak import peak_meter

    try:
        torch = import_torch()
        torch.set_num_threads(1)
    except AbwError:
        torch = None
    meter = peak_meter()
    rows = []
    for hidden, batch in sizes.items():
        train, dev = data / "trees" / "train.txt", data / "trees" / "dev.txt"
        overrides = Overrides({"hidden": hidden}, train, batch=batch)
        begun = begin(specs / "sst.yaml", overrides, TrainOptions(dev=dev, epochs=1 + epochs, threads=1))
        learner = begun.learner
        model = replace(learner.model, training=replace(learner.training, word_dropout={}))
        learner.dropout = Dropout(model, learner.network, 0)
        rows.append(_row(torch, begun, hidden, batch, meter))
    return {"schema_version": 1, "torch": torch and torch.__version__, "rows": rows}


def _row(torch: Any, begun: Begun, hidden: int, batch: int, meter: Any) -> dict[str, Any]:  # noqa: ANN401
    learner = begun.learner
    assert begun.dev is not None
    theirs = Epochs(torch, begun, batch) if torch else None
    taken: dict[str, list[float]] = {"abw": [], "torch": [], "peak": []}
    losses: list[float] = []
    since = time.process_time()

    def told(row: Mapping[str, Any]) -> None:
        nonlocal since
        taken["abw"].append(time.process_time() - since)
        if theirs:
            start = time.process_time()
            losses[:] = [row["loss"], theirs.run(row["epoch"] - 1)]
            taken["torch"].append(time.process_time() - start)
        taken["peak"] += [meter() for _ in range(5)]
        since = time.process_time()

    held_out = open_dev(learner, begun.dev)
    steps, count = Alone(learner, begun.instances), len(begun.instances)
    Loop(learner, steps, count, held_out, None, begun.words, Position()).run(Quiet(), told)
    seconds = {name: float(np.median(values[1:])) for name, values in taken.items() if values}
    flops = 3 * _flops(begun.instances, hidden) + _flops(begun.dev, hidden)
    return {
        "hidden": hidden,
        "batch": batch,
        "seconds": seconds["abw"],
        "share_of_peak": flops / seconds["abw"] / seconds["peak"],
        "torch_seconds": seconds.get("torch"),
        "torch_share_of_peak": flops / seconds["torch"] / seconds["peak"] if theirs else None,
        "difference": abs(losses[0] - losses[1]) / losses[0] if losses else None,
    }


def _flops(instances: Instances, hidden: int) -> int:
    """The arithmetic in products of one forward pass."""
    leaf, internal = (int((_kinds(instances) == name).sum()) for name in ("leaf", "internal"))
    return 2 * hidden * (3 * hidden * leaf + 10 * hidden * internal + 5 * (leaf + internal))


def _kinds(instances: Instances) -> NDArray[np.str_]:
    return np.array(instances.schema.kinds)[instances.kind]


@dataclass(frozen=True, slots=True)
class Tree:
    """A tree's n nodes: a word's row or -1, the children (n, 2) or -1, label and height (n,)."""

    word: Longs
    children: Longs
    label: Longs
    height: Longs


class Epochs:
    """The same training in PyTorch: trees are taken apart once, a mini-batch's levels found each time."""

    def __init__(self, torch: Any, begun: Begun, batch: int) -> None:  # noqa: ANN401
        """Begin with the weights that the learner has."""
        learner = begun.learner
        optimizer = learner.training.optimizer
        self.torch, self.batch = torch, batch
        self.model = TreeLstm(torch, named(learner.network, learner.params))
        assert begun.dev is not None
        table = learner.model.tables[0]
        self.trees, self.dev = trees_of(begun.instances, table), trees_of(begun.dev, table)
        matrices = [w for w in self.model.weights[:-1] if w.dim() == 2]
        others = [w for w in self.model.weights if w.dim() == 1]
        how = {"lr": optimizer.rate, "eps": optimizer.epsilon}
        self.optimizers = [
            torch.optim.Adagrad(matrices, weight_decay=optimizer.decay, **how),
            torch.optim.Adagrad([*others], **how),
            torch.optim.Adagrad(self.model.weights[-1:], **how),
        ]

    def run(self, epoch: int) -> float:
        """An epoch with the dev data's accuracy behind it; the mean loss."""
        torch, functional = self.torch, self.torch.nn.functional
        order = np.random.default_rng([0, epoch]).permutation(len(self.trees))
        total, count = 0.0, 0
        for at in range(0, len(order), self.batch):
            trees = [self.trees[i] for i in order[at : at + self.batch].tolist()]
            words, below, labels, _ = self._mini_batch(trees)
            loss = functional.cross_entropy(by_level(self.model, words, below), labels, reduction="sum")
            for optimizer in self.optimizers:
                optimizer.zero_grad()
            (loss / len(trees)).backward()
            for optimizer in self.optimizers:
                optimizer.step()
            total, count = total + float(loss.detach()), count + len(labels)
        with torch.inference_mode():
            right = 0
            for at in range(0, len(self.dev), self.batch):
                words, below, labels, roots = self._mini_batch(self.dev[at : at + self.batch])
                hit = by_level(self.model, words, below).argmax(1) == labels
                right += int(hit[roots].sum()) + int(hit.sum())
        return total / count

    def _mini_batch(self, trees: list[Tree]) -> tuple[Any, list[Any], Any, Any]:
        """The words of its leaves, each level's children, all labels by height, and the roots' places."""
        ends = np.cumsum([len(tree.word) for tree in trees])
        starts = np.append(0, ends[:-1]).tolist()
        word, label, height = (
            np.concatenate([getattr(tree, name) for tree in trees]) for name in ("word", "label", "height")
        )
        children = np.concatenate([tree.children + at for tree, at in zip(trees, starts, strict=True)])
        order, below = levels(height, children)
        rows = word[order]
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        tensor = self.torch.from_numpy
        roots = place[[at + int(tree.height.argmax()) for tree, at in zip(trees, starts, strict=True)]]
        return tensor(rows[rows >= 0]), [tensor(each) for each in below], tensor(label[order]), tensor(roots)


def trees_of(instances: Instances, table: Table) -> list[Tree]:
    """The trees of some instances."""
    kinds, rows = _kinds(instances), word_rows(instances, "word", table).astype(np.int64)
    labels = np.array([int(word) for word in instances.vocabulary["label"]])
    sides = np.stack([link(instances, side).target for side in ("left", "right")], 1).astype(np.int64)
    found = []
    for first, last in pairwise(instances.start.tolist()):
        nodes = first + np.flatnonzero(kinds[first:last] != "instance")
        leaf = kinds[nodes] == "leaf"
        children = np.where(leaf[:, None], -1, sides[nodes] - nodes[0])
        # numbered leaves first, as `heights` has them
        order = np.argsort(~leaf, kind="stable")
        place = np.empty_like(order)
        place[order] = np.arange(len(order))
        height = heights(place[children[~leaf]], int(leaf.sum()))[place]
        word = np.where(leaf, rows[instances.fields["word"][nodes]], -1)
        found.append(Tree(word, children, labels[instances.fields["label"][nodes]], height))
    return found
