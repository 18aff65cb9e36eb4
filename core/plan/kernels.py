"""The compiled loops behind `plan`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.cell.layout import BROADCAST, CONTIGUOUS, COPIED, STRIDED
from abw.core.graph.network import LISTED
from abw.core.jit import inner, njit

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Bools = NDArray[np.bool_]

Types = tuple[Ints, Ints, Ints, Bools, Bools]
"""Of `Arenas`: `slot_arena`, `outputs`, `slots`, `reduces`, `reduced`."""
Costs = tuple[Ints, Bools, Longs, Longs, Longs, Longs, Longs]
"""Of `Arenas`: `row_floats`, `staged`, and the counts of each type."""

GATHERED = COPIED
"""An operand's rows as against a cell's variables: same numbers, the graph's word for it."""
STATUS_NAMES = ("contiguous", "strided", "broadcast", "gathered")


@njit
def measure_plan(
    type: Ints, ptr: Ints, references: Ints, member_ptr: Ints, slots: Ints, reduced: Bools, operand_ptr: Ints
) -> tuple[int, int]:
    """Fill a plan's `operand_ptr`; how long its `index` is, and its `lists` at most."""
    operand_ptr[0] = 0
    listed = 0
    for b in range(len(type)):
        t = type[b]
        operand_ptr[b + 1] = operand_ptr[b] + slots[t]
        for s in range(slots[t]):
            if reduced[t, s]:
                listed += ptr[b + 1] - ptr[b] + 1
    rows = len(references)
    for i in range(rows if len(member_ptr) > 1 else 0):
        if references[i] <= LISTED:
            number = LISTED - references[i]
            rows += member_ptr[number + 1] - member_ptr[number] - 1
    return rows, listed


@njit
def fill_plan(
    schedule: tuple[Ints, Ints, Ints],
    graph: tuple[Ints, Ints, Ints, Ints],
    types: Types,
    constants: tuple[Ints, Ints, Ints],
    costs: Costs,
    ordering: tuple[Bools, Ints],
    results: tuple[Ints, Ints],
    operands: tuple[Ints, Ints, Ints],
    forms: tuple[Ints, Ints, Ints],
    lists: tuple[Ints, Ints],
) -> tuple[int, int, int, int, int, int]:
    """Fill the arrays of a `Plan` (see there for each; `plan` allocates them); how long `lists` is, then what
    `_count` counts.

    One pass over the batches in order: number the rows of the results from `base` on, then look up the rows
    of the operands, whose producers have theirs by then. A reference to a constant is looked up among the
    constants, from the one met last. What a lane reads in a slot: of a cell its operand, or the list that it
    is; of a reduction a run of its operands. Batches of `loose` types (T,) may have their lanes, `nodes`, put
    in the order in which they read.
    """
    batch_type, batch_ptr, nodes = schedule
    reference_ptr, references, member_ptr, members = graph
    slot_arena, outputs, slots, reduces, reduced = types
    constant_row, constant_first, constant_end = constants
    loose, spare = ordering
    base, row = results
    operand_ptr, index_ptr, index = operands
    status, start, stride = forms
    list_ptr, list_end = lists
    width = base.shape[1]
    filled = 0
    listed = 0
    constant = 0
    index_ptr[0] = 0
    for b in range(len(batch_type)):
        t = batch_type[b]
        first, last = batch_ptr[b], batch_ptr[b + 1]
        if loose[t]:
            _follow(nodes, first, last, slots[t], (reference_ptr, references), row, spare)
        for o in range(width):
            for i in range(first, last):
                row[nodes[i] * width + o] = base[b, o] + i - first if o < outputs[t] else -1
        for s in range(slots[t]):
            k = operand_ptr[b] + s
            begin = filled
            arena = slot_arena[t, s]
            if reduced[t, s]:
                list_end[listed] = 0
            for i in range(first, last):
                inside = False
                position = reference_ptr[nodes[i]] + s
                links = 1
                if reduces[t]:
                    links = (reference_ptr[nodes[i] + 1] - reference_ptr[nodes[i]]) // slots[t]
                    position = reference_ptr[nodes[i]] + s * links
                elif references[position] <= LISTED:
                    number = LISTED - references[position]
                    inside = True
                    position = member_ptr[number]
                    links = member_ptr[number + 1] - position
                for j in range(position, position + links):
                    reference = members[j] if inside else references[j]
                    if reference >= 0:
                        index[filled] = row[reference]
                    else:
                        number = -1 - reference
                        if not constant_first[constant] <= number < constant_end[constant]:
                            constant = 0
                            while not constant_first[constant] <= number < constant_end[constant]:
                                constant += 1
                        index[filled] = constant_row[arena, constant] + number - constant_first[constant]
                    filled += 1
                if reduced[t, s]:
                    list_end[listed + i - first + 1] = filled - begin
            list_ptr[k] = -1
            if filled - begin > last - first:
                list_ptr[k] = listed
                listed += last - first + 1
            index_ptr[k + 1] = filled
            step = index[begin + 1] - index[begin] if filled > begin + 1 else 1
            even = True
            for j in range(begin + 2, filled):
                if index[j] - index[j - 1] != step:
                    even = False
                    break
            start[k] = index[begin]
            stride[k] = step
            if not even:
                status[k] = GATHERED
            elif step == 1:
                status[k] = CONTIGUOUS
            elif step == 0:
                status[k] = BROADCAST
            else:
                status[k] = STRIDED
    counts = _count((batch_type, batch_ptr), (operand_ptr, index_ptr, status, list_ptr), types, costs)
    return listed, *counts


@njit
def _follow(
    nodes: Ints, begin: int, end: int, slots: int, graph: tuple[Ints, Ints], row: Ints, spare: Ints
) -> None:
    """Put lanes in the order of the rows that a slot reads: the first that reads rows without a gap."""
    reference_ptr, references = graph
    for s in range(slots):
        least, most = len(row), -1
        for i in range(begin, end):
            reference = references[reference_ptr[nodes[i]] + s]
            if reference < 0:
                least, most = -1, len(row)
                break
            least, most = min(least, row[reference]), max(most, row[reference])
        if most - least + 1 != end - begin:
            continue
        for i in range(begin, end):
            spare[i] = -1
        for i in range(begin, end):
            at = begin + row[references[reference_ptr[nodes[i]] + s]] - least
            if spare[at] >= 0:  # two lanes read one row
                return
            spare[at] = nodes[i]
        for i in range(begin, end):
            nodes[i] = spare[i]
        return


@njit
def copy_rows(row: Ints, keep: Ints, kept: Ints) -> None:
    """Write the rows of the values to keep to their places in `kept`."""
    for i in range(len(keep)):
        if keep[i] >= 0:
            kept[keep[i]] = row[keep[i]]


@inner
def _count(
    schedule: tuple[Ints, Ints], operands: tuple[Ints, Ints, Ints, Ints], types: Types, costs: Costs
) -> tuple[int, int, int, int, int]:
    """Launches, memory kernels and bytes moved, as in `Counts`, then the arithmetic of a plan."""
    batch_type, batch_ptr = schedule
    operand_ptr, index_ptr, status, list_ptr = operands
    slot_arena, _, slots, reduces, _ = types
    row_floats, staged, launches, copies, copied_floats, product_flops, other_flops = costs
    launched, kernels, floats, products, others = 0, 0, 0, 0, 0
    for b in range(len(batch_type)):
        t = batch_type[b]
        lanes = batch_ptr[b + 1] - batch_ptr[b]
        launched += launches[t]
        kernels += copies[t]
        floats += lanes * copied_floats[t]
        products += lanes * product_flops[t]
        others += lanes * other_flops[t]
        for s in range(slots[t]):
            k = operand_ptr[b] + s
            rows = index_ptr[k + 1] - index_ptr[k]
            size = row_floats[slot_arena[t, s]]
            listed = list_ptr[k] >= 0
            if status[k] != CONTIGUOUS or (staged[t, s] and not listed):
                kernels += 1
                floats += rows * size
            if listed:
                # k operands take k - 1 additions or comparisons a float
                others += (rows - lanes) * size
                launched += not reduces[t]
    return launched, kernels, 4 * floats, products, others
