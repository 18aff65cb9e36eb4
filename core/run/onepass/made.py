"""Graph, schedule and plan of a pass, as objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.bind import Binding
from abw.core.graph.construct import Constructed, graph_of
from abw.core.graph.equal.dedup import distinct_of
from abw.core.graph.graph import Distinct, Graph
from abw.core.graph.walk import BEFORE, FIELDS, PLACES
from abw.core.plan.arenas import arenas_of
from abw.core.plan.plan import Plan, fields_of
from abw.core.policy.schedule import Schedule
from abw.core.run.dedup import Deduplicator
from abw.core.run.onepass import finish
from abw.core.run.onepass import state as at

Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Made:
    """The words, the walker's table and the block of a pass (bytes, which began at address `begin`).

    `edges`: whether the policy has asked for the graph's edges. `equal`: what equal nodes were looked for
    with; `epoch`: see `Distinct`.
    """

    words: Longs
    table: Longs
    block: NDArray[np.uint8]
    begin: int
    edges: bool
    equal: Deduplicator | None
    epoch: int | None

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return int(self.words[at.NODES])

    @property
    def batches(self) -> int:
        """How many batches there are."""
        return int(self.words[at.BATCHES])

    @property
    def equal_nodes(self) -> int:
        """How many nodes were left out because they equal others."""
        return int(self.words[at.MADE]) - self.nodes if self.words[at.PLACE] else 0

    def _at(self, address: int, *shape: int, kind: Any = np.int32) -> Any:  # noqa: ANN401 (of any type)
        return np.ndarray(shape, kind, self.block, int(address) - self.begin)

    def graph(self, binding: Binding, first: int, last: int) -> Graph:
        """The graph of instances `first` to `last` (exclusive)."""
        words, start = self.words, binding.instances.start
        n, types, keys = self.nodes, int(words[at.TYPES]), self.equal.keys if self.equal else None
        looked = bool(words[at.PLACE])
        before, nodes = int(words[at.MADE]) if looked else n, words[at.MADE_AT if looked else at.NODE_AT]
        own = self._at(words[at.OWN], types + 1, FIELDS, kind=np.int64)
        found = Constructed(
            own,
            self._at(words[at.SPACE], int(words[at.SPACE_ROWS]), int(start[last] - start[first]) + BEFORE),
            self._at(nodes, 3, before),
            self._at(words[at.OPERAND_PTR], n + 1),
            self._at(words[at.ALIAS], int(own[types, PLACES]) << int(words[at.SHIFT])),
            self._at(words[at.OPERAND], int(words[at.OPERANDS])),
        )
        graph = graph_of(binding, first, last, found)
        if looked and keys:
            place, kept = self._at(words[at.PLACE], before), int(words[at.KEPT])
            distinct = Distinct(graph.type_ptr, graph.instance, place, None, self.epoch, kept)
            left = self._at(words[at.TYPE_PTR], types + 1), self._at(words[at.NODE_AT], 3, before)[:, :n]
            graph = distinct_of(graph, keys, *left, found.operand_ptr, found.operand, distinct)
        if self.edges:
            graph.dag.edges  # noqa: B018 (found now, as the policy would have)
        return graph

    def schedule(self) -> Schedule:
        """The policy's schedule."""
        words, batches = self.words, self.batches
        return Schedule(
            self._at(words[at.BATCH_TYPE], batches),
            self._at(words[at.BATCH_PTR], batches + 1),
            self._at(words[at.BATCH_NODES], self.nodes),
        )

    def plan(self, graph: Graph, schedule: Schedule) -> Plan:
        """The plan by which the batches were executed."""
        words, table, arenas = self.words, self.table, arenas_of(graph.network)
        batches, width = self.batches, graph.network.width
        _, constant_row, given = fields_of(graph, arenas, arenas.head)
        operand_ptr = self._at(table[finish.OPERAND_PTR], batches + 1)
        operands = int(operand_ptr[-1])
        status, start, stride, list_ptr = (
            self._at(table[word], operands)
            for word in (finish.STATUS, finish.START, finish.STRIDE, finish.LIST_PTR)
        )
        return Plan(
            graph,
            schedule,
            arenas,
            self._at(words[at.ROWS_NOW], int(words[at.ARENAS])),
            self._at(table[finish.BASE], batches, width),
            self._at(words[at.ROW], len(graph) * width),
            operand_ptr,
            self._at(table[finish.INDEX_PTR], operands + 1),
            self._at(table[finish.INDEX], len(graph.operand)),
            status,
            start,
            stride,
            list_ptr,
            self._at(table[finish.LISTS], int(words[at.LISTED])),
            self._at(table[finish.LAUNCH_PTR], batches + 1),
            np.array([0, batches], np.int32),
            constant_row,
            int(words[at.PRODUCT_FLOPS_NOW]),
            int(words[at.OTHER_FLOPS_NOW]),
            given=given,
        )
