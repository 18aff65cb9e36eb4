"""Trees in PyTorch alone, as one would batch them by hand: level by level."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.bench.libraries.trees import TreeLstm, Trees


class Levels:
    """All nodes of a height at once; what each level reads is found before."""

    def __init__(self, trees: Trees) -> None:
        """Find the nodes of each height."""
        self.trees = trees
        inner, torch, leaves = trees.children.numpy(), trees.torch, len(trees.words)
        children = np.concatenate([np.full((leaves, 2), -1), inner])
        order, below = levels(heights(inner, leaves), children)
        self.order, self.below = torch.from_numpy(order), [torch.from_numpy(rows) for rows in below]
        self.words = trees.words[self.order[:leaves]]

    def scores(self) -> tuple[Any, Any]:
        """The scores of all nodes by height."""
        return by_level(self.trees, self.words, self.below), self.order


class OneByOne:
    """Each tree by itself and node after node, as one writes it first."""

    def __init__(self, trees: Trees) -> None:
        """Order the nodes so that children come first."""
        self.trees = trees
        leaves, self.below = len(trees.words), trees.children.tolist()
        height = heights(trees.children.numpy(), leaves)
        self.inner = (leaves + np.argsort(height[leaves:], kind="stable")).tolist()
        self.order = trees.torch.arange(leaves + len(self.below))

    def scores(self) -> tuple[Any, Any]:
        """The scores of all nodes by number."""
        trees, torch, leaves = self.trees, self.trees.torch, len(self.trees.words)
        states: list[Any] = [trees.leaf_states(word) for word in trees.words.split(1)]
        states += [None] * len(self.below)
        for node in self.inner:
            (hl, cl), (hr, cr) = (states[child] for child in self.below[node - leaves])
            states[node] = trees.inner_states(torch.cat([hl, hr], 1), cl, cr)
        return trees.classes(torch.cat([h for h, _ in states])), self.order


def by_level(model: TreeLstm, words: Any, below: list[Any]) -> Any:  # noqa: ANN401
    """The scores of all nodes by height, of the `words` of leaves and each level's children (2 k,)."""
    torch = model.torch
    h, c = model.leaf_states(words)
    size = c.shape[1]
    for rows in below:
        cl, cr = c.index_select(0, rows).view(-1, 2, size).unbind(1)
        own = model.inner_states(h.index_select(0, rows).view(-1, 2 * size), cl, cr)
        h, c = (torch.cat(pair) for pair in zip((h, c), own, strict=True))
    return model.classes(h)


def heights(children: NDArray[np.int64], leaves: int) -> NDArray[np.int64]:
    """The height of each node (n,): 0 of the leaves, which come first."""
    height = np.zeros(leaves + len(children), np.int64)
    while True:
        higher = 1 + height[children].max(axis=1, initial=0)
        if np.array_equal(higher, height[leaves:]):
            return height
        height[leaves:] = higher


def levels(
    height: NDArray[np.int64], children: NDArray[np.int64]
) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
    """The nodes by height (n,); of each level above the leaves where the `children` (n, 2) lie in that."""
    order = np.argsort(height, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    ends = np.cumsum(np.bincount(height)).tolist()
    return order, [place[children[order[a:b]]].ravel() for a, b in pairwise(ends)]
