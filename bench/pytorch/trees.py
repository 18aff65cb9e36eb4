"""The TreeLSTM on a mini-batch of trees: in PyTorch tree by tree and by level, in DGL, and in TorchFold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from abw.bench.pytorch.install import import_dgl, import_torchfold
from abw.core.data.instances import Instances
from abw.core.graph.graph import Graph
from abw.core.ir.network import Network

Ints = NDArray[np.integer[Any]]


class Trees:
    """A mini-batch of n nodes, leaves first, and the cells in PyTorch with the gates' weights stacked.

    `weights` are U (5H, 2H), b, W (3H, E), d, V (classes, H), e, and the table of words. Nodes are numbered;
    `words` (leaves,), `children` (n - leaves, 2) and `labels` (n,) are tensors.
    """

    def __init__(
        self,
        torch: Any,  # noqa: ANN401
        network: Network,
        values: Mapping[str, NDArray[np.float32]],
        graph: Graph,
        instances: Instances,
    ) -> None:
        """Take a graph of `specs/treelstm.yaml`, and the weights of each gate by their names."""
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
        leaves, inner = graph.type_ptr[1:3].tolist()
        table = next(c.first for c in network.constants if c.kind == "table")
        operand = graph.operand[graph.operand_ptr[leaves] : graph.operand_ptr[inner]]
        self.words = self.tensor(-1 - graph.operand[:leaves] - table)
        self.children = self.tensor(operand.reshape(-1, 4)[:, [0, 2]] // network.width)
        labels = np.array([int(word) for word in instances.vocabulary["label"]])[instances.fields["label"]]
        self.labels = self.tensor(labels[graph.vertex[:inner]])

    def tensor(self, numbers: Ints) -> Any:  # noqa: ANN401
        """Numbers as PyTorch has indices."""
        return self.torch.from_numpy(numbers.astype(np.int64))

    def leaf_states(self, words: Any) -> tuple[Any, Any]:  # noqa: ANN401
        """h and c of leaves with these words."""
        functional, (_, _, W, d, _, _, table) = self.torch.nn.functional, self.weights
        size = len(d) // 3
        gates = functional.linear(functional.embedding(words, table, sparse=True), W, d)
        i, o = gates[:, : 2 * size].sigmoid().split(size, 1)
        c = i * gates[:, 2 * size :].tanh()
        return o * c.tanh(), c

    def inner_states(self, h: Any, cl: Any, cr: Any) -> tuple[Any, Any]:  # noqa: ANN401
        """h and c of nodes, by their children's; `h` (k, 2H) has those of both children side by side."""
        U, b, size = self.weights[0], self.weights[1], cl.shape[1]
        gates = self.torch.nn.functional.linear(h, U, b)
        i, left, right, o = gates[:, : 4 * size].sigmoid().split(size, 1)
        c = i * gates[:, 4 * size :].tanh() + left * cl + right * cr
        return o * c.tanh(), c

    def classes(self, h: Any) -> Any:  # noqa: ANN401
        """Scores of nodes."""
        return self.torch.nn.functional.linear(h, self.weights[4], self.weights[5])

    def height(self) -> Ints:
        """The height of each node (n,): 0 of the leaves."""
        children, leaves = self.children.numpy(), len(self.words)
        height = np.zeros(leaves + len(children), np.int64)
        while True:
            higher = 1 + height[children].max(axis=1, initial=0)
            if np.array_equal(higher, height[leaves:]):
                return height
            height[leaves:] = higher

    def inner(self) -> list[tuple[int, list[int]]]:
        """The nodes above the leaves with their children, children first."""
        leaves, children = len(self.words), self.children.tolist()
        order = leaves + np.argsort(self.height()[leaves:], kind="stable")
        return [(node, children[node - leaves]) for node in order.tolist()]

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


class ByLevel:
    """All nodes of a height at once, as one would batch them by hand; indices are found before."""

    def __init__(self, trees: Trees) -> None:
        self.trees, height, leaves = trees, trees.height(), len(trees.words)
        order = np.argsort(height, kind="stable")
        position = np.empty_like(order)
        position[order] = np.arange(len(order))
        ends = np.cumsum(np.bincount(height)).tolist()
        children = trees.children.numpy()
        self.below = [
            trees.tensor(position[children[order[a:b] - leaves]].ravel()) for a, b in pairwise(ends)
        ]
        self.order = trees.tensor(order)
        self.words = trees.words[self.order[:leaves]]

    def scores(self) -> tuple[Any, Any]:
        """See `Library`."""
        trees, torch = self.trees, self.trees.torch
        h, c = trees.leaf_states(self.words)
        size = c.shape[1]
        for rows in self.below:
            cl, cr = c.index_select(0, rows).view(-1, 2, size).unbind(1)
            own = trees.inner_states(h.index_select(0, rows).view(-1, 2 * size), cl, cr)
            h, c = (torch.cat(pair) for pair in zip((h, c), own, strict=True))
        return trees.classes(h), self.order


class OneByOne:
    """Each tree by itself and node after node, as one writes it first."""

    def __init__(self, trees: Trees) -> None:
        self.trees, self.inner = trees, trees.inner()
        self.order = trees.torch.arange(len(trees.words) + len(trees.children))

    def scores(self) -> tuple[Any, Any]:
        """See `Library`."""
        trees, torch = self.trees, self.trees.torch
        states: list[Any] = [trees.leaf_states(word) for word in trees.words.split(1)]
        states += [None] * len(self.inner)
        for node, (left, right) in self.inner:
            (hl, cl), (hr, cr) = states[left], states[right]
            states[node] = trees.inner_states(torch.cat([hl, hr], 1), cl, cr)
        return trees.classes(torch.cat([h for h, _ in states])), self.order


class DglTrees:
    """DGL: messages from children to parents, a frontier of the topological order at a time.

    Follows DGL's own example of the TreeLSTM; the graph is made before.
    """

    def __init__(self, dgl: Any, trees: Trees) -> None:  # noqa: ANN401
        self.trees, torch = trees, trees.torch
        leaves, nodes = len(trees.words), len(trees.words) + len(trees.children)
        parents = torch.arange(leaves, nodes).repeat_interleave(2)
        self.graph = dgl.graph((trees.children.ravel(), parents), num_nodes=nodes)
        self.frontiers = dgl.topological_nodes_generator
        self.order = torch.arange(nodes)

    def scores(self) -> tuple[Any, Any]:
        """See `Library`."""
        trees, torch, graph = self.trees, self.trees.torch, self.graph

        def message(edges: Any) -> dict[str, Any]:  # noqa: ANN401
            return {"h": edges.src["h"], "c": edges.src["c"]}

        def reduce(nodes: Any) -> dict[str, Any]:  # noqa: ANN401
            h, c = nodes.mailbox["h"], nodes.mailbox["c"]
            states = trees.inner_states(h.reshape(len(h), -1), *c.unbind(1))
            return dict(zip("hc", states, strict=True))

        h, c = trees.leaf_states(trees.words)
        below = torch.zeros(graph.num_nodes() - len(c), c.shape[1])
        graph.ndata["h"], graph.ndata["c"] = torch.cat([h, below]), torch.cat([c, below])
        graph.prop_nodes(self.frontiers(graph)[1:], message, reduce)
        return trees.classes(graph.ndata.pop("h")), self.order


class FoldTrees:
    """TorchFold: each node is an operation on others, and those of one depth are batched.

    Leaves and inner nodes are folded, the scores of all are one product behind that. The fold is made before.
    """

    def __init__(self, torchfold: Any, trees: Trees) -> None:  # noqa: ANN401
        self.trees, self.fold = trees, torchfold.Fold()
        words = trees.words.tolist()
        states = {node: self.fold.add("leaf", word).split(2) for node, word in enumerate(words)}
        for node, (left, right) in trees.inner():
            states[node] = self.fold.add("internal", *states[left], *states[right]).split(2)
        self.hidden = [[h for h, _ in states.values()]]
        self.order = trees.torch.tensor(list(states))

    def leaf(self, words: Any) -> tuple[Any, Any]:  # noqa: ANN401
        """Compute the leaves of a step; TorchFold calls it."""
        return self.trees.leaf_states(words)

    def internal(self, hl: Any, cl: Any, hr: Any, cr: Any) -> tuple[Any, Any]:  # noqa: ANN401
        """Compute the inner nodes of a step; TorchFold calls it."""
        return self.trees.inner_states(self.trees.torch.cat([hl, hr], 1), cl, cr)

    def scores(self) -> tuple[Any, Any]:
        """See `Library`."""
        (h,) = self.fold.apply(self, self.hidden)
        return self.trees.classes(h), self.order


def installed() -> dict[str, Callable[[Trees], Library]]:
    """Return the libraries that are installed, each by its name."""
    found: dict[str, Callable[[Trees], Library]] = {}
    if dgl := import_dgl():
        found["DGL"] = partial(DglTrees, dgl)
    if torchfold := import_torchfold():
        found["TorchFold"] = partial(FoldTrees, torchfold)
    return found
