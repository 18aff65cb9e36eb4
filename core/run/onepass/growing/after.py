"""The stages of types after growth: a pass over finished instances, in the same block, with words of its own.

What was computed before reads nothing here: its nodes are numbered behind those that are left to compute, and
their rows are known.
"""

from __future__ import annotations

from abw.core.graph.growing import state as grown
from abw.core.graph.growing.state import column
from abw.core.graph.walk import FIELDS, FIRST, NODES, PLACES
from abw.core.jit.addresses import bytes_at, int_table, ints_at, long_table, longs_at, longs_in
from abw.core.jit.decorators import entry
from abw.core.run.onepass import state as at
from abw.core.run.onepass.growing import stages
from abw.core.run.onepass.growing.stages import note_rows
from abw.core.run.onepass.loop import run_stages
from abw.core.run.onepass.state import FINE, MORE, OTHER, full, take
from abw.core.run.onepass.state import ROWS as MORE_ROWS

# Of a column that is gathered: the register, the half of it, and the column. A link is the second half.
REGISTER, HALF, COLUMN, OF_GATHERED = range(4)
# `OUTER - r` is what reference r is while nodes are scheduled, if that was computed before.
OUTER = -(1 << 30)


@entry
def run_after(words: int) -> int:
    """Run types after growth by the stages of `AFTER`, behind what the block and the arenas have."""
    state = longs_at(words, at.WORDS)
    own = longs_at(state[at.GROWTH], stages.WORDS)
    share, late = longs_at(own[stages.SHARE], grown.WORDS), longs_at(own[stages.AFTER], at.WORDS)
    late[at.BLOCK], late[at.ROOM], late[at.NEXT] = state[at.BLOCK], state[at.ROOM], state[at.NEXT]
    late[at.NUMBERS], late[at.COUNT] = share[grown.NUMBERS], state[at.LAST] - state[at.FIRST]
    late[at.CONSTANT_ROW] = state[at.CONSTANT_NOW]
    head, rows = longs_in(share, grown.ROWS), ints_at(late[at.HEAD], state[at.ARENAS])
    for a in range(len(rows)):
        rows[a] = head[3 * a]
    late[at.STAGE] = 0
    ends = run_stages(own[stages.AFTER])
    state[at.NEXT] = late[at.NEXT]
    if ends == MORE_ROWS:
        state[at.ROWS_NOW] = late[at.ROWS_NOW]
    return ends


@entry
def gather(words: int) -> int:
    """Bring what columns say into the order of finished instances: their vertices, links and fields."""
    state = longs_at(words, at.WORDS)
    own = longs_at(state[at.GROWTH], stages.WORDS)
    share, given = longs_at(own[stages.SHARE], grown.WORDS), longs_in(own, stages.GATHERED)
    start = longs_at(own[stages.START_AT], state[at.COUNT] + 1)
    n = start[state[at.COUNT]]
    state[at.START], state[at.START + 1] = own[stages.START_AT], state[at.COUNT] + 1
    state[at.VERTICES], state[at.KIND_AT] = n, take(words, n, 1)
    found = take(words, n * (len(given) // OF_GATHERED), 4)
    if full(words):
        return MORE
    order, place = ints_at(own[stages.ORDER_AT], n), ints_at(own[stages.PLACE_AT], share[grown.NEXT])
    kinds, kind = bytes_at(state[at.KIND_AT], n), column(share, share[grown.KIND])
    for p in range(n):
        kinds[p] = kind[order[p] + 1]
    registers = longs_in(state, at.REGISTERS)
    for g in range(0, len(given), OF_GATHERED):
        register, half = 2 * given[g + REGISTER], given[g + HALF]
        registers[register + half] = (found - state[at.BLOCK]) >> 2
        registers[register + 1 - half] = -1
        out, values = ints_at(found, n), column(share, given[g + COLUMN])
        for p in range(n):
            value = values[order[p] + 1]
            out[p] = place[value] if half != 0 and value >= 0 else value
        found += 4 * n
    return FINE


@entry
def divide(words: int) -> int:
    """Number the nodes that are left before all others, of which the rows are known; these leave the graph.

    Until `join`, references to these are below those of constants.
    """
    state = longs_at(words, at.WORDS)
    own = longs_at(state[at.GROWTH], stages.WORDS)
    share, early = longs_at(own[stages.SHARE], grown.WORDS), longs_in(own, stages.EARLY)
    types, width, shift, n = state[at.TYPES], state[at.WIDTH], state[at.SHIFT], state[at.NODES]
    found, moves = long_table(state[at.OWN], types + 1, FIELDS), take(words, types, 8)
    left = at.ZERO
    for t in range(types):
        left += found[t, NODES] if early[t * (width + 1)] == 0 else 0
    state[at.EARLIER], state[at.EARLIER_AT] = (n - left) << shift, take(words, (n - left) << shift, 4)
    if full(words):
        return MORE
    move, rows = longs_at(moves, types), ints_at(state[at.EARLIER_AT], state[at.EARLIER])
    nodes, ptr = int_table(state[at.NODE_AT], 3, n), ints_at(state[at.OPERAND_PTR], n + 1)
    order, number, behind = ints_at(own[stages.ORDER_AT], at.ENDLESS), at.ZERO, left
    for t in range(types):
        first, count = found[t, FIRST], found[t, NODES]
        if early[t * (width + 1)] == 0:
            move[t] = number - first
            number += count
            continue
        move[t] = behind - first
        for o in range(width):
            values = early[t * (width + 1) + 1 + o]
            for i in range(count if values >= 0 else 0):
                row = column(share, values)[order[nodes[1, first + i]] + 1]
                rows[((behind + i - left) << shift) + o] = row
        behind += count
    operand = ints_at(state[at.OPERAND], state[at.OPERANDS])
    alias = ints_at(state[at.ALIAS], found[types, PLACES] << shift)
    for i in range(len(operand)):
        reference = operand[i]
        if reference >= 0:
            reference += move[nodes[0, reference >> shift]] << shift
            operand[i] = reference if reference >> shift < left else OUTER - reference
    for i in range(len(alias)):
        if alias[i] >= 0:
            alias[i] += move[nodes[0, alias[i] >> shift]] << shift
    number, type_ptr = at.ZERO, ints_at(state[at.TYPE_PTR], types + 1)
    for t in range(types):
        first, count = found[t, FIRST], found[t, NODES] if early[t * (width + 1)] == 0 else 0
        found[t, FIRST] = type_ptr[t] = number
        for i in range(count):
            nodes[0, number], ptr[number + 1] = t, ptr[first + i + 1]
            number += 1
    found[types, FIRST] = state[at.NODES] = type_ptr[types] = left
    return FINE


@entry
def join(words: int) -> int:
    """Let nodes read what was computed before."""
    state = longs_at(words, at.WORDS)
    operand = ints_at(state[at.OPERAND], state[at.OPERANDS])
    for i in range(len(operand)):
        if operand[i] <= OUTER:
            operand[i] = OUTER - operand[i]
    return FINE


@entry
def note(words: int) -> int:
    """Note in columns the rows of outputs that types after growth give."""
    own = longs_at(longs_at(words, at.WORDS)[at.GROWTH], stages.WORDS)
    noted = note_rows(words, longs_in(own, stages.NOTED_AFTER), own[stages.ORDER_AT])
    return FINE if noted else OTHER
