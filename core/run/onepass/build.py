"""The stages that construct the graph of bound instances, and leave out nodes which equal others:
`abw.core.graph.construct` and `abw.core.graph.equal.dedup`, in the block.
"""

from __future__ import annotations

from abw.core.graph.cells import MOST_GIVEN
from abw.core.graph.construct import BOTH_WAYS
from abw.core.graph.equal.dedup import compact, equal_rows, replace_rows
from abw.core.graph.equal.numbering import OF_NODE, number_nodes, places_of
from abw.core.graph.walk import (
    AT,
    BEFORE,
    FIELDS,
    FIRST,
    NODES,
    PLACES,
    REDUCED_BY,
    REFERENCE,
    WAYS,
    WIDTH,
    chase,
    fill,
    measure,
    place,
)
from abw.core.jit.addresses import (
    address_of,
    bools_at,
    int_table,
    ints_at,
    ints_in,
    long_table,
    longs_at,
    longs_in,
)
from abw.core.jit.decorators import entry, fragment
from abw.core.run.onepass import state as at
from abw.core.run.onepass.schedule import depths
from abw.core.run.onepass.state import APART, FINE, MORE, OTHER, WRONG, full, held, spare, take

# Of a field that flows in as it is: where its vertices and rows of floats lie, how many they are, a row's
# floats; the first of the mini-batch's and the one behind the last; the constant, its arena (-1: none), and
# the first row there.
VERTEX, COUNT, ROWS, FLOATS, LOW, HIGH, CONSTANT, ARENA, TO, OF_FIELD = range(10)
# How many facts of a type there are: see `numbering.Keys`.
_FACTS = 7


@entry
def construct(words: int) -> int:
    """Make nodes and operands of the instances `FIRST` to before `LAST`.

    APART where several threads are faster.
    """
    state = longs_at(words, at.WORDS)
    types, shift, count = state[at.TYPES], state[at.SHIFT], state[at.SPACE_ROWS]
    start, first, last = longs_in(state, at.START), state[at.FIRST], state[at.LAST]
    base = start[first] - BEFORE
    span = start[last] - base
    tables = long_table(state[at.TABLES], state[at.TABLES + 1] >> 1, 2)
    data = ints_at(state[at.DATA_AT], at.ENDLESS)
    held(words, at.SPACE, count * span)
    state[at.OWN] = take(words, (types + 1) * FIELDS, 8)
    if full(words):
        return MORE
    space, own = int_table(state[at.SPACE], count, span), long_table(state[at.OWN], types + 1, FIELDS)
    begin, flat = longs_in(state, at.OWN_STATE), longs_at(state[at.OWN], (types + 1) * FIELDS)
    for i in range(len(begin)):
        flat[i] = begin[i]
    reductions = int_table(state[at.REDUCTIONS], state[at.REDUCTIONS + 1] // REDUCED_BY, REDUCED_BY)
    measure(reductions, ints_in(state, at.PRODUCERS), tables, data, start, first, last, space, own)
    n, arithmetic, flops = own[types, FIRST], 0, longs_in(state, at.PRODUCT_FLOPS)
    state[at.NODES], state[at.OPERANDS], state[at.PLACE] = n, own[types, AT], 0
    for t in range(types):
        arithmetic += own[t, NODES] * flops[t]
    if arithmetic >= state[at.MOST_FLOPS]:
        return APART
    held(words, at.NODE_AT, 3 * n)
    held(words, at.STEPS_NOW, state[at.STEPS + 1])
    type_ptr, operand_ptr = held(words, at.TYPE_PTR, types + 1), held(words, at.OPERAND_PTR, n + 1)
    operand = held(words, at.OPERAND, state[at.OPERANDS])
    alias = held(words, at.ALIAS, own[types, PLACES] << shift)
    if full(words):
        return MORE
    nodes = int_table(state[at.NODE_AT], 3, n)
    for t in range(types + 1):
        type_ptr[t] = own[t, FIRST]
    place(start, first, space, own, nodes, operand_ptr, alias, operand)
    if not _flow_in(words):
        return OTHER
    many, aliasing = state[at.STEPS + 1] // WIDTH, state[at.ALIASING]
    steps = int_table(state[at.STEPS_NOW], many, WIDTH)
    if aliasing > 0:
        failed, _ = fill(steps, at.ZERO, aliasing, tables, data, base, shift, space, own, alias, operand)
        if failed >= 0 or not chase(alias):
            return WRONG
    failed, _ = fill(steps, aliasing, many, tables, data, base, shift, space, own, alias, operand)
    if failed >= 0:
        return WRONG
    for t in range(types + 1):
        if own[t, WAYS] == BOTH_WAYS:
            return _acyclic(words)
    return FINE


@fragment
def _flow_in(words: int) -> bool:
    """Copy the steps, and find the mini-batch's rows of each field that flows in as it is: rows are numbered
    through all instances, and in a graph from the first of its own. False where there are too many.
    """
    state = longs_at(words, at.WORDS)
    steps, now = ints_in(state, at.STEPS), ints_at(state[at.STEPS_NOW], state[at.STEPS + 1])
    fields, given, start = longs_in(state, at.FIELDS), longs_in(state, at.GIVEN), longs_in(state, at.START)
    for i in range(len(steps)):
        now[i] = steps[i]
    for f in range(0, len(fields), OF_FIELD):
        vertex = ints_at(fields[f + VERTEX], fields[f + COUNT])
        for bound in range(2):
            low, high = 0, len(vertex)
            end = start[state[at.LAST] if bound else state[at.FIRST]]
            while low < high:
                middle = (low + high) >> 1
                if vertex[middle] < end:
                    low = middle + 1
                else:
                    high = middle
            fields[f + LOW + bound] = low
        if fields[f + HIGH] - fields[f + LOW] > MOST_GIVEN:
            return False
    for g in range(0, len(given), 2):
        now[given[g] * WIDTH + REFERENCE] += fields[given[g + 1] * OF_FIELD + LOW]
    return True


@fragment
def _acyclic(words: int) -> int:
    """FINE unless nodes wait for each other."""
    state = longs_at(words, at.WORDS)
    before, ends = state[at.NEXT], depths(words)
    if ends != MORE:
        state[at.NEXT] = before
    return ends


@entry
def look(words: int) -> int:
    """Leave out equal nodes, of `LOOK_FROM` nodes or more; APART where the model grows."""
    state = longs_at(words, at.WORDS)
    n, types, operands = state[at.NODES], state[at.TYPES], state[at.OPERANDS]
    if n < state[at.LOOK_FROM]:
        return FINE
    if state[at.GROWTH] != 0:
        return APART
    nodes, ptr, type_ptr = spare(words, 3 * n), spare(words, n + 1), spare(words, types + 1)
    stands, before = spare(words, n), state[at.NEXT]
    scratch = spare(words, OF_NODE * n)
    if full(words) or not _first_rows(words):
        return MORE
    state[at.NEXT], type_ptr[0] = before, 0
    made, left = int_table(state[at.NODE_AT], 3, n), int_table(address_of(nodes), 3, n)
    made_ptr, shift = ints_at(state[at.TYPE_PTR], types + 1), state[at.SHIFT]
    all_ptr, operand = ints_at(state[at.OPERAND_PTR], n + 1), ints_at(state[at.OPERAND], operands)
    kept, found = number_nodes(
        (
            ints_in(state, at.EQUAL_ORDER),
            int_table(state[at.EQUAL_KEYS], types, state[at.EQUAL_KEYS + 1] // types),
            bools_at(state[at.EQUAL_ALONE], types),
            long_table(state[at.EQUAL_FACTS], types, _FACTS),
        ),
        (ints_in(state, at.LEAF_ROWS), int_table(state[at.LEAF_KEPT], types, state[at.WIDTH])),
        (made_ptr, all_ptr, operand, made[2], made[0]),
        ints_at(words, at.ZERO),
        bools_at(state[at.EQUAL_APART], types),
        shift,
        scratch,
    )
    state[at.OPERANDS] = compact(
        (made_ptr, all_ptr, operand, made[1], made[2]),
        shift,
        scratch,
        stands,
        (type_ptr, ptr, left[0], left[1], left[2]),
    )
    state[at.MADE], state[at.MADE_AT], state[at.KEPT] = n, state[at.NODE_AT], found
    state[at.NODES], state[at.NODE_AT], state[at.OPERAND_PTR] = kept, address_of(nodes), address_of(ptr)
    state[at.TYPE_PTR], state[at.PLACE] = address_of(type_ptr), address_of(stands)
    return FINE


@fragment
def _first_rows(words: int) -> bool:
    """Let operands name the first of a field's rows that have the same bits; False without room."""
    state = longs_at(words, at.WORDS)
    fields, begin = longs_in(state, at.FIELDS), ints_in(state, at.CONSTANT_FIRST)
    operand, before = ints_at(state[at.OPERAND], state[at.OPERANDS]), state[at.NEXT]
    for f in range(0, len(fields), OF_FIELD):
        count, floats = fields[f + HIGH] - fields[f + LOW], fields[f + FLOATS]
        if fields[f + ARENA] < 0 or count == 0:
            continue
        table, first = spare(words, places_of(count)), spare(words, count)
        if full(words):
            return False
        rows = int_table(fields[f + ROWS] + 4 * fields[f + LOW] * floats, count, floats)
        equal_rows(rows, table, first)
        replace_rows(operand, begin[fields[f + CONSTANT]], count, first)
        state[at.NEXT] = before
    return True


@fragment
def standing(words: int, reference: int) -> int:
    """The reference of what stands for a value of the graph as constructed."""
    state = longs_at(words, at.WORDS)
    if state[at.PLACE] == 0 or reference < 0:
        return reference
    node, output = reference >> state[at.SHIFT], reference & (state[at.WIDTH] - 1)
    t, place = (
        ints_at(state[at.MADE_AT], state[at.MADE])[node],
        ints_at(state[at.PLACE], state[at.MADE])[node],
    )
    if place < 0:
        kept = int_table(state[at.LEAF_KEPT], state[at.TYPES], state[at.WIDTH])
        return kept[t, output] + place + 1  # type: ignore[no-any-return]
    return (ints_at(state[at.TYPE_PTR], state[at.TYPES])[t] + place << state[at.SHIFT]) | output  # type: ignore[no-any-return]
