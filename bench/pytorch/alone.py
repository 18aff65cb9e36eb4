"""The TreeLSTM on one tree, node after node: in NumPy, in PyTorch, and as TorchScript."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.bench.pytorch.trees import OneByOne, Trees

Floats = NDArray[np.float32]
Work = Callable[[], object]


def by_numpy(trees: Trees) -> Callable[[], Floats]:
    """The scores of all nodes, children first, in NumPy."""
    weights: list[Floats] = [weight.detach().numpy() for weight in trees.weights]
    U, b, W, d, V, e, table = weights
    rows, inner, size = trees.words.tolist(), trees.inner(), len(d) // 3

    def sigmoid(x: Floats) -> Floats:
        found: Floats = np.reciprocal(1 + np.exp(-x))
        return found

    def scores() -> Floats:
        count = len(rows) + len(inner)
        h, c = np.empty((count, size), np.float32), np.empty((count, size), np.float32)
        for node, row in enumerate(rows):
            gates = W @ table[row] + d
            i, o = sigmoid(gates[: 2 * size]).reshape(2, size)
            c[node] = i * np.tanh(gates[2 * size :])
            h[node] = o * np.tanh(c[node])
        for node, (left, right) in inner:
            gates = U @ np.concatenate((h[left], h[right])) + b
            i, first, second, o = sigmoid(gates[: 4 * size]).reshape(4, size)
            c[node] = i * np.tanh(gates[4 * size :]) + first * c[left] + second * c[right]
            h[node] = o * np.tanh(c[node])
        found: Floats = h @ V.T + e
        return found

    return scores


def by_torch(trees: Trees) -> Work:
    """The same in PyTorch, without gradients."""
    library, torch = OneByOne(trees), trees.torch

    def scores() -> object:
        with torch.inference_mode():
            return library.scores()[0]

    return scores


def scripted(torch: Any) -> Any:  # noqa: ANN401 (PyTorch's)
    """The loop over nodes as TorchScript compiles it: `f(words, nodes, lefts, rights, weights)`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is deprecated
        return torch.jit.CompilationUnit(_SCRIPT).scores


_SCRIPT = """
def scores(words: List[int], nodes: List[int], lefts: List[int], rights: List[int], w: List[Tensor]):
    hs: List[Tensor] = []
    cs: List[Tensor] = []
    for k in range(len(words) + len(nodes)):
        if k < len(words):
            i, o, u = torch.chunk(torch.addmv(w[3], w[2], w[6][words[k]]), 3)
            c = torch.sigmoid(i) * torch.tanh(u)
        else:
            l, r = lefts[k - len(words)], rights[k - len(words)]
            i, a, b, o, u = torch.chunk(torch.addmv(w[1], w[0], torch.cat([hs[l], hs[r]])), 5)
            c = torch.sigmoid(i) * torch.tanh(u) + torch.sigmoid(a) * cs[l] + torch.sigmoid(b) * cs[r]
        hs.append(torch.sigmoid(o) * torch.tanh(c))
        cs.append(c)
    return torch.addmm(w[5], torch.stack(hs), w[4].t())
"""


def by_script(trees: Trees, function: Any) -> Work:  # noqa: ANN401 (PyTorch's)
    """The same by TorchScript (`scripted`); nodes are numbered in the order in which they are computed."""
    inner, leaves, torch = trees.inner(), len(trees.words), trees.torch
    place = {node: leaves + k for k, (node, _) in enumerate(inner)}
    lefts, rights = ([place.get(pair[side], pair[side]) for _, pair in inner] for side in (0, 1))
    words, nodes = trees.words.tolist(), [node for node, _ in inner]
    weights = [weight.detach() for weight in trees.weights]

    def scores() -> object:
        with torch.inference_mode():
            return function(words, nodes, lefts, rights, weights)

    return scores
