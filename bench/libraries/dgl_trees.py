"""Trees in DGL, through its own public interface."""

from __future__ import annotations

import importlib
import os
from typing import Any

from abw.bench.libraries.trees import Trees


def import_dgl() -> Any:  # noqa: ANN401
    """DGL with PyTorch below it, None where it is absent or does not go with what else there is.

    1.1.3 goes with today's PyTorch beside `setuptools<71`, `packaging` and `PyYAML`.
    """
    os.environ.setdefault("DGLBACKEND", "pytorch")
    try:
        return importlib.import_module("dgl")
    except Exception:
        return None


class DglTrees:
    """Trees as one graph: messages from children to parents, a frontier of the topological order at a time.

    As in DGL's own example of the TreeLSTM; the graph is made before.
    """

    def __init__(self, dgl: Any, trees: Trees) -> None:  # noqa: ANN401
        """Make the graph."""
        self.trees, torch = trees, trees.torch
        leaves, nodes = len(trees.words), len(trees.words) + len(trees.children)
        parents = torch.arange(leaves, nodes).repeat_interleave(2)
        self.graph = dgl.graph((trees.children.ravel(), parents), num_nodes=nodes)
        self.frontiers = dgl.topological_nodes_generator
        self.order = torch.arange(nodes)

    def scores(self) -> tuple[Any, Any]:
        """The scores of all nodes by number."""
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
