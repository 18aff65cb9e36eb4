"""When equal nodes are looked for: always, never, or where that has paid lately."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.equal.consing import LEAST_NODES as LEAST_NODES
from abw.core.graph.equal.consing import LONGEST_PAUSE, RATE, SPARED
from abw.core.graph.equal.consing import LOOKED_AT as LOOKED_AT
from abw.core.graph.equal.consing import DedupMode as DedupMode
from abw.core.graph.equal.dedup import Keys, dedup, keys_of
from abw.core.graph.equal.leaves import Leaves
from abw.core.graph.graph import Graph
from abw.core.ir.network import Network
from abw.core.plan.arenas import arenas_of


@dataclass(slots=True)
class Deduplicator:
    """Leaves out nodes of mini-batches that equal others.

    `pause`: how many mini-batches `adaptive` still skips; `next_pause`: how many it will skip the next time.
    `looked_at`: the seconds that looking takes for a node, with what it keeps from being spared otherwise.
    """

    mode: DedupMode
    keys: Keys
    flops: NDArray[np.float64] = field(init=False)  # of a node of each type (T,)
    pause: int = 0
    next_pause: int = 1
    looked_at: float = LOOKED_AT

    def __post_init__(self) -> None:
        arenas = arenas_of(self.keys.network)
        self.flops = np.asarray(arenas.product_flops + arenas.other_flops, np.float64)

    def like(self, network: Network) -> Deduplicator:
        """The same for another network with edges in the same slots."""
        return type(self)(self.mode, keys_of(network, self.keys.edges))

    def compile(self, graph: Graph) -> None:
        """Compile what looks for equal nodes, by a graph of the network, however small."""
        dedup(graph, self.keys)

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
        if self.pause and self.mode == "auto":
            self.pause -= 1
            return graph
        if self._too_small(graph):
            return graph
        made = dedup(graph, self.keys, part=divide(graph), leaves=leaves)
        if self.mode == "auto":
            spared = graph.type_sizes - made.type_sizes
            saved = float(spared @ self.flops) / RATE + int(spared.sum()) * SPARED
            if saved < len(graph) * self.looked_at:
                self.pause, self.next_pause = self.next_pause, min(2 * self.next_pause, LONGEST_PAUSE)
            else:
                self.next_pause = 1
        return made
