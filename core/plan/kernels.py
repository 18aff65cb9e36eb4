"""The compiled loops behind `plan`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.cell.layout import BROADCAST, CONTIGUOUS, COPIED, STRIDED
from abw.core.jit import njit

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Bools = NDArray[np.bool_]

GATHERED = COPIED
"""An operand's rows as against a cell's variables: same numbers, the graph's word for it."""
STATUS_NAMES = ("contiguous", "strided", "broadcast", "gathered")


@njit
def fill_plan(
    schedule: tuple[Ints, Ints, Ints],
    graph: tuple[Ints, Ints],
    types: tuple[Ints, Ints, Ints, Ints, Bools],
    constants: tuple[Ints, Ints, Ints],
    rows: Ints,
    results: tuple[Ints, Ints],
    operands: tuple[Ints, Ints, Ints],
    forms: tuple[Ints, Ints, Ints],
    lists: tuple[Ints, Ints],
) -> None:
    """Fill the arrays of a `Plan` (see there for each; `plan` allocates them).

    One pass over the batches in order: give rows to the results, then look up the rows of the operands,
    whose producers have theirs by then. A reference to a constant is looked up among the constants, from the
    one met last.
    """
    batch_type, batch_ptr, nodes = schedule
    reference_ptr, references = graph
    output_arena, slot_arena, outputs, slots, reduces = types
    constant_row, constant_first, constant_end = constants
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
        for o in range(outputs[t]):
            arena = output_arena[t, o]
            base[b, o] = rows[arena]
            for i in range(first, last):
                row[nodes[i] * width + o] = rows[arena] + i - first
            rows[arena] += last - first
        if reduces[t]:
            list_ptr[b] = listed
            list_end[listed] = 0
            for i in range(first, last):
                links = (reference_ptr[nodes[i] + 1] - reference_ptr[nodes[i]]) // slots[t]
                list_end[listed + 1] = list_end[listed] + links
                listed += 1
            listed += 1
        for s in range(slots[t]):
            k = operand_ptr[b] + s
            begin = filled
            arena = slot_arena[t, s]
            for i in range(first, last):
                position = reference_ptr[nodes[i]] + s
                links = 1
                if reduces[t]:
                    links = (reference_ptr[nodes[i] + 1] - reference_ptr[nodes[i]]) // slots[t]
                    position = reference_ptr[nodes[i]] + s * links
                for j in range(position, position + links):
                    reference = references[j]
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


@njit
def count_plan(
    schedule: tuple[Ints, Ints],
    operands: tuple[Ints, Ints, Ints],
    types: tuple[Ints, Ints, Ints, Bools, Bools],
    costs: tuple[Longs, Longs, Longs, Longs, Longs],
) -> tuple[int, int, int, int, int, int]:
    """The fields of `Counts`, then the arithmetic of a plan, of the arrays that `fill_plan` has filled."""
    batch_type, batch_ptr = schedule
    operand_ptr, index_ptr, status = operands
    slot_arena, row_floats, slots, reduces, staged = types
    launches, copies, copied_floats, product_flops, other_flops = costs
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
            if status[k] != CONTIGUOUS or staged[t, s]:
                kernels += 1
                floats += rows * size
            if reduces[t]:
                # k operands take k - 1 additions or comparisons a float
                others += (rows - lanes) * size
    return len(batch_type), launched, kernels, 4 * floats, products, others
