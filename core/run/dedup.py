"""When equal nodes are looked for: always, never, or where that has paid lately."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.equal.consing import LEAST_NODES as LEAST_NODES
from abw.core.graph.equal.consing import LOOKED_AT as LOOKED_AT
from abw.core.graph.equal.consing import Consing, Patience, worth
from abw.core.graph.equal.consing import DedupMode as DedupMode
from abw.core.graph.equal.dedup import dedup
from abw.core.graph.equal.leaves import Leaves
from abw.core.graph.equal.numbering import Keys, keys_of
from abw.core.graph.graph import Graph
from abw.core.graph.growing.launch import leave_out_equal
from abw.core.ir.network import Network
from abw.core.jit.decorators import address_of_code
from abw.core.plan.arenas import arenas_of


@dataclass(slots=True)
class Deduplicator(Patience):
    """Leaves out nodes of mini-batches that equal others.

    `looked_at`: the seconds that looking takes for a node of a whole graph, with what it keeps from being
    spared otherwise. `grown`: how many nodes the last mini-batch had that has grown.
    """

    keys: Keys = field(kw_only=True)
    flops: NDArray[np.float64] = field(init=False)  # of a node of each type (T,)
    looked_at: float = LOOKED_AT
    grown: int = 0

    def __post_init__(self) -> None:
        arenas = arenas_of(self.keys.network)
        self.flops = np.asarray(arenas.product_flops + arenas.other_flops, np.float64)

    def like(self, network: Network) -> Deduplicator:
        """The same for another network with edges in the same slots."""
        return type(self)(self.mode, keys=keys_of(network, self.keys.edges))

    def compile(self, graph: Graph) -> None:
        """Compile what looks for equal nodes, by a graph of the network, however small."""
        dedup(graph, self.keys)

    def compile_rounds(self) -> None:
        """Compile what looks for equal nodes while mini-batches grow."""
        address_of_code(leave_out_equal)
        Consing(self.keys.network).reserve(0, 1, 1)

    def __call__(
        self, graph: Graph, apart: NDArray[np.bool_] | None = None, part: NDArray[np.int32] | None = None
    ) -> Graph:
        """The graph without equal nodes, or as it is where it is too small to look.

        What it does depends on the graph alone. For `apart` and `part` see `dedup`.
        """
        return graph if self._too_small(graph) else dedup(graph, self.keys, apart, part)

    def _too_small(self, graph: Graph) -> bool:
        return self.mode == "auto" and len(graph) < LEAST_NODES

    def adaptive(
        self,
        graph: Graph,
        divide: Callable[[Graph], NDArray[np.int32] | None],
        leaves: Leaves | None = None,
    ) -> Graph:
        """Leave out equal nodes of a run's next mini-batch: `auto` looks less often where that has not paid.

        `divide` gives the part of each instance; it is not called where nobody looks. Nodes whose outputs are
        among the `leaves` of earlier mini-batches are left out, too.
        The choice depends on the mini-batches before, not on a clock: the same run has the same nodes again.
        """
        if not self.begin() or self._too_small(graph):
            return graph
        made = dedup(graph, self.keys, part=divide(graph), leaves=leaves)
        self.note(len(graph), graph.type_sizes - made.type_sizes, self.looked_at)
        return made

    def begins(self, most: NDArray[np.integer[Any]]) -> bool:
        """Whether a mini-batch, of at most so many nodes a vertex, is to be looked at instead of passed.

        One that is not, since looking has not paid lately, counts as begun.
        """
        if self.pause:
            return self.begin()
        return max(int(most.sum()), self.grown) >= LEAST_NODES

    def looks_where_grows(self, before: int) -> bool:
        """Whether to look at a mini-batch that grows, which has so many nodes `before`."""
        return self.mode == "on" or max(before, self.grown) >= LEAST_NODES

    def note(self, nodes: int, spared: NDArray[np.integer[Any]], seconds: float) -> None:
        """Note what looking at so many nodes has spared, by type (T,), at so many seconds a node."""
        if self.mode == "auto":
            flops = float(spared @ self.flops)
            self.learn(paid=worth(nodes, int(spared.sum()), flops, seconds))
