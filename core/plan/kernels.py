"""The compiled loops behind `plan`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.base.jit import njit
from abw.core.cell.layout import BROADCAST, CONTIGUOUS, COPIED, STRIDED
from abw.core.ir.network import LISTED

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Bools = NDArray[np.bool_]

GATHERED = COPIED
"""An operand's rows as against a cell's variables: same numbers, the graph's word for it."""
STATUS_NAMES = ("contiguous", "strided", "broadcast", "gathered")


@njit
def fill_plan(
    schedule: tuple[Ints, Ints, Ints],
    graph: tuple[Ints, Ints, Ints, Ints],
    types: tuple[Ints, Ints, Ints, Bools, Bools],
    constants: tuple[Ints, Ints, Ints],
    costs: tuple[Ints, Longs, Longs],
    ordering: tuple[Bools, Ints],
    packed: bool,
    results: tuple[Ints, Ints, Ints],
    operands: tuple[Ints, Ints, Ints],
    forms: tuple[Ints, Ints, Ints],
    lists: tuple[Ints, Ints],
) -> tuple[int, int, int]:
    """Fill the arrays of a `Plan` (see there for each; `plan` allocates them).

    One pass over the batches in order: number the rows of the results from `base` on, then look up the rows
    of the operands, whose producers have theirs by then. Unless the results are `packed`, `base` is filled,
    too: one block behind the other. A reference to a constant is looked up among the constants, from the one
    met last. What a lane reads in a slot: of a cell its operand, or the list that it is; of a reduction a run
    of its operands. Batches of `loose` types (T,) may have their lanes, `nodes`, put in the order in which
    they read. The result: how long `lists` is; the arithmetic of products and of all else.
    """
    batch_type, batch_ptr, nodes = schedule
    reference_ptr, references, member_ptr, members = graph
    slot_arena, output_arena, slots, reduces, reduced = types
    constant_row, constant_first, constant_end = constants
    list_flops, product_flops, other_flops = costs
    loose, spare = ordering
    rows, base, row = results
    operand_ptr, index_ptr, index = operands
    status, start, stride = forms
    list_ptr, list_end = lists
    width = base.shape[1]
    filled, listed, constant = 0, 0, 0
    products, others = 0, 0
    operand_ptr[0] = index_ptr[0] = 0
    for b in range(len(batch_type)):
        t = batch_type[b]
        first, last = batch_ptr[b], batch_ptr[b + 1]
        lanes = last - first
        operand_ptr[b + 1] = operand_ptr[b] + slots[t]
        products += lanes * product_flops[t]
        others += lanes * other_flops[t]
        if loose[t]:
            _follow(nodes, first, last, slots[t], (reference_ptr, references), row, spare)
        for o in range(width):
            arena = output_arena[t, o]
            if not packed:
                base[b, o] = -1
            if arena >= 0 and not packed:
                base[b, o] = rows[arena]
                rows[arena] += lanes
            for i in range(first, last):
                row[nodes[i] * width + o] = base[b, o] + i - first if arena >= 0 else -1
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
            several = filled - begin > lanes
            if several:
                list_ptr[k] = listed
                listed += lanes + 1
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
            if several:
                others += (filled - begin - lanes) * list_flops[t, s]
    return listed, products, others


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
