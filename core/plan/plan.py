"""A plan: a schedule with its memory, as flat arrays that any executor can walk."""

from __future__ import annotations

from dataclasses import dataclass, replace
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.graph import Graph
from abw.core.plan.arenas import Arenas, arenas_of
from abw.core.plan.counts import Counts, count
from abw.core.plan.kernels import GATHERED, fill_plan, members_read
from abw.core.plan.lifetimes import order_lanes, pack_rows
from abw.core.policy.schedule import Schedule

Ints = NDArray[np.int32]
Floats = NDArray[np.float32]

_TYPES = attrgetter("slot_arena", "output_arena", "slots", "reduces", "reduced")
_COSTS = attrgetter("list_flops", "product_flops", "other_flops")


@dataclass(frozen=True, slots=True)
class Earlier:
    """What lies in an executor's memory when a plan goes on from the runs before it.

    `rows` (A,): so many rows of each arena are taken. Of the m values of earlier runs that the plan's graph
    of n nodes reads, value i has the reference `n * width + i` there, and lies in row `row[i]` of arena
    `arena[i]` (m,); no two share a row. `fields`: whether the graph's fields of vertices are those of the
    first run, and lie there, too; else they get rows of their own. `own` (k * W,): rows of the outputs of the
    graph's first k nodes, where these are not in the schedule, since an earlier run has computed them.
    """

    rows: Ints
    arena: Ints
    row: Ints
    fields: bool = True
    own: Ints | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Plan:
    """B batches over n nodes in A arenas (`arenas`), with K operands; all int32.

    Results. `rows` (A,): rows that each arena needs. `base` (B, W): first row of output o of batch b in arena
    `arenas.output_arena[type, o]`; lane i's result is row `base[b, o] + i`; -1 where a type has no such
    output. `row` (n * W,): where value `v * W + o` lies in the end; -1 where it does not, because its row may
    have been given to another. A plan that keeps all has no row twice. In others a row is given again once
    all its readers have run, and only in a later one of the `sections` (S + 1,): launches `sections[i]` to
    `sections[i + 1] - 1` may be executed part by part (`Schedule.split`).

    Operands. Batch b has the operands `operand_ptr[b]:operand_ptr[b + 1]` (B + 1,), one for each slot of its
    type in order; slot s reads arena `arenas.slot_arena[type, s]`. Operand k reads the rows
    `index[index_ptr[k]:index_ptr[k + 1]]` (K + 1,), lane after lane. `status` (K,): CONTIGUOUS, STRIDED,
    BROADCAST or GATHERED; for all but the last, row j of it is `start[k] + j * stride[k]` (K,).

    Lists. Of a reduction, or where some lane of operand k reads several rows, lane i has the rows
    `lists[list_ptr[k] + i]:lists[list_ptr[k] + i + 1]` of the operand's index array, `list_ptr` (K,); -1
    where each lane of a cell reads one.

    Launches. `launch_ptr` (L + 1,): as in `Schedule`.

    Constants. `constant_row` (A, C): as in `Arenas`, with the rows of the vertices' fields that nodes read.
    `given`: arena, first row and values (rows, size) of these, to be written there before the first batch.

    Earlier runs. `earlier`: what a plan that goes on from them finds in the arenas, and leaves as it is.

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
    sections: Ints
    constant_row: Ints
    product_flops: int
    other_flops: int
    earlier: Earlier | None = None
    given: tuple[tuple[int, int, Floats], ...] = ()

    @property
    def counts(self) -> Counts:
        """What executing it takes where every operand is wanted contiguous. Cost: some 30 us."""
        return count(
            self.graph.network,
            self.arenas,
            (self.schedule.type, self.schedule.ptr),
            (self.operand_ptr, self.index_ptr, self.status, self.list_ptr),
        )

    @property
    def reuses(self) -> bool:
        """Whether rows may be given again."""
        return len(self.sections) > 2

    def __repr__(self) -> str:
        floats = int(self.rows.astype(np.int64) @ self.arenas.row_floats)
        return (
            f"Plan: {len(self.schedule)} batches of {len(self.graph)} nodes, "
            f"{int((self.status == GATHERED).sum())} of {len(self.status)} operands gathered, "
            f"{4 * floats / 1e6:.1f} MB of values, {self.product_flops / 1e6:.1f} MFLOP in products"
        )


# Sections of a schedule in parts: threads wait for each other between them; fewer take more memory.
SECTIONS = 16


def plan(graph: Graph, schedule: Schedule, keep: Ints | None = None, earlier: Earlier | None = None) -> Plan:
    """Lay out a schedule's results in schedule order and find every operand's rows.

    `keep`: the value references that can be read in the end, as `results_of(graph)`; None for all. What is
    not kept is given up after its last reading, and the lanes of batches are put in an order in which more
    can be. Cost: 8 to 15 ns a node where all is kept, and some 15 us. The schedule must be a
    right one (every node once, after its inputs, one type a batch); `check_plan` tells.

    With `earlier` the plan goes on from runs whose values its graph reads: their rows stay, its own follow.
    Raises ValueError for `keep` beside that: what is still wanted is not known.
    """
    if keep is not None and earlier is not None:
        raise ValueError("a plan that goes on from earlier runs keeps all its values")
    arenas = arenas_of(graph.network)
    # those whose results nobody reads may follow what they read, where lanes are ordered anyway
    ordered = keep is not None and schedule.split is None
    loose = arenas.loose.copy() if ordered else np.zeros(len(arenas.loose), np.bool_)
    batches, width = len(schedule), graph.network.width
    launches = schedule.launches
    apart = earlier is not None and not earlier.fields
    head, constant_row, given = fields_of(graph, arenas, earlier.rows if earlier and apart else arenas.head)
    if keep is not None and batches:
        schedule, sections, rows, base = _memory(graph, schedule, launches, arenas, head, keep, loose)
    else:
        sections = np.array([0, len(launches) - 1], np.int32)
        rows = (head if earlier is None or apart else earlier.rows).copy()
        base = np.empty((batches, width), np.int32)
    # at most: what is not needed of them is cut off
    operands, several = batches * arenas.slot_arena.shape[1], arenas.most_reduced
    own = len(graph) * width
    row = np.empty(own + (0 if earlier is None else len(earlier.row)), np.int32)
    if earlier is not None:
        row[own:] = earlier.row
        if earlier.own is not None:
            row[: len(earlier.own)] = earlier.own
    operand_ptr, index_ptr = np.empty(batches + 1, np.int32), np.empty(operands + 1, np.int32)
    references = graph.operand_ptr, graph.operand
    index = np.empty(members_read(graph.type_ptr, arenas.reduces, references, graph.list_ptr), np.int32)
    status, list_ptr = np.empty(operands, np.int32), np.empty(operands, np.int32)
    start, stride = np.empty(operands, np.int32), np.empty(operands, np.int32)
    lists = np.empty((len(graph) + batches) * several, np.int32)
    listed, product_flops, other_flops = fill_plan(
        (schedule.type, schedule.ptr, schedule.nodes),
        (references, (graph.list_ptr, graph.list_operand)),
        _TYPES(arenas),
        (constant_row, arenas.constant_first, arenas.constant_end),
        _COSTS(arenas),
        (loose, np.empty(len(graph), np.int32)),
        keep is not None,
        (rows, base, row),
        (operand_ptr, index_ptr, index),
        (status, start, stride),
        (list_ptr, lists),
    )
    if keep is not None:
        everywhere, row = row, np.full(len(row), -1, np.int32)
        kept = keep[keep >= 0]
        row[kept] = everywhere[kept]
    operands = int(operand_ptr[-1])
    return Plan(
        graph, schedule, arenas, rows, base, row[:own], operand_ptr, index_ptr[: operands + 1], index,
        status[:operands], start[:operands], stride[:operands], list_ptr[:operands], lists[:listed],
        launches, sections, constant_row, product_flops, other_flops, earlier, given,
    )  # fmt: skip


# So many bytes of values a mini-batch may have before it pays to give memory again: that orders all lanes,
# which takes three times as long as the rest of planning, and no kernel gains by it.
GIVEN_AGAIN = 32 << 20


def outputs_to_keep(graph: Graph, times: int = 1) -> Ints | None:
    """What a plan shall keep of a graph of which the outputs alone are wanted; None, for all, of a small one.

    Where the graph stands for `times` as many instances, it is small if those are.
    """
    arenas = arenas_of(graph.network)
    if 4 * len(graph) * arenas.most_floats * times <= GIVEN_AGAIN:  # most are: seen at once
        return None
    values = int(graph.type_sizes @ arenas.value_floats)
    return results_of(graph) if 4 * values * times > GIVEN_AGAIN else None


def results_of(graph: Graph) -> Ints:
    """References of all that the model gives back."""
    return np.concatenate([np.zeros(0, np.int32), *(refs.reference for refs in graph.results)])


def fields_of(
    graph: Graph, arenas: Arenas, taken: Ints
) -> tuple[Ints, Ints, tuple[tuple[int, int, Floats], ...]]:
    """The rows before the first of a node; the first row of each constant in each arena; where fields lie:
    behind the rows that are `taken` (A,).
    """
    if not graph.given:
        return taken, arenas.constant_row, ()
    head, row = taken.copy(), arenas.constant_row.copy()
    given = []
    for c, values in zip(graph.network.given, graph.given, strict=True):
        arena = int(arenas.field_arena[c])
        if arena >= 0:
            row[arena, c] = head[arena]
            given.append((arena, int(head[arena]), values))
            head[arena] += len(values)
    return head, row, tuple(given)


def _memory(
    graph: Graph,
    schedule: Schedule,
    launches: Ints,
    arenas: Arenas,
    head: Ints,
    keep: Ints,
    loose: NDArray[np.bool_],
) -> tuple[Schedule, Ints, Ints, Ints]:
    """The schedule with its lanes ordered; its sections; the arenas' rows; the base of every result."""
    unit_ptr = schedule.ptr
    sections = np.arange(len(launches), dtype=np.int32)
    if schedule.split is not None:
        unit_ptr = np.append(schedule.ptr[:-1, None] + schedule.split[:, :-1], schedule.ptr[-1:])
        lanes = schedule.ptr[launches]
        ends = np.searchsorted(lanes, np.arange(1, SECTIONS) * len(graph) // SECTIONS)
        sections = np.unique(np.concatenate([[0], ends, sections[-1:]])).astype(np.int32)
    nodes, free = order_lanes(schedule, unit_ptr, graph, arenas, keep, loose)
    schedule = replace(schedule, nodes=nodes)
    rows, base = pack_rows(schedule, launches[sections], free, arenas, head, graph.network.width)
    return schedule, sections, rows, base
