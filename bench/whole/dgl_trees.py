"""The TreeLSTM of `abw bench train` in DGL, through its own public interface."""

from __future__ import annotations

import importlib
import os
from typing import Any

import numpy as np

from abw.bench.whole.levels import Levels


def import_dgl() -> Any:  # noqa: ANN401
    """DGL with PyTorch below it, None where it is absent or does not go with what else there is."""
    os.environ.setdefault("DGLBACKEND", "pytorch")
    try:
        return importlib.import_module("dgl")
    except Exception:
        return None


class DglTrees:
    """Trees as one graph: messages from children to parents, a frontier of the topological order at a time.

    As in DGL's own example of the TreeLSTM; the graph is made before, and the weights are those of `Levels`.
    """

    def __init__(self, dgl: Any, levels: Levels) -> None:  # noqa: ANN401
        """Make the graph."""
        self.torch, self.levels = levels.torch, levels
        children, order = levels.children, levels.order
        leaves, nodes = len(order) - len(children), len(order)
        torch = self.torch
        parents = torch.arange(leaves, nodes).repeat_interleave(2)
        self.graph = dgl.graph(
            (torch.from_numpy(children.ravel().astype(np.int64)), parents), num_nodes=nodes
        )
        self.frontiers = dgl.topological_nodes_generator
        self.labels = torch.empty_like(levels.labels)
        self.labels[torch.from_numpy(order)] = levels.labels

    def run(self) -> float:
        """Forward, loss and backward; the loss."""
        torch, functional, graph = self.torch, self.torch.nn.functional, self.graph
        U, b, W, d, V, e, words = self.levels.weights
        for weight in self.levels.weights:
            weight.grad = None
        size = W.shape[1]

        def message(edges: Any) -> dict[str, Any]:  # noqa: ANN401
            return {"h": edges.src["h"], "c": edges.src["c"]}

        def reduce(nodes: Any) -> dict[str, Any]:  # noqa: ANN401
            gates = functional.linear(nodes.mailbox["h"].reshape(-1, 2 * size), U, b)
            i, left, right, o = gates[:, : 4 * size].sigmoid().split(size, 1)
            cl, cr = nodes.mailbox["c"].unbind(1)
            c = i * gates[:, 4 * size :].tanh() + left * cl + right * cr
            return {"h": o * c.tanh(), "c": c}

        gates = functional.linear(functional.embedding(self.levels.words, words), W, d)
        i, o = gates[:, : 2 * size].sigmoid().split(size, 1)
        c = i * gates[:, 2 * size :].tanh()
        below = torch.zeros(graph.num_nodes() - len(c), size)
        graph.ndata["h"], graph.ndata["c"] = torch.cat([o * c.tanh(), below]), torch.cat([c, below])
        graph.prop_nodes(self.frontiers(graph)[1:], message, reduce)
        scores = functional.linear(graph.ndata.pop("h"), V, e)
        loss = functional.cross_entropy(scores, self.labels, reduction="sum")
        loss.backward()
        return float(loss.detach())
