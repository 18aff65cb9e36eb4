"""The append-only graph of a mini-batch that grows: scheduled, planned and executed piece by piece."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.base.progress import Clock
from abw.core.data.instances import Ints
from abw.core.data.vertices import Columns
from abw.core.exec.interface import Array, Executor
from abw.core.graph.graph import Graph
from abw.core.ir.network import Network
from abw.core.plan.arenas import arenas_of
from abw.core.plan.counts import Counts
from abw.core.plan.plan import Earlier, Plan, plan
from abw.core.policy.schedule import Schedule

Read = Callable[[NDArray[np.integer[Any]]], Array]

# Of a node: its type, the piece that computes it, its number in that.
TYPE, PIECE, NUMBER = "type", "piece", "number"


class Tape:
    """Nodes as they come, whose values stay where they are in the executor's memory.

    Output o of node v has the reference `v * width + o`.
    """

    def __init__(self, network: Network, executor: Executor) -> None:
        self._network, self._executor = network, executor
        self._columns = Columns(0)
        self._read: list[Read] = []
        self._nodes: list[tuple[Ints, Ints]] = []
        self._noted, self._count = 0, 0
        self._schedules: list[Schedule] = []
        self._counts: list[Counts] = []
        self._rows: Ints | None = None
        self.plans: list[Plan] = []

    def __len__(self) -> int:
        return self._count

    def advance(self, graph: Graph, outer: Ints, schedule: Schedule, clock: Clock) -> None:
        """Plan and execute the nodes of a graph, which are the next ones.

        The i-th reference that the graph reads of earlier nodes is `outer[i]` here. Errors: TooLargeError.
        """
        if self.plans and not len(graph):  # decisions alone, of what is given
            return
        with clock("plan"):
            earlier = None
            if self._rows is not None:
                node, output = np.divmod(outer, self._network.width)
                rows, noted = np.empty(len(outer), np.int32), self._all()
                for o in range(self._network.width):
                    rows[output == o] = noted[o][node[output == o]]
                arenas = arenas_of(self._network).output_arena[noted[TYPE][node], output]
                earlier = Earlier(self._rows, arenas, rows)
            made = plan(graph, self._executor.arrange(graph, schedule), None, earlier)
        with clock("execute"):
            result = self._executor.run(made)
        self.take(graph.dag.type, made.row, made.rows, made.schedule, result.counts, result.read)
        self.plans.append(made)

    def take(
        self, types: Ints, row: Ints, rows: Ints, schedule: Schedule, counts: Counts, read: Read
    ) -> None:
        """Computed nodes, which are the next ones, of which output o of number n lies in `row[n * W + o]`."""
        self._nodes.append((types, row))
        self._count += len(types)
        self._rows = rows
        self._schedules.append(schedule)
        self._counts.append(counts)
        self._read.append(read)

    def _all(self) -> Columns:
        """What is known of all nodes. Cost: linear in those that are new since the last time."""
        noted, width = self._columns, self._network.width
        for piece in range(self._noted, len(self._nodes)):
            types, row = self._nodes[piece]
            new = noted.append(len(types))
            noted[TYPE][new] = types
            noted[PIECE][new] = piece
            noted[NUMBER][new] = np.arange(len(types))
            for o in range(width):
                noted[o][new] = row[o::width]
        self._noted = len(self._nodes)
        return noted

    def values(self, references: NDArray[np.integer[Any]]) -> Array:
        """The values of m references, all of one shape: (m, *shape)."""
        if not len(references) or not self._read:
            return np.empty(len(references), np.float32)
        node, output = np.divmod(references, self._network.width)
        computed = references >= 0
        noted, node = self._all(), np.where(computed, node, -1)
        piece = np.where(computed, noted[PIECE][node], 0)
        number = noted[NUMBER][node].astype(np.int64)
        local = np.where(computed, number * self._network.width + output, references)
        if (piece == piece[0]).all():
            alone: Array = self._read[int(piece[0])](local)
            return alone
        found: Array | None = None
        for p in np.unique(piece).tolist():
            here = np.flatnonzero(piece == p)
            part = self._read[p](local[here])
            if found is None:
                found = np.empty((len(references), *part.shape[1:]), part.dtype)
            found[here] = part
        assert found is not None
        return found

    @property
    def rows(self) -> Ints:
        """How many rows of each arena (A,) are taken. Raises ValueError where nothing was executed."""
        if self._rows is None:
            raise ValueError("nothing was executed")
        return self._rows

    @property
    def counts(self) -> Counts:
        """What executing all pieces took."""
        if len(self._counts) == 1:
            return self._counts[0]
        return Counts(*(sum(getattr(c, f.name) for c in self._counts) for f in fields(Counts)))

    @property
    def batches(self) -> int:
        """How many batches there were."""
        return sum(map(len, self._schedules))

    @property
    def unseen(self) -> int:
        """How often a policy met a state that it had not seen."""
        return sum(made.unseen for made in self._schedules)

    def schedule(self, number: Ints) -> Schedule:
        """All pieces' batches in the order in which they ran; node v is numbered `number[v]`."""
        types, sizes, nodes, launched = [], [], [], []
        first = 0
        for made in self._schedules:
            types.append(made.type)
            sizes.append(np.diff(made.ptr))
            nodes.append(number[made.nodes + first])
            launched.append(np.diff(made.launches))
            first += len(made.nodes)

        def together(parts: list[Ints]) -> Ints:
            return np.concatenate([np.zeros(0, np.int32), *parts])

        def ends(parts: list[Ints]) -> Ints:
            return np.append(0, np.cumsum(together(parts))).astype(np.int32)

        return Schedule(together(types), ends(sizes), together(nodes), self.unseen, ends(launched))
