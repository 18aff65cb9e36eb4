"""Granularity `graph`: instances of equal structure are batched node for node, and share one schedule.

As MXNet Gluon's dynamic batching has it at its coarsest (Zha et al., "Just-in-Time Dynamic-Batching", 2019):
what was seen before is compared, and not scheduled again.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from abw.core.base.errors import AbwError
from abw.core.graph.dag import build_dag
from abw.core.graph.graph import Graph
from abw.core.policy.schedule import Schedule
from abw.core.program.engines.engine import Engine
from abw.core.program.recording.segments import Ints, Segment

# Nodes of structures whose schedules are kept.
MOST_KEPT = 1 << 20
# Of an instance's nodes their types, how many values each reads, and which: references, -1 for constants.
Structure = tuple[bytes, bytes, bytes]


class GraphEngine(Engine):
    """Schedules each structure that it meets once, by the policy, and all instances of it alike."""

    by_tape = False
    looks_for_equal = False

    def __init__(self, *parts: Any) -> None:  # noqa: ANN401 (as of `Engine`)
        self._known: dict[Structure, Schedule] = {}
        self._held = 0
        super().__init__(*parts)

    def advance(self, segment: Segment) -> None:
        """Compute all nodes of a run. Errors: AbwError if programs call cells after waiting."""
        if self.segments and len(segment):
            raise AbwError(
                "granularity graph: the program calls cells after it has waited for a value, so its "
                "graph is not known in advance",
                hint="use granularity cell or op, or wait for values only at the end",
            )
        super().advance(segment)

    def _schedule(self, graph: Graph, segment: Segment, local: Ints) -> Schedule:
        """One schedule for all instances of a structure; structures in the order in which they are met.

        Errors: AbwError where an instance reads a value of another one.
        """
        order = np.argsort(segment.instance, kind="stable")
        instance, type_of = segment.instance[order], segment.type[order]
        start = np.append(0, np.cumsum(np.bincount(instance)))
        position = np.empty(len(order), np.int64)  # of each node among those of its instance
        position[order] = np.arange(len(order)) - start[instance]
        ptr, operand = segment.operands(order)
        inner, reader = operand >= 0, np.repeat(instance, np.diff(ptr))
        node, output = np.divmod(np.where(inner, operand, 0), self.network.width)
        node = np.where(inner, node - segment.first, 0)
        if (segment.instance[node] != reader)[inner].any():
            raise AbwError(
                "granularity graph: an instance reads another one's value",
                hint="granularity cell or op",
            )
        read = np.where(inner, position[node] * self.network.width + output, -1)
        alike: dict[Structure, list[int]] = {}
        for a, b in pairwise(start.tolist()):
            if a < b:
                sizes_of = np.diff(ptr[a : b + 1]).tobytes()
                key = type_of[a:b].tobytes(), sizes_of, read[ptr[a] : ptr[b]].tobytes()
                alike.setdefault(key, []).append(a)
        types, sizes, nodes = [], [], []
        for key, begins in alike.items():
            own = self._of_structure(key)
            lanes = order[np.array(begins)[:, None] + own.nodes]  # (instances, nodes of one)
            types.append(own.type)
            sizes.append(np.diff(own.ptr) * len(begins))
            nodes += [lanes[:, a:b].ravel() for a, b in pairwise(own.ptr.tolist())]
        ends = np.append(0, np.cumsum(np.concatenate(sizes))).astype(np.int32)
        return Schedule(np.concatenate(types), ends, local[np.concatenate(nodes)])

    def _of_structure(self, key: Structure) -> Schedule:
        """The schedule of an instance of this structure."""
        found = self._known.get(key)
        if found is None:
            types, sizes, read = (
                np.frombuffer(part, kind)
                for part, kind in zip(key, (np.int32, np.int32, np.int64), strict=True)
            )
            if self._held > MOST_KEPT:
                self._known, self._held = {}, 0
            reader = np.repeat(np.arange(len(types), dtype=np.int32), sizes)[read >= 0]
            source = (read[read >= 0] // self.network.width).astype(np.int32)
            names = tuple(t.name for t in self.network.types)
            found = self._known[key] = self._policy.schedule(build_dag(names, types, source, reader))
            self._held += len(types)
        return found
