"""Granularity `graph`: instances of equal structure are batched node for node, and share one schedule.

As MXNet Gluon's dynamic batching has it at its coarsest (Zha et al., "Just-in-Time Dynamic-Batching", 2019):
what was seen before is compared, and not scheduled again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from abw.core.base.errors import AbwError
from abw.core.graph.dag import build_dag
from abw.core.graph.graph import Graph
from abw.core.policy.schedule import Schedule
from abw.core.program.engines.engine import MOST_KEPT, Engine
from abw.core.program.recording.recorder import Ints, Segment


class GraphEngine(Engine):
    """Schedules each structure that it meets once, by the policy, and all instances of it alike."""

    def __init__(self, *given: Any) -> None:  # noqa: ANN401 (as of `Engine`)
        self._known: dict[bytes, Schedule] = {}
        self._held = 0
        super().__init__(*given)

    def advance(self, segment: Segment) -> None:
        """Compute all nodes of a run. Errors: AbwError where programs go on after what they asked."""
        if self.segments and len(segment):
            raise AbwError(
                "granularity graph: a program calls cells after it has asked for a value, and what its graph "
                "is nobody knows before",
                hint="granularity cell or op; at its end a program may ask",
            )
        super().advance(segment)

    def _schedule(self, graph: Graph, segment: Segment, local: Ints) -> Schedule:
        """One schedule for all instances of a structure; structures in the order in which they are met."""
        order = np.argsort(segment.instance, kind="stable").astype(np.int32)
        counts = np.bincount(segment.instance)
        start = np.append(0, np.cumsum(counts)).astype(np.int32)
        alike: dict[bytes, list[int]] = {}
        for instance, key in enumerate(self._structures(segment, order, start)):
            if counts[instance]:
                alike.setdefault(key, []).append(instance)
        types, sizes, nodes = [], [], []
        for key, instances in alike.items():
            own = self._of_structure(key, segment, order[start[instances[0]] : start[instances[0] + 1]])
            places = order[start[instances][:, None] + own.nodes]  # (instances, nodes of one)
            types.append(own.type)
            sizes.append(np.diff(own.ptr) * len(instances))
            ends = own.ptr.tolist()
            nodes += [places[:, a:b].ravel() for a, b in pairwise(ends)]
        ptr = np.append(0, np.cumsum(np.concatenate(sizes))).astype(np.int32)
        return Schedule(np.concatenate(types), ptr, local[np.concatenate(nodes)])

    def _structures(self, segment: Segment, order: Ints, start: Ints) -> Sequence[bytes]:
        """Of each instance what its nodes are and where each reads: from which of its nodes, or a constant.

        `order` (n,): the nodes, instance after instance; `start`: where each begins there.
        """
        width = self.network.width
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order)) - np.repeat(start[:-1], np.diff(start))
        sizes = np.diff(segment.operand_ptr)
        reader = np.repeat(np.arange(len(order)), sizes)
        node, output = np.divmod(segment.operand, width)
        node = np.where(segment.operand >= 0, node - segment.first, reader)
        if (segment.instance[node] != segment.instance[reader]).any():
            raise AbwError(
                "granularity graph: an instance reads another one's value, so neither has a graph of its own",
                hint="granularity cell or op",
            )
        read = np.where(segment.operand >= 0, place[node] * width + output, -1)
        begin = segment.operand_ptr[:-1][order]
        ends = np.append(0, np.cumsum(sizes[order]))
        read = read[np.repeat(begin - ends[:-1], sizes[order]) + np.arange(ends[-1])]
        type_of = segment.type[order]
        edges = ends[start].tolist()
        return [
            type_of[a:b].tobytes() + read[c:d].tobytes()
            for a, b, c, d in zip(start[:-1], start[1:], edges[:-1], edges[1:], strict=True)
        ]

    def _of_structure(self, key: bytes, segment: Segment, nodes: Ints) -> Schedule:
        """The schedule of an instance, whose nodes are numbered from 0."""
        found = self._known.get(key)
        if found is None:
            if self._held > MOST_KEPT:
                self._known, self._held = {}, 0
            number = np.full(len(segment), -1)
            number[nodes] = np.arange(len(nodes))
            sizes = np.diff(segment.operand_ptr)[nodes]
            at = np.concatenate([np.arange(*segment.operand_ptr[v : v + 2]) for v in nodes.tolist()])
            read = segment.operand[at]
            inner = read >= 0
            source = number[read[inner] // self.network.width - segment.first]
            target = np.repeat(np.arange(len(nodes)), sizes)[inner]
            dag = build_dag(self._names, segment.type[nodes], *(e.astype(np.int32) for e in (source, target)))
            found = self._known[key] = self._policy.schedule(dag)
            self._held += len(nodes)
        return found
