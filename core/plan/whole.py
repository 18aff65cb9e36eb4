"""The memory of a whole mini-batch as one layout problem, whose variables are the values of its nodes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.graph import Graph
from abw.core.graph.network import LISTED, Network
from abw.core.plan.arenas import arenas_of
from abw.core.policy.schedule import Schedule
from abw.pqtree import Layout, Status, declared_layout, plan_layout

Longs = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class WholeGraph:
    """What `abw.pqtree` is asked about a mini-batch.

    Variable i is the value `values[i]` (a reference, see `Network.width`), numbered in the order in which the
    schedule computes them; `sizes` are in bytes, `arenas` those of the plan. `batches` has for each batch of
    the schedule its results and those sources that read computed values alone. Left out, as no order of the
    values frees them: `constant_lanes` of the slots that read words or initial states, and `list_lanes` of
    reductions and of slots that read lists; `fixed[b]` are these slots of a cell.
    """

    values: Longs
    sizes: tuple[int, ...]
    arenas: tuple[int, ...]
    batches: tuple[tuple[tuple[int, ...], ...], ...]
    fixed: tuple[frozenset[int], ...]
    constant_lanes: int
    list_lanes: int

    @property
    def lanes(self) -> int:
        """Operand lanes, results included."""
        return sum(len(operand) for batch in self.batches for operand in batch)

    def result_contiguous(self) -> Layout:
        """The results of each batch side by side, batch after batch: DyNet's layout, and that of `plan`."""
        return declared_layout(self.sizes, self.batches, arenas=self.arenas)

    def planned(self, time_limit: float = 0.0) -> Layout:
        """The layout with the most bytes free of copies that is found: greedily, the largest operands first.

        Launches count nothing, so that many small operands are worth as much as a large one. Cost: 60 to
        250 us a value.
        """
        return plan_layout(self.sizes, self.batches, arenas=self.arenas, launch=0, time_limit=time_limit)


def free_lanes(layout: Layout) -> int:
    """Operand lanes that are read or written where they lie."""
    return sum(len(o.slots) for batch in layout.operands for o in batch if o.status is not Status.COPIED)


def whole_graph(graph: Graph, schedule: Schedule) -> WholeGraph:
    """The layout problem of a mini-batch. Linear in its operands."""
    network, arenas = graph.network, arenas_of(graph.network)
    number: dict[int, int] = {}
    home: list[int] = []
    batches: list[tuple[tuple[int, ...], ...]] = []
    fixed: list[frozenset[int]] = []
    constant = listed = 0
    for b, t in enumerate(schedule.type.tolist()):
        nodes = schedule.nodes[schedule.ptr[b] : schedule.ptr[b + 1]].astype(np.int64)
        operands = []
        for o in range(len(network.types[t].outputs)):
            values = (nodes * network.width + o).tolist()
            for value in values:
                number[value] = len(number)
                home.append(int(arenas.output_arena[t, o]))
            operands.append(tuple([number[value] for value in values]))
        begins = graph.operand_ptr[nodes]
        outside = set()
        if network.types[t].cell is None:
            listed += int((graph.operand_ptr[nodes + 1] - begins).sum())
        else:
            for s in range(len(network.types[t].slots)):
                read = graph.operand[begins + s].tolist()
                if min(read) <= LISTED:
                    listed += sum(len(graph.values_of(reference)) for reference in read)
                    outside.add(s)
                elif min(read) < 0:
                    constant += len(read)
                    outside.add(s)
                else:
                    operands.append(tuple([number[value] for value in read]))
        batches.append(tuple(operands))
        fixed.append(frozenset(outside))
    return WholeGraph(
        np.fromiter(number, np.int64, len(number)),
        tuple([4 * int(arenas.row_floats[a]) for a in home]),
        tuple(home),
        tuple(batches),
        tuple(fixed),
        constant,
        listed,
    )


def inner_types(network: Network) -> frozenset[int]:
    """The types whose results some type reads."""
    return frozenset(t for some in network.types for slot in some.slots for t, _ in slot.producers)


def split_by_producers(graph: Graph, schedule: Schedule, least: int) -> Schedule:
    """Split batches of cells so that every operand of at least `least` lanes comes from one batch.

    Lanes whose operands come from the same batches, slot by slot, stay together; groups of fewer lanes than
    `least` stay together with each other. An operand whose lanes come from several batches cannot be
    contiguous while the results of these are, so splitting trades launches for copies. Types that no other
    type reads stay whole: their lanes can follow any order. Linear, apart from sorting.
    """
    network = graph.network
    read_by_others = inner_types(network)
    made = np.full(len(graph) * network.width, -1, np.int64)  # the new batch that computes a value
    types: list[int] = []
    parts: list[NDArray[np.int32]] = []
    for b, t in enumerate(schedule.type.tolist()):
        nodes = schedule.nodes[schedule.ptr[b] : schedule.ptr[b + 1]]
        slots = len(network.types[t].slots)
        pieces = [nodes]
        if t in read_by_others and network.types[t].cell is not None and slots and len(nodes) > least:
            read = graph.operand[graph.operand_ptr[nodes][:, None] + np.arange(slots)]
            _, group, size = np.unique(
                np.where(read >= 0, made[np.maximum(read, 0)], -1),
                axis=0,
                return_inverse=True,
                return_counts=True,
            )
            group = group.reshape(-1)
            few = size[group] < least
            pieces = [nodes[group == g] for g in np.flatnonzero(size >= least)]
            pieces += [nodes[few]] if few.any() else []
        for piece in pieces:
            for o in range(len(network.types[t].outputs)):
                made[piece.astype(np.int64) * network.width + o] = len(types)
            types.append(t)
            parts.append(piece)
    ptr = np.zeros(len(parts) + 1, np.int32)
    np.cumsum([len(piece) for piece in parts], out=ptr[1:])
    nodes = np.concatenate(parts) if parts else schedule.nodes
    return Schedule(np.array(types, np.int32), ptr, nodes, schedule.unseen)
