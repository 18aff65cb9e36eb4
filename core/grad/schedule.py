"""The schedule of a training graph: the forward one, and behind it the same batches last to first.

A chain of nodes of one type has no direction, so the reversed schedule is as near its lower bound as the
forward one. Cost: some nanoseconds a node.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.grad.graph import TrainingGraph
from abw.core.grad.program import program_of
from abw.core.jit.decorators import fragment, njit
from abw.core.policy.schedule import Schedule

Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]


def training_schedule(made: TrainingGraph, forward: Schedule, done: Bools | None = None) -> Schedule:
    """The batches of `forward`, then for each of its launches, last to first, those of its backward pass.

    The parts of a reduction follow one another; what a launch has of one part is a launch. Of the forward
    pass nodes that are `done` (forward,) are left out. Cost: O(n).
    """
    program, graph = program_of(made.training), made.graph
    batches = len(forward) * (1 + program.most) + (len(forward.launches) + 1) * len(program.groups)
    kinds, nodes = np.empty(batches, np.int32), np.empty(len(graph), np.int32)
    ptr, launches = np.empty(batches + 1, np.int32), np.empty(batches + 1, np.int32)
    count, launched = _both(
        (forward.type, forward.ptr, forward.nodes, forward.launches),
        np.zeros(made.forward, np.bool_) if done is None else done,
        (program.slots, program.part_ptr, program.edge, program.summing),
        (program.groups, program.group, program.feeds, *made.of_values),
        (graph.type_ptr, graph.operand_ptr, made.sum_node),
        made.training.source.width.bit_length() - 1,
        (kinds, ptr, nodes, launches),
    )
    launch_ptr = launches[: launched + 1] if forward.launch_ptr is not None else None
    return Schedule(kinds[:count], ptr[: count + 1], nodes[: ptr[count]], forward.unseen, launch_ptr)


@njit
def _both(
    schedule: tuple[Ints, Ints, Ints, Ints],
    done: Bools,
    program: tuple[Ints, Ints, Bools, Ints],
    groups: tuple[Ints, Ints, Bools, Ints, Ints],
    graph: tuple[Ints, Ints, Ints],
    shift: int,
    made: tuple[Ints, Ints, Ints, Ints],
) -> tuple[int, int]:
    """Fill types, offsets, nodes and launches of all batches; how many batches and launches."""
    batch_type, batch_ptr, batch_nodes, launch_ptr = schedule
    slots, part_ptr, edge, sums = program
    of_values, group, feeds, number, ends = groups
    type_ptr, operand_ptr, sum_node = graph
    kinds, ptr, nodes, launches = made
    count, launched, filled = 0, 0, 0
    ptr[0] = launches[0] = 0
    for launch in range(len(launch_ptr) - 1):
        for b in range(launch_ptr[launch], launch_ptr[launch + 1]):
            for i in range(batch_ptr[b], batch_ptr[b + 1]):
                if not done[batch_nodes[i]]:
                    nodes[filled] = batch_nodes[i]
                    filled += 1
            if filled > ptr[count]:
                kinds[count] = batch_type[b]
                count += 1
                ptr[count] = filled
        launched = _ended(launches, launched, count)
    for launch in range(len(launch_ptr) - 2, -1, -1):
        low, high = launch_ptr[launch], launch_ptr[launch + 1]
        longest = 0
        for b in range(low, high):
            longest = max(longest, part_ptr[batch_type[b] + 1] - part_ptr[batch_type[b]])
        for g in range(len(of_values)):
            for b in range(low, high):
                for o in range(feeds.shape[2] if feeds[g, batch_type[b]].any() else 0):
                    for i in range(batch_ptr[b], batch_ptr[b + 1]):
                        node = number[g, (batch_nodes[i] << shift) + o] - 1
                        if node >= 0:
                            nodes[filled] = type_ptr[of_values[g, 0]] + node
                            filled += 1
            if filled > ptr[count]:
                kinds[count] = of_values[g, 0]
                count += 1
                ptr[count] = filled
        launched = _ended(launches, launched, count)
        for b in range(low, high):
            t = batch_type[b]
            for o in range(sums.shape[1]):
                if sums[t, o] >= 0:
                    for i in range(batch_ptr[b], batch_ptr[b + 1]):
                        node = sum_node[(batch_nodes[i] << shift) + o]
                        if node >= 0:
                            nodes[filled] = node
                            filled += 1
                if filled > ptr[count]:
                    kinds[count] = sums[t, o]
                    count += 1
                    ptr[count] = filled
        launched = _ended(launches, launched, count)
        for step in range(longest):
            for b in range(low, high):
                t = batch_type[b]
                k = part_ptr[t] + step
                if k >= part_ptr[t + 1] or group[k - len(slots)] >= 0:
                    continue
                first = operand_ptr[type_ptr[t]]
                for i in range(batch_ptr[b], batch_ptr[b + 1]):
                    v = batch_nodes[i]
                    if not edge[k - len(slots)]:
                        nodes[filled] = type_ptr[k] + v - type_ptr[t]
                        filled += 1
                        continue
                    begin = np.uint32(operand_ptr[v] - first) // np.uint32(slots[t])
                    end = np.uint32(operand_ptr[v + 1] - first) // np.uint32(slots[t])
                    for e in range(np.int64(begin), np.int64(end)):
                        nodes[filled] = type_ptr[k] + e
                        filled += 1
                kinds[count] = k
                count += 1
                ptr[count] = filled
            launched = _ended(launches, launched, count)
    for g in range(len(of_values)):  # of constants
        first = type_ptr[of_values[g, 0]]
        for node in range(first + ends[g, 0], first + ends[g, 1]):
            nodes[filled] = node
            filled += 1
        if filled > ptr[count]:
            kinds[count] = of_values[g, 0]
            count += 1
            ptr[count] = filled
    launched = _ended(launches, launched, count)
    return count, launched


@fragment
def _ended(launches: Ints, launched: int, count: int) -> int:
    """End a launch before batch `count`, unless it has none; how many have ended by then."""
    if launches[launched] == count:
        return launched
    launches[launched + 1] = count
    return launched + 1
