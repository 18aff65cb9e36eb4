"""The stage that leaves out nodes which equal others: `abw.core.graph.equal.dedup`, in the block."""

from __future__ import annotations

from abw.core.graph.equal.dedup import compact, equal_rows, replace_rows
from abw.core.graph.equal.numbering import OF_NODE, number_nodes, places_of
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
from abw.core.run.onepass import build
from abw.core.run.onepass import state as at
from abw.core.run.onepass.state import APART, FINE, MORE, full, spare

# How many facts of a type there are: see `numbering.Keys`.
_FACTS = 7


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
    place, before = spare(words, n), state[at.NEXT]
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
        place,
        (type_ptr, ptr, left[0], left[1], left[2]),
    )
    state[at.MADE], state[at.MADE_AT], state[at.KEPT] = n, state[at.NODE_AT], found
    state[at.NODES], state[at.NODE_AT], state[at.OPERAND_PTR] = kept, address_of(nodes), address_of(ptr)
    state[at.TYPE_PTR], state[at.PLACE] = address_of(type_ptr), address_of(place)
    return FINE


@fragment
def _first_rows(words: int) -> bool:
    """Let operands name the first of a field's rows that have the same bits; False without room."""
    state = longs_at(words, at.WORDS)
    fields, begin = longs_in(state, at.FIELDS), ints_in(state, at.CONSTANT_FIRST)
    operand, before = ints_at(state[at.OPERAND], state[at.OPERANDS]), state[at.NEXT]
    for f in range(0, len(fields), build.OF_FIELD):
        count, floats = fields[f + build.HIGH] - fields[f + build.LOW], fields[f + build.FLOATS]
        if fields[f + build.ARENA] < 0 or count == 0:
            continue
        table, first = spare(words, places_of(count)), spare(words, count)
        if full(words):
            return False
        rows = int_table(fields[f + build.ROWS] + 4 * fields[f + build.LOW] * floats, count, floats)
        equal_rows(rows, table, first)
        replace_rows(operand, begin[fields[f + build.CONSTANT]], count, first)
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
