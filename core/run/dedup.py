"""When equal nodes are looked for: always, never, or where that has paid lately."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.equal.consing import LEAST_NODES, LOOKED_AT, Consing, Patience, worth
from abw.core.graph.equal.dedup import dedup
from abw.core.graph.equal.leaves import Leaves
from abw.core.graph.equal.numbering import Keys, keys_of
from abw.core.graph.graph import Graph
from abw.core.graph.growing.launch import leave_out_equal
from abw.core.ir.network import Network
from abw.core.jit.decorators import address_of_code
from abw.core.plan.arenas import arenas_of

# More nodes than a mini-batch has.
NEVER = 1 << 62
# Where looking has paid in one of the mini-batches that run at once, it is not asked again for so many.
TRUST = 15


@dataclass(slots=True)
class Deduplicator(Patience):
    """Leaves out nodes of mini-batches that equal others.

    `grown`: how many nodes the last mini-batch had that has grown. `trust`: how many of those that run at
    once are looked at before that has to be learned again. `by_steps`: the seconds that a node of a model
    that grows takes longer where equal ones are looked for, because no pass does that.
    """

    keys: Keys = field(kw_only=True)
    flops: NDArray[np.float64] = field(init=False)  # of a node of each type (T,)
    grown: int = 0
    trust: int = 0
    by_steps: float = 0.0

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
        return dedup(graph, self.keys, apart, part) if len(graph) >= self.least(looks=True) else graph

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
        if len(graph) < self.least():
            self.ran(len(graph), None)
            return graph
        made = dedup(graph, self.keys, part=divide(graph), leaves=leaves)
        self.ran(len(graph), graph.type_sizes - made.type_sizes)
        return made

    def least(self, *, looks: bool | None = None) -> int:
        """From how many nodes on the next mini-batch is looked at; `looks`: whether one is that is large."""
        if looks is None:
            looks = not (self.mode == "auto" and self.pause)
        if not looks or self.mode == "off":
            return NEVER
        return LEAST_NODES if self.mode == "auto" else 0

    def foreseen(self, most: int, *, grows: bool) -> bool | None:
        """Whether to look at the next mini-batch, of `most` nodes at most; None where that is to be learned,
        or it `grows` and no pass can look.
        """
        most = max(most, self.grown)
        if most < self.least():
            self.ran(most, None)
            return False
        if grows or not (self.trust or self.mode == "on"):
            return None
        self.trust = max(0, self.trust - 1)
        return True

    def ran(self, nodes: int, spared: NDArray[np.integer[Any]] | None) -> None:
        """Note how many nodes a mini-batch had, and how many looking at it has spared, by type (T,); None:
        nobody has looked at it.
        """
        if spared is not None:
            self.note(nodes, spared, LOOKED_AT)
        elif self.pause and nodes >= LEAST_NODES:
            self.pause -= 1

    def note(self, nodes: int, spared: NDArray[np.integer[Any]], seconds: float) -> None:
        """Note what looking at so many nodes has spared, by type (T,), at so many seconds a node."""
        if self.mode == "auto":
            paid = worth(nodes, int(spared.sum()), float(spared @ self.flops), seconds)
            self.trust = TRUST if paid else 0
            self.learn(paid=paid)
