"""Trees in PyTorch alone, as one would batch them by hand: level by level."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.bench.libraries.trees import Trees


class Levels:
    """All nodes of a height at once; what each level reads is found before."""

    def __init__(self, trees: Trees) -> None:
        """Find the nodes of each height."""
        self.trees = trees
        children, torch = trees.children.numpy(), trees.torch
        height = heights(children, len(trees.words))
        order, below = levels(height, children, len(trees.words))
        self.order, self.below = torch.from_numpy(order), [torch.from_numpy(rows) for rows in below]
        self.words = trees.words[self.order[: len(trees.words)]]

    def scores(self) -> tuple[Any, Any]:
        """The scores of all nodes by height."""
        trees, torch = self.trees, self.trees.torch
        h, c = trees.leaf_states(self.words)
        size = c.shape[1]
        for below in self.below:
            cl, cr = c.index_select(0, below).view(-1, 2, size).unbind(1)
            own = trees.inner_states(h.index_select(0, below).view(-1, 2 * size), cl, cr)
            h, c = (torch.cat(pair) for pair in zip((h, c), own, strict=True))
        return trees.classes(h), self.order


def heights(children: NDArray[np.int64], leaves: int) -> NDArray[np.int64]:
    """The height of each node (n,): 0 of the leaves, which come first."""
    height = np.zeros(leaves + len(children), np.int64)
    while True:
        higher = 1 + height[children].max(axis=1, initial=0)
        if np.array_equal(higher, height[leaves:]):
            return height
        height[leaves:] = higher


def levels(
    height: NDArray[np.int64], children: NDArray[np.int64], leaves: int
) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
    """The nodes by height (n,); of each level above the leaves where in that order the children lie."""
    order = np.argsort(height, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    ends = np.cumsum(np.bincount(height)).tolist()
    return order, [place[children[order[a:b] - leaves]].ravel() for a, b in pairwise(ends)]
