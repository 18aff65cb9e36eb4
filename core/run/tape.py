"""The append-only graph of a mini-batch that grows: scheduled, planned and executed piece by piece."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.progress import Clock
from abw.core.data.instances import Ints
from abw.core.data.vertices import Columns
from abw.core.exec.interface import Array, Executor, Result
from abw.core.graph.graph import Graph
from abw.core.ir.network import Network
from abw.core.plan.counts import Counts
from abw.core.plan.plan import Earlier, Plan, plan
from abw.core.policy.schedule import Schedule

TYPE, PIECE, NUMBER = "type", "piece", "number"
"""Of a node: its type, the piece that computes it, its number in that."""


class Tape:
    """Nodes as they come, whose values stay where they are in the executor's memory.

    Output o of node v has the reference `v * width + o`.
    """

    def __init__(self, network: Network, executor: Executor) -> None:
        self._network, self._executor = network, executor
        self._nodes = Columns(0)
        self.plans: list[Plan] = []
        self.results: list[Result] = []

    def __len__(self) -> int:
        return self._nodes.count

    def advance(self, graph: Graph, outer: Ints, schedule: Schedule, clock: Clock) -> None:
        """Plan and execute the nodes of a graph, which are the next ones.

        The i-th reference that the graph reads of earlier nodes is `outer[i]` here. Errors: TooLargeError.
        """
        if not len(graph):
            return
        with clock("plan"):
            earlier = None
            if self.plans:
                node, output = np.divmod(outer, self._network.width)
                rows = np.empty(len(outer), np.int32)
                for o in range(self._network.width):
                    rows[output == o] = self._nodes[o][node[output == o]]
                arenas = self.plans[-1].arenas.output_arena[self._nodes[TYPE][node], output]
                earlier = Earlier(self.plans[-1].rows, arenas, rows)
            made = plan(graph, self._executor.arrange(graph, schedule), None, earlier)
        with clock("execute"):
            result = self._executor.run(made)
        with clock("plan"):
            new = self._nodes.append(len(graph))
            self._nodes[TYPE][new] = graph.dag.type
            self._nodes[PIECE][new] = len(self.plans)
            self._nodes[NUMBER][new] = np.arange(len(graph))
            for o in range(self._network.width):
                self._nodes[o][new] = made.row[o :: self._network.width]
        self.plans.append(made)
        self.results.append(result)

    def values(self, references: NDArray[np.integer[Any]]) -> Array:
        """The values of m references, all of one shape: (m, *shape)."""
        if not len(references) or not self.results:
            return np.empty(len(references), np.float32)
        node, output = np.divmod(references, self._network.width)
        computed = references >= 0
        piece = np.where(computed, self._nodes[PIECE][np.where(computed, node, -1)], 0)
        number = self._nodes[NUMBER][np.where(computed, node, -1)].astype(np.int64)
        local = np.where(computed, number * self._network.width + output, references)
        if (piece == piece[0]).all():
            alone: Array = self.results[int(piece[0])].values(local)
            return alone
        found: Array | None = None
        for p in np.unique(piece).tolist():
            here = np.flatnonzero(piece == p)
            part = self.results[p].values(local[here])
            if found is None:
                found = np.empty((len(references), *part.shape[1:]), part.dtype)
            found[here] = part
        assert found is not None
        return found

    @property
    def counts(self) -> Counts:
        """What executing all pieces took."""
        taken = [result.counts for result in self.results]
        return Counts(*(sum(getattr(c, f.name) for c in taken) for f in fields(Counts)))

    def schedule(self, number: Ints) -> Schedule:
        """All pieces' batches in the order in which they ran; node v is numbered `number[v]`."""
        types, sizes, nodes, launched = [], [], [], []
        first = 0
        for made in self.plans:
            types.append(made.schedule.type)
            sizes.append(np.diff(made.schedule.ptr))
            nodes.append(number[made.schedule.nodes + first])
            launched.append(np.diff(made.launch_ptr))
            first += len(made.graph)

        def together(parts: list[Ints]) -> Ints:
            return np.concatenate([np.zeros(0, np.int32), *parts])

        def ends(parts: list[Ints]) -> Ints:
            return np.append(0, np.cumsum(together(parts))).astype(np.int32)

        unseen = sum(made.schedule.unseen for made in self.plans)
        return Schedule(together(types), ends(sizes), together(nodes), unseen, ends(launched))
