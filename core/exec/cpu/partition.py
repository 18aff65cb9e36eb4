"""Instances in parts for threads: lanes sorted so that each thread has a range of every batch to itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.graph import Graph
from abw.core.ir.network import LISTED
from abw.core.jit.decorators import njit
from abw.core.plan.arenas import arenas_of
from abw.core.policy.schedule import Schedule

Ints = NDArray[np.int32]

# The least arithmetic of a run that threads share: some 0.2 ms; waking one takes 0.03 ms.
APART_FLOPS = 20_000_000
# From here on there are two parts for each thread, so that one that is held up leaves more to others.
HALVES_FLOPS = 400_000_000


def sort(graph: Graph, schedule: Schedule, parts: int) -> Schedule | None:
    """The lanes of each batch by their instances' part; None where a part would wait for another.

    Cost: some 10 ns a node.
    """
    if graph.distinct is not None and graph.distinct.part is not None:
        part = graph.distinct.part
        parts = int(part.max()) + 1
    else:
        part = divide(np.bincount(graph.instance, minlength=graph.instances), parts)
    nodes = np.empty_like(schedule.nodes)
    split = np.zeros((len(schedule), parts + 1), np.int32)
    lists = graph.operand_ptr, graph.operand, graph.list_ptr, graph.list_operand
    lanes = schedule.ptr, schedule.nodes
    apart = _sort(lanes, graph.instance, lists, graph.network.width, part, nodes, split)
    return replace(schedule, nodes=nodes, split=split) if apart else None


def divide(sizes: NDArray[np.int64], parts: int) -> Ints:
    """The part of each instance: runs of instances with about equally many nodes.

    Where the largest run is a tenth too long, as with few instances, each goes where the fewest nodes are,
    the largest first.
    """
    # an instance belongs where its middle lies
    middles = 2 * np.cumsum(sizes) - sizes
    part: Ints = np.minimum(middles * parts // max(1, 2 * int(sizes.sum())), parts - 1).astype(np.int32)
    if np.bincount(part, sizes, parts).max() * parts > 1.1 * sizes.sum():
        loads = [0] * parts
        for instance in np.argsort(-sizes, kind="stable").tolist():
            part[instance] = least = loads.index(min(loads))
            loads[least] += int(sizes[instance])
    return part


def shared_out(graph: Graph, schedule: Schedule, threads: int) -> Schedule:
    """The lanes sorted by the thread that will compute them, where several share this graph's run."""
    parts = _parts(graph, threads)
    return (sort(graph, schedule, parts) if parts > 1 else None) or schedule


def parts_of(graph: Graph, threads: int) -> Ints | None:
    """The part of each instance, where several threads will share this graph's run; else None."""
    parts = _parts(graph, threads)
    return divide(np.bincount(graph.instance, minlength=graph.instances), parts) if parts > 1 else None


def _parts(graph: Graph, threads: int) -> int:
    """In how many parts the instances are computed."""
    if threads == 1 or graph.instances == 1:
        return 1
    flops = int(graph.type_sizes @ arenas_of(graph.network).product_flops)
    if flops < APART_FLOPS:
        return 1
    return min(graph.instances, threads * (2 if flops >= HALVES_FLOPS else 1))


def compile_sort() -> None:
    """Compile what sorts now, not amid the first mini-batch."""
    nothing = np.empty(0, np.int32)
    _sort((nothing,) * 2, nothing, (nothing,) * 4, 1, nothing, nothing, np.empty((0, 1), np.int32))


@njit
def _sort(
    lanes: tuple[Ints, Ints],
    instance: Ints,
    operands: tuple[Ints, Ints, Ints, Ints],
    width: int,
    part: Ints,
    nodes: Ints,
    split: Ints,
) -> bool:
    """Sort each batch's lanes by counting them; whether no part reads of another.

    `lanes`: `ptr` and `nodes` of a schedule; `operands`: a graph's `operand_ptr`, `operand`, `list_ptr`,
    `list_operand`; `part` of each instance. `nodes` and `split`, which is 0, become those of the schedule.
    """
    ptr, scheduled = lanes
    operand_ptr, operand, list_ptr, lists = operands
    own = len(instance) * width
    for b in range(len(split)):
        row = split[b]
        for i in range(ptr[b], ptr[b + 1]):
            row[part[instance[scheduled[i]]] + 1] += 1
        for p in range(1, len(row)):
            row[p] += row[p - 1]
        for i in range(ptr[b], ptr[b + 1]):
            node = scheduled[i]
            mine = part[instance[node]]
            nodes[ptr[b] + row[mine]] = node
            row[mine] += 1
            for k in range(operand_ptr[node], operand_ptr[node + 1]):
                reference = operand[k]
                first, last, values = k, k + 1, operand
                if reference <= LISTED:
                    number = LISTED - reference
                    first, last, values = list_ptr[number], list_ptr[number + 1], lists
                for m in range(first, last):
                    # neither constants nor, behind the graph's own, the values of earlier runs
                    if 0 <= values[m] < own and part[instance[values[m] // width]] != mine:
                        return False
        for p in range(len(row) - 1, 0, -1):  # each beginning was moved to its end, where the next one begins
            row[p] = row[p - 1]
        row[0] = 0
    return True
