"""The TreeLSTM of `abw bench train` in PyTorch, level by level."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from abw.core.data.instances import Instances
from abw.core.exec.params import Params
from abw.core.graph.graph import Graph
from abw.core.train.checkpoint import named


class Levels:
    """The TreeLSTM of the spec in PyTorch, all nodes of a height at once, differentiated by autograd."""

    def __init__(
        self,
        torch: Any,  # noqa: ANN401
        network: Any,  # noqa: ANN401
        params: Params,
        graph: Graph,
        instances: Instances,
    ) -> None:
        """Stack the gates' weights, and find the nodes of each height."""
        self.torch = torch
        given = {name: torch.from_numpy(np.array(v)) for name, v in named(network, params).items()}
        gates = "ilrou"
        stacked = [
            torch.cat([torch.cat([given[f"internal.U{g}{s}"] for s in "lr"], 1) for g in gates]),
            torch.cat([given[f"internal.b{g}"] for g in gates]),
            torch.cat([given[f"leaf.W{g}"] for g in "iou"]),
            torch.cat([given[f"leaf.b{g}"] for g in "iou"]),
            given["output.W"], given["output.b"], given["words"],
        ]  # fmt: skip
        self.weights = [weight.clone().requires_grad_() for weight in stacked]
        ptr, width = graph.type_ptr, network.width
        leaves, inner = int(ptr[1]), int(ptr[2])
        words = -1 - graph.operand[:leaves] - next(c.first for c in network.constants if c.kind == "table")
        first = graph.operand_ptr
        self.children = children = (
            graph.operand[first[leaves] : first[inner]].reshape(-1, 4)[:, [0, 2]] // width
        )
        height = np.zeros(inner, np.int64)
        while True:
            higher = 1 + height[children].max(axis=1, initial=0)
            if np.array_equal(higher, height[leaves:]):
                break
            height[leaves:] = higher
        self.order = order = np.argsort(height, kind="stable")
        place = np.argsort(order)
        ends = np.cumsum(np.bincount(height)).tolist()
        self.words = torch.from_numpy(words[order[:leaves]].astype(np.int64))
        self.below = [
            torch.from_numpy(place[children[order[a:b] - leaves]].ravel()) for a, b in pairwise(ends)
        ]
        labels = np.array([int(word) for word in instances.vocabulary["label"]])[instances.fields["label"]]
        self.labels = torch.from_numpy(labels[graph.vertex[:inner][order]])

    def run(self) -> float:
        """Forward, loss and backward; the loss."""
        torch, functional = self.torch, self.torch.nn.functional
        U, b, W, d, V, e, words = self.weights
        for weight in self.weights:
            weight.grad = None
        size = W.shape[1]
        gates = functional.linear(functional.embedding(self.words, words), W, d)
        i, o = gates[:, : 2 * size].sigmoid().split(size, 1)
        c = i * gates[:, 2 * size :].tanh()
        h = o * c.tanh()
        for below in self.below:
            gates = functional.linear(h.index_select(0, below).view(-1, 2 * size), U, b)
            i, left, right, o = gates[:, : 4 * size].sigmoid().split(size, 1)
            cl, cr = c.index_select(0, below).view(-1, 2, size).unbind(1)
            own = i * gates[:, 4 * size :].tanh() + left * cl + right * cr
            h, c = torch.cat([h, o * own.tanh()]), torch.cat([c, own])
        loss = functional.cross_entropy(functional.linear(h, V, e), self.labels, reduction="sum")
        loss.backward()
        return float(loss.detach())
