"""The compiled loops behind `plan`."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from abw.core.cell.layout import BROADCAST, CONTIGUOUS, COPIED, STRIDED
from abw.core.ir.network import LISTED
from abw.core.jit.decorators import fragment, njit

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Bools = NDArray[np.bool_]

# Offsets, and what lies between them.
Runs = tuple[Ints, Ints]
# The row of each value; and of each constant its first row in one arena, its references' first and end.
Values = tuple[Ints, Ints, Ints, Ints]

# An operand's rows as against a cell's variables: same numbers, the graph's word for it.
GATHERED = COPIED
STATUS_NAMES = ("contiguous", "strided", "broadcast", "gathered")

# Where counting begins: with a literal numba would compile twice whatever is called with the count.
ZERO: int = cast(int, np.int64(0))


@njit
def fill_plan(
    schedule: tuple[Ints, Ints, Ints],
    graph: tuple[Runs, Runs],
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
    references, members = graph
    slot_arena, output_arena, slots, reduces, reduced = types
    constant_row, constant_first, constant_end = constants
    list_flops, product_flops, other_flops = costs
    loose, reordered = ordering
    rows, base, row = results
    operand_ptr, index_ptr, index = operands
    status, start, stride = forms
    list_ptr, list_end = lists
    width = base.shape[1]
    filled, listed = ZERO, ZERO
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
            _follow(nodes, first, last, slots[t], references, row, reordered)
        for o in range(width):
            arena = output_arena[t, o]
            if not packed:
                base[b, o] = -1
            if arena >= 0 and not packed:
                base[b, o] = rows[arena]
                rows[arena] += lanes
            behind = base[b, o] - first
            for i in range(first, last):
                row[nodes[i] * width + o] = behind + i if arena >= 0 else -1
        for s in range(slots[t]):
            k = operand_ptr[b] + s
            begin = filled
            values = row, constant_row[slot_arena[t, s]], constant_first, constant_end
            if reduces[t] or reduced[t, s]:
                slot = slots[t], s, reduces[t]
                filled = _several(
                    nodes[first:last], slot, references, members, values, index, begin, list_end[listed:]
                )
            else:
                filled = _one_each(nodes[first:last], slots[t], s, references, values, index, begin)
            list_ptr[k] = -1
            several = reduces[t] or filled - begin > lanes
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
def members_read(type_ptr: Ints, reduces: Bools, references: Runs, list_ptr: Ints) -> int:
    """How many values operands are, those of the lists among them counted, which cells alone read."""
    ptr, reference_of = references
    found = len(reference_of)
    for t in range(len(reduces)):
        for k in range(0 if reduces[t] else ptr[type_ptr[t]], 0 if reduces[t] else ptr[type_ptr[t + 1]]):
            number = LISTED - reference_of[k]
            if number >= 0:
                found += list_ptr[number + 1] - list_ptr[number] - 1
    return found


@fragment
def _one_each(
    nodes: Ints, slots: int, s: int, references: Runs, values: Values, index: Ints, filled: int
) -> int:
    """Write the rows of a cell's operands, one a lane, behind the `filled` ones; how many there are then."""
    row = values[0]
    ptr, reference_of = references
    constant = ZERO
    # a type's cells are numbered one after the other, and have as many operands each
    low = ptr[nodes[0]] - nodes[0] * np.int64(slots) + s
    for i in range(len(nodes)):
        reference = reference_of[low + nodes[i] * np.int64(slots)]
        if reference >= 0:
            index[filled + i] = row[reference]
        else:
            constant, index[filled + i] = _row_of_constant(-1 - reference, values, constant)
    return filled + len(nodes)


@fragment
def _several(
    nodes: Ints,
    slot: tuple[int, int, bool],
    references: Runs,
    members: Runs,
    values: Values,
    index: Ints,
    filled: int,
    ends: Ints,
) -> int:
    """Write the rows of operands that may be several a lane, and count the lanes' ends from the first.

    `slot`: how many there are, which it is, and whether it is one run of a reduction's operands, as long as
    the others; else it is an operand or the list that this is.
    """
    row = values[0]
    ptr, reference_of = references
    member_ptr, member_of = members
    slots, s, reduces = slot
    constant, begin = ZERO, filled
    ends[0] = 0
    for i in range(len(nodes)):
        low, links, inside = np.int64(ptr[nodes[i]]), np.int64(1), False
        if reduces:
            # unsigned: the machine's division of those is several times faster
            links = np.int64(np.uint32(ptr[nodes[i] + 1] - low) // np.uint32(slots))
            low += s * links
        else:
            low += s
            if reference_of[low] <= LISTED:
                number = LISTED - reference_of[low]
                low, inside = np.int64(member_ptr[number]), True
                links = member_ptr[number + 1] - low
        for j in range(low, low + links):
            reference = member_of[j] if inside else reference_of[j]
            if reference >= 0:
                index[filled] = row[reference]
            else:
                constant, index[filled] = _row_of_constant(-1 - reference, values, constant)
            filled += 1
        ends[i + 1] = filled - begin
    return filled


@fragment
def _row_of_constant(number: int, values: Values, constant: int) -> tuple[int, int]:
    """Which constant has a number, looked for from the one met last, and the number's row."""
    _, first_row, first, end = values
    constant = range_of(number, first, end, constant)
    return constant, first_row[constant] + number - first[constant]


@fragment
def range_of(number: int | np.integer[Any], first: Ints, end: Ints, last: int) -> int:
    """Which of some ranges `first[i]` to `end[i] - 1` has a number, looked for from the one found last."""
    if not first[last] <= number < end[last]:
        last = 0
        while not first[last] <= number < end[last]:
            last += 1
    return last


@fragment
def _follow(nodes: Ints, begin: int, end: int, slots: int, graph: Runs, row: Ints, reordered: Ints) -> None:
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
            reordered[i] = -1
        for i in range(begin, end):
            at = begin + row[references[reference_ptr[nodes[i]] + s]] - least
            if reordered[at] >= 0:  # two lanes read one row
                return
            reordered[at] = nodes[i]
        for i in range(begin, end):
            nodes[i] = reordered[i]
        return
