"""The stages of a model that grows: around the first plan, which is of what is given alone.

`reserve` stands behind the plan, `begin`, `go_on`, `order` and `results` behind its run; before `results` are
those of types after growth (`after`). Vertices grow by the compiled walk of `abw.core.graph.growing.walk`, in
columns that lie in the block.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.data.vertices import _order
from abw.core.graph.growing import state as grown
from abw.core.graph.growing import walk
from abw.core.graph.growing.state import column
from abw.core.graph.walk import BEFORE, COUNT, FIELDS, FIRST, PLACES, ROWS
from abw.core.jit.addresses import (
    ask,
    bytes_at,
    bytes_in,
    doubles_in,
    int_table,
    ints_at,
    ints_in,
    long_table,
    longs_at,
    longs_in,
)
from abw.core.jit.decorators import entry, fragment
from abw.core.run.onepass import build, finish
from abw.core.run.onepass import state as at
from abw.core.run.onepass.state import AGAIN, APART, FINE, LARGER, MORE, OTHER, WRONG, full, take

Longs = NDArray[np.int64]

# Words that the growth of a model has beside those of a pass.
#
# - The state of the walk, and the walk; how many columns there are, and the register of the vertices that
#   instances begin at; for how many new vertices of an instance there is room, how many it begins
#   with; how many come to be between two looks for Ctrl-C.
# - Of bound instances where their columns lie (0: instances are texts), and how long these are. Words of the
#   pass of types after growth (`after`), 0 without. Of finished instances where their vertices' order, the
#   place of each vertex in it, and the first of each instance lie.
# - The column of what `best` chooses, -1 without.
# - Arrays: by given column half a register (`Binding.given`), and from where on it counts (a field: its
#   rows); the registers of lists; type, output and column of what is noted of nodes before growth; by arena
#   how many rows a vertex takes; bases of constants and the fields that they are; which kinds decide, and
#   by output that is a decision which have it (n, kinds). For types after growth: columns and the registers
#   that they go to (n, OF_GATHERED); of each type whether it is an earlier one, and the columns of its values
#   (T, 1 + W); as NOTED what is noted of types after growth.
_NUMBERS = 14
(
    SHARE, WALK, COLUMNS, ROOTS, PER_INSTANCE, STARTS, QUOTA, COLUMNS_AT, LENGTH, BEST,
    AFTER, ORDER_AT, PLACE_AT, START_AT,
) = range(_NUMBERS)  # fmt: skip
_ARRAYS = 9
FROM, LISTS, NOTED, WIDE, BASES, KINDS, GATHERED, EARLY, NOTED_AFTER = range(
    _NUMBERS, _NUMBERS + 2 * _ARRAYS, 2
)
WORDS = _NUMBERS + 2 * _ARRAYS

# Of a producer, in `PRODUCED`: the column of rows, and their arena; of a decision the column of choices, and
# which of `KINDS` have it (-1: it is no decision).
OF_COLUMN, OF_ARENA, OF_KINDS = range(3)
# From where on a given column counts: from 0, or from the first vertex of the mini-batch.
FROM_ZERO, FROM_VERTEX = -1, -2
# In place of a row, or of what was decided.
NOTHING = -2


@fragment
def _decides(words: int) -> bool:
    """Whether a given vertex of the mini-batch decides."""
    state = longs_at(words, at.WORDS)
    own = longs_at(state[at.GROWTH], WORDS)
    kinds, start = bytes_in(own, KINDS), longs_in(state, at.START)
    found = 0
    kind = bytes_at(state[at.KIND_AT], start[state[at.LAST]])
    for v in range(start[state[at.FIRST]], start[state[at.LAST]]):
        found |= kinds[kind[v]]
    return found != 0


@entry
def reserve(words: int) -> int:
    """Take rows for vertices to come, behind those of the plan; LARGER where registers have too little."""
    state = longs_at(words, at.WORDS)
    own = longs_at(state[at.GROWTH], WORDS)
    share, start = longs_at(own[SHARE], grown.WORDS), longs_in(state, at.START)
    count, given = state[at.LAST] - state[at.FIRST], start[state[at.LAST]] - start[state[at.FIRST]]
    now, table = count * own[STARTS], longs_in(share, grown.ROWS)
    if _decides(words):
        now += given
    share[grown.NOW] = share[grown.MEMBERS] = max(now, count)
    if share[grown.NOW] + 2 > share[grown.ENTRIES]:
        share[grown.NEXT], share[grown.ADDING], share[grown.END] = 0, 0, at.ENDLESS
        for a in range(state[at.ARENAS]):
            table[3 * a], table[3 * a + 1] = 0, at.ENDLESS
        return LARGER
    room = own[PER_INSTANCE] * count + 4 * now * share[grown.MOST_ADDED]
    share[grown.NEXT], share[grown.END] = given, given + room
    rows, wide = ints_at(state[at.ROWS_NOW], state[at.ARENAS]), longs_in(own, WIDE)
    for a in range(len(rows)):
        table[3 * a], table[3 * a + 1] = rows[a], rows[a] + room * wide[a]
        if table[3 * a + 1] >= at.ENDLESS:
            return APART
        rows[a] = table[3 * a + 1]
    return FINE


@entry
def begin(words: int) -> int:
    """Make the columns of the given vertices, and those that instances begin with."""
    state = longs_at(words, at.WORDS)
    own = longs_at(state[at.GROWTH], WORDS)
    share, start = longs_at(own[SHARE], grown.WORDS), longs_in(state, at.START)
    first, count = state[at.FIRST], state[at.LAST] - state[at.FIRST]
    given, end, kept = start[state[at.LAST]] - start[first], share[grown.END], share[grown.KEPT_END]
    stride, columns = end + 2, own[COLUMNS]
    for w in range(grown.ENTRIES):
        share[w] = 0
    share[grown.NEXT], share[grown.END], share[grown.KEPT_END] = given, end, kept
    share[grown.INSTANCES] = share[grown.INSTANCE_LAST] = count
    share[grown.STRIDE], share[grown.BLOCK] = stride, take(words, columns * stride, 4)
    share[grown.BLOCK + 1] = columns * stride
    kinds = share[grown.KINDS_OF]
    share[grown.COUNT], share[grown.CUT] = take(words, kinds * count, 8), take(words, kinds * count, 4)
    numbers = take(words, count, 8)
    share[grown.NUMBERS] = numbers if state[at.NUMBERS] == 0 else state[at.NUMBERS] + 8 * first
    beam = count * share[grown.BEAM]
    share[grown.BEAM_ROUND], share[grown.BEAM_KEPT] = take(words, count, 8), take(words, beam, 4)
    share[grown.BEAM_TOTAL], share[grown.BEAM_VERTEX] = take(words, beam, 8), take(words, beam, 4)
    share[grown.BEAM_NUMBER] = take(words, beam, 4)
    if own[COLUMNS_AT] == 0:
        share[grown.LISTS] = take(words, own[LISTS + 1] * 2, 8)
    if full(words):
        return MORE
    counts, cut, own_number = (
        longs_at(share[grown.COUNT], kinds * count),
        ints_at(share[grown.CUT], kinds * count),
        longs_at(numbers, count),
    )
    for i in range(kinds * count):
        counts[i] = 0
        cut[i] = 0
    compared, hypotheses = longs_at(share[grown.BEAM_ROUND], count), ints_at(share[grown.BEAM_KEPT], beam)
    for i in range(count):
        own_number[i], compared[i] = i, 0
    for i in range(beam):
        hypotheses[i] = -1
    for name in (grown.COUNT, grown.CUT):
        share[name + 1] = kinds * count
    for name in (grown.NUMBERS, grown.BEAM_ROUND):
        share[name + 1] = count
    for name in (grown.BEAM_KEPT, grown.BEAM_TOTAL, grown.BEAM_VERTEX, grown.BEAM_NUMBER):
        share[name + 1] = beam
    share[grown.BEGIN] = start[first]
    if own[COLUMNS_AT] == 0:
        registers, listed = longs_in(state, at.REGISTERS), longs_in(own, LISTS)
        lists = longs_at(share[grown.LISTS], 2 * len(listed))
        share[grown.LISTS + 1], share[grown.BEGIN] = 2 * len(listed), 0
        share[grown.DATA], share[grown.DATA + 1] = state[at.BLOCK], at.ENDLESS
        for i in range(len(listed)):
            lists[2 * i], lists[2 * i + 1] = registers[2 * listed[i]], registers[2 * listed[i] + 1]
    if _decides(words):
        share[grown.GIVEN_LAST] = given
    _give(words)
    if not note_rows(words, longs_in(own, NOTED), at.ZERO):
        return OTHER
    bases, fields, told = longs_in(share, grown.BASES), longs_in(own, BASES), longs_in(state, at.FIELDS)
    for b in range(0, len(fields), 2):
        bases[fields[b]] = told[fields[b + 1] * build.OF_FIELD + build.TO]
    roots = grown.register(share, own[ROOTS])
    longs_in(share, grown.SIZES)[own[ROOTS]] = count
    for i in range(count):
        roots[i] = start[first + i] - start[first]
    share[grown.TASK] = walk.BEGIN
    ask(own[WALK], own[SHARE])
    return FINE


@fragment
def _give(words: int) -> None:
    """Fill the given columns, in which nothing else is known yet."""
    state = longs_at(words, at.WORDS)
    own = longs_at(state[at.GROWTH], WORDS)
    share, start = longs_at(own[SHARE], grown.WORDS), longs_in(state, at.START)
    first, source = state[at.FIRST], longs_in(own, FROM)
    base, given, registers = start[first], start[state[at.LAST]] - start[first], longs_in(state, at.REGISTERS)
    block, told = ints_in(share, grown.BLOCK), longs_in(state, at.FIELDS)
    for i in range(len(block)):
        block[i] = -1
    for c in range(len(source) // 2):
        out, half, counts = column(share, c), source[2 * c], source[2 * c + 1]
        place, since = own[COLUMNS_AT] + 4 * c * own[LENGTH], at.ZERO
        if own[COLUMNS_AT] == 0:
            if half < 0:
                continue
            place = state[at.BLOCK] + 4 * registers[half]
        if counts >= 0:
            since = told[counts * build.OF_FIELD + build.LOW]
        elif counts == FROM_VERTEX:
            since = base
        values = ints_at(place + 4 * base, given)
        for v in range(given):
            out[v + 1] = max(values[v] - since, -1)
    kind, instance = column(share, share[grown.KIND]), column(share, share[grown.INSTANCE])
    kinds = bytes_at(state[at.KIND_AT] + base, given)
    for v in range(given):
        kind[v + 1] = kinds[v]
    for i in range(state[at.LAST] - first):
        for v in range(start[first + i] - base, start[first + i + 1] - base):
            instance[v + 1] = i


@fragment
def note_rows(words: int, noted: Longs, order_at: int) -> bool:
    """Note the rows of what was computed, in the columns of the vertices: of those that lie at an address in
    the order of the nodes' vertices, or (0) of these themselves. False for a constant without a row.

    `noted` are types, outputs and columns (n * 3).
    """
    state = longs_at(words, at.WORDS)
    own = longs_at(state[at.GROWTH], WORDS)
    share, types, width, shift = (
        longs_at(own[SHARE], grown.WORDS),
        state[at.TYPES],
        state[at.WIDTH],
        state[at.SHIFT],
    )
    found, start = long_table(state[at.OWN], types + 1, FIELDS), longs_in(state, at.START)
    span = start[state[at.LAST]] - start[state[at.FIRST]] + BEFORE
    space = int_table(state[at.SPACE], state[at.SPACE_ROWS], span)
    alias, row = ints_at(state[at.ALIAS], found[types, PLACES] << shift), ints_at(state[at.ROW], at.ENDLESS)
    order = ints_at(order_at, at.ENDLESS)
    for i in range(0, len(noted), 3):
        t, o, out = noted[i], noted[i + 1], column(share, noted[i + 2])
        for c in range(found[t, COUNT]):
            vertex = space[t, c] - BEFORE + at.ZERO
            if order_at != 0:
                vertex = order[vertex] + at.ZERO
            if found[t, ROWS] < 0:
                out[vertex + 1] = row[(found[t, FIRST] + c) * width + o]
            else:
                reference = alias[((found[t, PLACES] + c) << shift) + o] + at.ZERO
                out[vertex + 1] = finish.row_of(words, reference, t, o)
                if out[vertex + 1] < 0:
                    return False
    return True


@entry
def go_on(words: int) -> int:
    """Grow to the end; AGAIN where it is time to look for Ctrl-C before that, LARGER without room."""
    own = longs_at(longs_at(words, at.WORDS)[at.GROWTH], WORDS)
    share = longs_at(own[SHARE], grown.WORDS)
    share[grown.LEFT], share[grown.TASK] = own[QUOTA], walk.GO_ON
    ask(own[WALK], own[SHARE])
    if share[grown.STATUS] == grown.PAUSED:
        return AGAIN
    if share[grown.STATUS] == grown.FULL:
        return LARGER
    return WRONG if share[grown.STATUS] == grown.FAILED else FINE


@entry
def order(words: int) -> int:
    """Find the order in which finished instances have their vertices, and what `best` chose at these."""
    state = longs_at(words, at.WORDS)
    own = longs_at(state[at.GROWTH], WORDS)
    share, count = longs_at(own[SHARE], grown.WORDS), state[at.LAST] - state[at.FIRST]
    n = share[grown.NEXT]
    own[ORDER_AT], own[PLACE_AT] = take(words, n, 4), take(words, n, 4)
    own[START_AT] = take(words, count + 2, 8)
    if full(words):
        return MORE
    start = longs_at(own[START_AT], count + 2)
    for i in range(count + 2):
        start[i] = 0
    instance = ints_at(share[grown.BLOCK] + 4 * (share[grown.INSTANCE] * share[grown.STRIDE] + 1), n)
    _order(instance, n, start, ints_at(own[ORDER_AT], n), ints_at(own[PLACE_AT], n))
    if own[BEST] >= 0:
        _choose_best(words)
    return FINE


@entry
def results(words: int) -> int:
    """Copy what each output has, in the order of finished instances' vertices."""
    state = longs_at(words, at.WORDS)
    for k in range(0, state[at.OUTPUTS + 1], finish.OF_OUTPUT):
        ends = _output(words, k)
        if ends != FINE:
            return ends
    return FINE


@fragment
def _choose_best(words: int) -> None:
    """Write what the likeliest hypothesis of each instance chose, of equals the first."""
    own = longs_at(longs_at(words, at.WORDS)[at.GROWTH], WORDS)
    share = longs_at(own[SHARE], grown.WORDS)
    chosen, by, width = column(share, own[BEST]), column(share, share[grown.PICK]), share[grown.BEAM]
    kept, total = ints_in(share, grown.BEAM_KEPT), doubles_in(share, grown.PICK_TOTAL)
    ended, vertex = bytes_in(share, grown.PICK_ENDED), ints_in(share, grown.PICK_VERTEX)
    number = ints_in(share, grown.PICK_NUMBER)
    for v in range(len(chosen)):
        chosen[v] = -1
    for i in range(0, len(kept), width):
        best = at.ZERO - 1
        for h in range(i, i + width):
            pick = kept[h]
            if pick >= 0 and ended[pick] != 0 and (best < 0 or total[pick] > total[best]):
                best = pick + at.ZERO
        while best >= 0:
            chosen[vertex[best] + 1] = number[best]
            best = by[vertex[best] + 1] + at.ZERO


@fragment
def _found(words: int, p: int, vertex: int) -> int:
    """The row that a producer has on a vertex, or what was decided there; NOTHING where it has none."""
    state = longs_at(words, at.WORDS)
    own = longs_at(state[at.GROWTH], WORDS)
    share, producer = longs_at(own[SHARE], grown.WORDS), longs_at(state[at.PRODUCED] + 24 * p, 3)
    value, some = column(share, producer[OF_COLUMN])[vertex + 1], producer[OF_KINDS]
    if some < 0:
        return value if value >= 0 else NOTHING
    kinds, kind = bytes_in(own, KINDS), column(share, share[grown.KIND])[vertex + 1]
    there = kinds[some * share[grown.KINDS_OF] + kind] != 0
    if producer[OF_COLUMN] == own[BEST]:  # other vertices are of hypotheses that were dropped
        there = there and value >= 0
    return value if there else NOTHING


@fragment
def _output(words: int, k: int) -> int:
    """Copy one output of finished instances."""
    state = longs_at(words, at.WORDS)
    own, count = longs_at(state[at.GROWTH], WORDS), state[at.LAST] - state[at.FIRST]
    start, output = longs_at(own[START_AT], count + 1), longs_at(state[at.OUTPUTS] + 8 * k, finish.OF_OUTPUT)
    order, values = ints_at(own[ORDER_AT], start[count]), 0
    for q in range(start[count]):
        for p in range(output[finish.BEGIN], output[finish.END]):
            values += _found(words, p, order[q]) != NOTHING
    floats = output[finish.MATRIX] * output[finish.FLOATS]
    output[finish.VALUES], output[finish.AT_VALUES] = values, take(words, values * floats, 4)
    output[finish.AT_VERTEX], output[finish.AT_OFFSETS] = take(words, values, 4), take(words, count + 1, 8)
    if full(words):
        return MORE
    vertices, offsets = (
        ints_at(output[finish.AT_VERTEX], values),
        longs_at(output[finish.AT_OFFSETS], count + 1),
    )
    arenas, pitch, n = longs_in(state, at.ARENA), longs_in(state, at.PITCH), at.ZERO
    for i in range(count):
        offsets[i] = n
        for q in range(start[i], start[i + 1]):
            for p in range(output[finish.BEGIN], output[finish.END]):
                found, place = _found(words, p, order[q]), output[finish.AT_VALUES] + 4 * n * floats
                if found == NOTHING:
                    continue
                vertices[n] = q - start[i] - 1
                n += 1
                producer = longs_at(state[at.PRODUCED] + 24 * p, 3)
                if producer[OF_KINDS] >= 0:
                    ints_at(place, 1)[0] = found
                else:
                    arena = producer[OF_ARENA]
                    finish.copy(arenas[arena] + found * pitch[arena], output, place)
    offsets[count] = n
    return FINE
