"""Trees in TorchFold, through its own public interface."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import Any

import numpy as np

from abw.bench.libraries.levels import heights
from abw.bench.libraries.trees import Trees


def import_torchfold() -> Any:  # noqa: ANN401
    """TorchFold, None where it is absent.

    0.1.0 looks for `torch.tensor._TensorBase`, which today's PyTorch does not have: it is given that name
    for `torch.Tensor`. All else it asks of PyTorch is still there.
    """
    try:
        module = importlib.import_module("torchfold.torchfold")
    except Exception:
        return None
    torch = importlib.import_module("torch")
    base = SimpleNamespace(_TensorBase=torch.Tensor)
    module.torch = SimpleNamespace(  # type: ignore[attr-defined]
        tensor=base, chunk=torch.chunk, cat=torch.cat, LongTensor=torch.LongTensor, cuda=torch.cuda
    )
    return module


class FoldTrees:
    """Trees folded: each node is an operation on others, and TorchFold batches those of one depth.

    Leaves and inner nodes are folded, the scores of all are one product behind that. The fold is made before.
    """

    def __init__(self, torchfold: Any, trees: Trees) -> None:  # noqa: ANN401
        """Make the fold."""
        self.trees, self.fold = trees, torchfold.Fold()
        words, children = trees.words.tolist(), trees.children.tolist()
        states = {node: self.fold.add("leaf", word).split(2) for node, word in enumerate(words)}
        height = heights(trees.children.numpy(), len(words))
        for node in (len(words) + np.argsort(height[len(words) :], kind="stable")).tolist():
            left, right = children[node - len(words)]
            states[node] = self.fold.add("internal", *states[left], *states[right]).split(2)
        self.hidden = [[h for h, _ in states.values()]]
        self.order = trees.torch.tensor(list(states))

    def leaf(self, words: Any) -> tuple[Any, Any]:  # noqa: ANN401
        """What TorchFold calls for the leaves of a step."""
        return self.trees.leaf_states(words)

    def internal(self, hl: Any, cl: Any, hr: Any, cr: Any) -> tuple[Any, Any]:  # noqa: ANN401
        """What it calls for the inner nodes of a step."""
        return self.trees.inner_states(self.trees.torch.cat([hl, hr], 1), cl, cr)

    def scores(self) -> tuple[Any, Any]:
        """The scores of all nodes by height."""
        (h,) = self.fold.apply(self, self.hidden)
        return self.trees.classes(h), self.order
