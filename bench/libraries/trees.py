"""A mini-batch of trees with the weights of a TreeLSTM, as PyTorch has them; what libraries make of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from abw.core.data.instances import Instances
from abw.core.exec.params import Params
from abw.core.graph.graph import Graph
from abw.core.ir.network import Network
from abw.core.train.checkpoint import named


class TreeLstm:
    """The cells in PyTorch, the gates' weights stacked.

    `weights` are U (5H, 2H), b, W (3H, E), d, V (classes, H), e, and the table of words.
    """

    def __init__(self, torch: Any, values: Mapping[str, NDArray[np.float32]]) -> None:  # noqa: ANN401
        """From the spec's weights by their names, each gate's own."""
        self.torch = torch
        given = {name: torch.from_numpy(np.array(value)) for name, value in values.items()}
        gates = "ilrou"
        tensors = [
            torch.cat([torch.cat([given[f"internal.U{g}{s}"] for s in "lr"], 1) for g in gates]),
            torch.cat([given[f"internal.b{g}"] for g in gates]),
            torch.cat([given[f"leaf.W{g}"] for g in "iou"]),
            torch.cat([given[f"leaf.b{g}"] for g in "iou"]),
            given["output.W"], given["output.b"], given["words"],
        ]  # fmt: skip
        self.weights = [tensor.clone().requires_grad_() for tensor in tensors]

    def leaf_states(self, words: Any) -> tuple[Any, Any]:  # noqa: ANN401
        """h and c of leaves with these words."""
        functional, (_, _, W, d, _, _, table) = self.torch.nn.functional, self.weights
        size = len(d) // 3
        gates = functional.linear(functional.embedding(words, table, sparse=True), W, d)
        i, o = gates[:, : 2 * size].sigmoid().split(size, 1)
        c = i * gates[:, 2 * size :].tanh()
        return o * c.tanh(), c

    def inner_states(self, h: Any, cl: Any, cr: Any) -> tuple[Any, Any]:  # noqa: ANN401
        """h and c of nodes, by their children's: `h` (k, 2H) both of one beside each other."""
        U, b, size = self.weights[0], self.weights[1], cl.shape[1]
        gates = self.torch.nn.functional.linear(h, U, b)
        i, left, right, o = gates[:, : 4 * size].sigmoid().split(size, 1)
        c = i * gates[:, 4 * size :].tanh() + left * cl + right * cr
        return o * c.tanh(), c

    def classes(self, h: Any) -> Any:  # noqa: ANN401
        """Scores of nodes."""
        return self.torch.nn.functional.linear(h, self.weights[4], self.weights[5])


class Trees(TreeLstm):
    """A mini-batch of n nodes, leaves first, with weights of its own.

    `words` (leaves,), `children` (n - leaves, 2) and `labels` (n,) are tensors of nodes' numbers and words'
    rows.
    """

    def __init__(
        self,
        torch: Any,  # noqa: ANN401
        network: Network,
        params: Params,
        graph: Graph,
        instances: Instances,
    ) -> None:
        """From a graph of `specs/treelstm.yaml`, and its weights."""
        super().__init__(torch, named(network, params))
        leaves, inner = graph.type_ptr[1:3].tolist()
        table = next(c.first for c in network.constants if c.kind == "table")
        operand = graph.operand[graph.operand_ptr[leaves] : graph.operand_ptr[inner]]
        self.words = _tensor(torch, -1 - graph.operand[:leaves] - table)
        self.children = _tensor(torch, operand.reshape(-1, 4)[:, [0, 2]] // network.width)
        labels = np.array([int(word) for word in instances.vocabulary["label"]])[instances.fields["label"]]
        self.labels = _tensor(torch, labels[graph.vertex[:inner]])

    def step(self, library: Library) -> float:
        """Forward, loss and backward; the loss."""
        for weight in self.weights:
            weight.grad = None
        scores, nodes = library.scores()
        loss = self.torch.nn.functional.cross_entropy(scores, self.labels[nodes], reduction="sum")
        loss.backward()
        return float(loss.detach())


class Library(Protocol):
    """One way to compute the scores of some trees again and again."""

    def scores(self) -> tuple[Any, Any]:
        """The scores (n, classes) of all nodes, and their numbers in that order (n,)."""


def _tensor(torch: Any, numbers: NDArray[np.integer[Any]]) -> Any:  # noqa: ANN401
    return torch.from_numpy(numbers.astype(np.int64))
