"""A plan: a schedule with its memory, as flat arrays that any executor can walk."""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.graph import Graph
from abw.core.graph.network import LISTED
from abw.core.plan.arenas import Arenas, arenas_of
from abw.core.plan.kernels import count_plan, fill_plan
from abw.core.policy.schedule import Schedule

Ints = NDArray[np.int32]

_OF_TYPES = attrgetter("output_arena", "slot_arena", "outputs", "slots", "reduces", "reduced")


@dataclass(frozen=True, slots=True)
class Counts:
    """What executing a plan takes, for an executor that wants every operand contiguous.

    `launches`: batches of operations (a reduction: one a slot), and operands that are reduced for a cell.
    `memory_kernels`: gathers and copies, each one operand of one batch. `bytes_moved`: what they write.
    """

    batches: int
    launches: int
    memory_kernels: int
    bytes_moved: int


@dataclass(frozen=True, slots=True)
class Plan:
    """B batches over n nodes in A arenas (`arenas`), with K operands; all int32.

    Results. `rows` (A,): rows that each arena needs. `base` (B, W): first row of output o of batch b in arena
    `arenas.output_arena[type, o]`; lane i's result is row `base[b, o] + i`; -1 where a type has no such
    output. `row` (n * W,): the same by value reference: the row of value `v * W + o`.

    Operands. Batch b has the operands `operand_ptr[b]:operand_ptr[b + 1]` (B + 1,), one for each slot of its
    type in order; slot s reads arena `arenas.slot_arena[type, s]`. Operand k reads the rows
    `index[index_ptr[k]:index_ptr[k + 1]]` (K + 1,), lane after lane. `status` (K,): CONTIGUOUS, STRIDED,
    BROADCAST or GATHERED; for all but the last, row j of it is `start[k] + j * stride[k]` (K,).

    Lists. Where some lane of operand k reads several rows, lane i has the rows
    `lists[list_ptr[k] + i]:lists[list_ptr[k] + i + 1]` of the operand's index array, `list_ptr` (K,); -1
    where each lane reads one.

    Launches. `launch_ptr` (L + 1,): as in `Schedule`.

    Arithmetic: `product_flops` of matrix products, 2 for a multiply-add; `other_flops`, 1 an element.
    """

    graph: Graph
    schedule: Schedule
    arenas: Arenas
    rows: Ints
    base: Ints
    row: Ints
    operand_ptr: Ints
    index_ptr: Ints
    index: Ints
    status: Ints
    start: Ints
    stride: Ints
    list_ptr: Ints
    lists: Ints
    launch_ptr: Ints
    counts: Counts
    product_flops: int
    other_flops: int


def plan(graph: Graph, schedule: Schedule) -> Plan:
    """Lay out a schedule's results in schedule order and find every operand's rows.

    Cost: under 30 ns a node on trees and lattices, and a few microseconds. The schedule must be a right one
    (every node once, after its inputs, one type a batch); `check_plan` tells.
    """
    arenas = arenas_of(graph.network)
    width = graph.network.width
    slots = arenas.slots[schedule.type]
    operand_ptr = np.zeros(len(schedule) + 1, np.int32)
    np.cumsum(slots, out=operand_ptr[1:])
    operands = int(operand_ptr[-1])
    rows = arenas.head.copy()
    base = np.full((len(schedule), width), -1, np.int32)
    row = np.full(len(graph) * width, -1, np.int32)
    index_ptr = np.empty(operands + 1, np.int32)
    members = np.diff(graph.list_ptr)
    wanted = LISTED - graph.operand[graph.operand <= LISTED] if len(members) else members
    index = np.empty(len(graph.operand) + int((members[wanted] - 1).sum()), np.int32)
    status, start, stride = (np.empty(operands, np.int32) for _ in range(3))
    list_ptr = np.full(operands, -1, np.int32)
    several = arenas.reduced.sum(axis=1)[schedule.type]
    lists = np.empty(int(((np.diff(schedule.ptr) + 1) * several).sum()), np.int32)
    listed = fill_plan(
        (schedule.type, schedule.ptr, schedule.nodes),
        (graph.operand_ptr, graph.operand, graph.list_ptr, graph.list_operand),
        _OF_TYPES(arenas),
        (arenas.constant_row, arenas.constant_first, arenas.constant_end),
        rows,
        (base, row),
        (operand_ptr, index_ptr, index),
        (status, start, stride),
        (list_ptr, lists),
    )
    *counts, product_flops, other_flops = count_plan(
        (schedule.type, schedule.ptr),
        (operand_ptr, index_ptr, status, list_ptr),
        (arenas.slot_arena, arenas.row_floats, arenas.slots, arenas.reduces, arenas.staged),
        (arenas.launches, arenas.copies, arenas.copied_floats, arenas.product_flops, arenas.other_flops),
    )
    return Plan(
        graph, schedule, arenas, rows, base, row, operand_ptr, index_ptr, index, status, start, stride,
        list_ptr, lists[:listed], schedule.launches, Counts(*counts), product_flops, other_flops,
    )  # fmt: skip
