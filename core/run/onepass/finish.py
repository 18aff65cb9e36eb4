"""The stages after scheduling: they lay out memory, run kernels and copy outputs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.walk import BEFORE, COUNT, FIELDS, FIRST, PLACES, ROWS
from abw.core.jit.addresses import (
    bool_table,
    bools_at,
    call,
    floats_at,
    int_table,
    ints_at,
    ints_in,
    long_table,
    longs_at,
    longs_in,
)
from abw.core.jit.decorators import entry, fragment
from abw.core.plan.kernels import fill_plan, range_of
from abw.core.run.onepass import build
from abw.core.run.onepass import state as at
from abw.core.run.onepass.distinct import standing
from abw.core.run.onepass.state import APART, FINE, MORE, OTHER, full, take
from abw.core.run.onepass.state import ROWS as MORE_ROWS

# Of an output: its producers, from which to before which of `PRODUCED`; a value's rows and their floats, and
# how many of those a row takes in the arena. Then what a pass gives: how many values, where they lie, their
# vertices, and where those of each instance begin.
BEGIN, END, MATRIX, FLOATS, PADDED, VALUES, AT_VALUES, AT_VERTEX, AT_OFFSETS, OF_OUTPUT = range(10)

# What the walker's table begins with: see `walker.OF_SCHEDULE` and `walker.OF_PLAN`.
(
    TYPE, PTR, BASE, OPERAND_PTR, INDEX_PTR, INDEX, STATUS, START, STRIDE, LIST_PTR, LISTS, LAUNCH_PTR,
) = range(12)  # fmt: skip

Longs = NDArray[np.int64]


@entry
def plan(words: int) -> int:
    """Lay out the schedule's memory as `plan`, into the walker's table.

    APART where some of the values would have to be given up.
    """
    state = longs_at(words, at.WORDS)
    n, batches, types, width = state[at.NODES], state[at.BATCHES], state[at.TYPES], state[at.WIDTH]
    slots, arenas, constants = state[at.SLOTS], state[at.ARENAS], state[at.CONSTANTS]
    operands, several = batches * slots, (n + batches) * state[at.MOST_REDUCED]
    fields = longs_in(state, at.FIELDS)
    table = longs_at(state[at.TABLE], LAUNCH_PTR + 1)
    values = n * width + state[at.EARLIER]
    state[at.ROW], state[at.ROWS_NOW] = take(words, values, 4), take(words, arenas, 4)
    table[TYPE], table[PTR] = state[at.BATCH_TYPE], state[at.BATCH_PTR]
    table[BASE], table[OPERAND_PTR] = take(words, batches * width, 4), take(words, batches + 1, 4)
    table[INDEX_PTR], table[INDEX] = take(words, operands + 1, 4), take(words, state[at.OPERANDS], 4)
    table[STATUS], table[START] = take(words, operands, 4), take(words, operands, 4)
    table[STRIDE], table[LIST_PTR] = take(words, operands, 4), take(words, operands, 4)
    table[LISTS], table[LAUNCH_PTR] = take(words, several, 4), take(words, batches + 1, 4)
    spare, listed = take(words, n, 4), take(words, 1, 4)
    state[at.CONSTANT_NOW] = take(words, arenas * constants, 4)
    if full(words):
        return MORE
    rows, head = ints_at(state[at.ROWS_NOW], arenas), ints_in(state, at.HEAD)
    row, earlier = ints_at(state[at.ROW], values), ints_at(state[at.EARLIER_AT], state[at.EARLIER])
    for a in range(arenas):
        rows[a] = head[a]
    for i in range(len(earlier)):
        row[n * width + i] = earlier[i]
    constant_row = ints_at(state[at.CONSTANT_NOW], arenas * constants)
    given = ints_in(state, at.CONSTANT_ROW)
    for i in range(len(given)):
        constant_row[i] = given[i]
    for f in range(0, len(fields), build.OF_FIELD):
        arena = fields[f + build.ARENA]
        if arena >= 0:
            constant_row[arena * constants + fields[f + build.CONSTANT]] = rows[arena]
            fields[f + build.TO] = rows[arena]
            rows[arena] += fields[f + build.HIGH] - fields[f + build.LOW]
    type_ptr, of_type, floats = ints_at(state[at.TYPE_PTR], types + 1), longs_in(state, at.VALUE_FLOATS), 0
    for t in range(types):
        floats += (type_ptr[t + 1] - type_ptr[t]) * of_type[t]
    if floats > state[at.MOST_FLOATS]:
        return APART
    launch_ptr = ints_at(table[LAUNCH_PTR], batches + 1)
    for b in range(batches + 1):
        launch_ptr[b] = b
    runs = ints_at(listed, 1)
    runs[0] = 0
    state[at.LISTED], state[at.PRODUCT_FLOPS_NOW], state[at.OTHER_FLOPS_NOW] = fill_plan(
        (
            ints_at(table[TYPE], batches),
            ints_at(table[PTR], batches + 1),
            ints_at(state[at.BATCH_NODES], n),
        ),
        (
            (ints_at(state[at.OPERAND_PTR], n + 1), ints_at(state[at.OPERAND], state[at.OPERANDS])),
            (runs, ints_at(listed, at.ZERO)),
        ),
        (
            int_table(state[at.SLOT_ARENA], types, slots),
            int_table(state[at.OUTPUT_ARENA], types, width),
            ints_in(state, at.TYPE_SLOTS),
            bools_at(state[at.REDUCES], types),
            bool_table(state[at.REDUCED], types, slots),
        ),
        (
            int_table(state[at.CONSTANT_NOW], arenas, constants),
            ints_in(state, at.CONSTANT_FIRST),
            ints_in(state, at.CONSTANT_END),
        ),
        (
            int_table(state[at.LIST_FLOPS], types, slots),
            longs_in(state, at.PRODUCT_FLOPS),
            longs_in(state, at.OTHER_FLOPS),
        ),
        (bools_at(state[at.LOOSE], types), ints_at(spare, n)),
        at.ZERO != 0,
        (rows, int_table(table[BASE], batches, width), row),
        (
            ints_at(table[OPERAND_PTR], batches + 1),
            ints_at(table[INDEX_PTR], operands + 1),
            ints_at(table[INDEX], state[at.OPERANDS]),
        ),
        (
            ints_at(table[STATUS], operands),
            ints_at(table[START], operands),
            ints_at(table[STRIDE], operands),
        ),
        (ints_at(table[LIST_PTR], operands), ints_at(table[LISTS], several)),
    )
    return FINE


@entry
def walk(words: int) -> int:
    """Run all batches if the arenas have enough rows for the plan; otherwise return ROWS."""
    state = longs_at(words, at.WORDS)
    rows, held = ints_at(state[at.ROWS_NOW], state[at.ARENAS]), longs_in(state, at.HELD)
    for a in range(len(rows)):
        if rows[a] > held[a]:
            return MORE_ROWS
    _write_fields(words)
    if state[at.BATCHES] > 0:
        call(state[at.WALK], (state[at.TABLE], state[at.SCRATCH], 0, state[at.BATCHES], 0, 1, 0, 0))
    return FINE


@fragment
def _write_fields(words: int) -> None:
    """Write the fields of vertices that flow in as they are to their rows of the arenas."""
    state = longs_at(words, at.WORDS)
    fields, memory, pitch = longs_in(state, at.FIELDS), longs_in(state, at.ARENA), longs_in(state, at.PITCH)
    for f in range(0, len(fields), build.OF_FIELD):
        arena, floats = fields[f + build.ARENA], fields[f + build.FLOATS]
        if arena < 0:
            continue
        for r in range(fields[f + build.LOW], fields[f + build.HIGH]):
            source = floats_at(fields[f + build.ROWS] + 4 * r * floats, floats)
            row = fields[f + build.TO] + r - fields[f + build.LOW]
            place = floats_at(memory[arena] + row * pitch[arena], floats)
            for j in range(floats):
                place[j] = source[j]


@entry
def results(words: int) -> int:
    """Copy the values of each output in the order of their vertices; OTHER for a constant without a row."""
    state = longs_at(words, at.WORDS)
    outputs = longs_in(state, at.OUTPUTS)
    for k in range(0, len(outputs), OF_OUTPUT):
        ends = _output(words, k)
        if ends != FINE:
            return ends
    return FINE


@fragment
def _output(words: int, k: int) -> int:
    """Copy one output. Of several types that give it back, the next vertex is the least of all."""
    state = longs_at(words, at.WORDS)
    types, shift = state[at.TYPES], state[at.SHIFT]
    start, first = longs_in(state, at.START), state[at.FIRST]
    instances, base = state[at.LAST] - first, start[first] - BEFORE
    output = longs_at(state[at.OUTPUTS] + 8 * k, OF_OUTPUT)
    own = long_table(state[at.OWN], types + 1, FIELDS)
    space = int_table(state[at.SPACE], state[at.SPACE_ROWS], start[state[at.LAST]] - base)
    alias = ints_at(state[at.ALIAS], own[types, PLACES] << shift)
    produced = long_table(state[at.PRODUCED], state[at.PRODUCED + 1] // 3, 3)
    count = 0
    for p in range(output[BEGIN], output[END]):
        produced[p, 2] = 0
        count += own[produced[p, 0], COUNT]
    floats = output[MATRIX] * output[FLOATS]
    output[VALUES] = count
    output[AT_VALUES], output[AT_VERTEX] = take(words, count * floats, 4), take(words, count, 4)
    output[AT_OFFSETS] = take(words, instances + 1, 8)
    if full(words):
        return MORE
    vertices, offsets = ints_at(output[AT_VERTEX], count), longs_at(output[AT_OFFSETS], instances + 1)
    only = produced[output[BEGIN], 0]
    if output[END] - output[BEGIN] == 1 and own[only, ROWS] < 0:
        _of_cells(words, k, only, produced[output[BEGIN], 1])
        return FINE
    instance, behind = 0, start[first + 1] - base
    offsets[0] = 0
    for i in range(count):
        best, least = output[BEGIN], at.ENDLESS
        for p in range(output[BEGIN], output[END]):
            t = produced[p, 0]
            if produced[p, 2] < own[t, COUNT] and space[t, produced[p, 2]] < least:
                best, least = p, space[t, produced[p, 2]] + at.ZERO
        t, o, c = produced[best, 0], produced[best, 1], produced[best, 2]
        produced[best, 2] = c + 1
        reference = ((own[t, FIRST] + c) << shift) + o
        if own[t, ROWS] >= 0:
            reference = alias[((own[t, PLACES] + c) << shift) + o] + at.ZERO
        while least >= behind:
            instance += 1
            offsets[instance] = i
            behind = start[first + instance + 1] - base
        vertices[i] = least - (start[first + instance] - base) - 1
        source = _source(words, standing(words, reference), t, o)
        if source == 0:
            return OTHER
        copy(source, output, output[AT_VALUES] + 4 * i * floats)
    for later in range(instance + 1, instances + 1):
        offsets[later] = count
    return FINE


@fragment
def _of_cells(words: int, k: int, t: int, o: int) -> None:
    """Copy one output that is a cell's: all of its values lie in one arena.

    What is the same for all of them is read once: the compiler does not know that no copy changes it.
    """
    state = longs_at(words, at.WORDS)
    types, width, first = state[at.TYPES], state[at.WIDTH], state[at.FIRST]
    output, start = longs_at(state[at.OUTPUTS] + 8 * k, OF_OUTPUT), longs_in(state, at.START)
    arena = int_table(state[at.OUTPUT_ARENA], types, width)[t, o]
    begin, pitch = longs_in(state, at.ARENA)[arena], longs_in(state, at.PITCH)[arena]
    count, matrix, floats, padded = output[VALUES], output[MATRIX], output[FLOATS], output[PADDED]
    node, looked = long_table(state[at.OWN], types + 1, FIELDS)[t, FIRST], state[at.PLACE] != 0
    begins, stands = ints_at(state[at.TYPE_PTR], types)[t], ints_at(state[at.PLACE], at.ENDLESS)
    row, own = ints_at(state[at.ROW], at.ENDLESS), ints_at(state[at.SPACE], at.ENDLESS)
    span = start[state[at.LAST]] - start[first] + BEFORE
    to = output[AT_VALUES]
    for i in range(count):
        v = begins + stands[node + i] if looked else node + i
        source = begin + row[v * width + o] * pitch
        for r in range(matrix):
            given, place = floats_at(source + 4 * r * padded, floats), floats_at(to, floats)
            for j in range(floats):
                place[j] = given[j]
            to += 4 * floats
    vertices, offsets = ints_at(output[AT_VERTEX], count), longs_at(output[AT_OFFSETS], at.ENDLESS)
    i, low = 0, BEFORE + at.ZERO
    for instance in range(state[at.LAST] - first):
        offsets[instance] = i
        high = start[first + instance + 1] - start[first] + BEFORE
        while i < count and own[t * span + i] < high:
            vertices[i] = own[t * span + i] - low - 1
            i += 1
        low = high
    offsets[state[at.LAST] - first] = count


@fragment
def row_of(words: int, reference: int, t: int, o: int) -> int:
    """The row of the value of a reference, that output o of type t gives; -1 for a constant that lies nowhere
    in its arena.
    """
    state = longs_at(words, at.WORDS)
    if reference >= 0:
        return ints_at(state[at.ROW], at.ENDLESS)[reference] + at.ZERO  # type: ignore[no-any-return]
    arena = int_table(state[at.SLOT_ARENA], state[at.TYPES], state[at.SLOTS])[t, o]  # output o reduces slot o
    begin = ints_in(state, at.CONSTANT_FIRST)
    c = range_of(-1 - reference, begin, ints_in(state, at.CONSTANT_END), at.ZERO)
    before = int_table(state[at.CONSTANT_NOW], state[at.ARENAS], state[at.CONSTANTS])[arena, c]
    return before + at.ZERO + (-1 - reference) - begin[c] if before >= 0 else -1


@fragment
def _source(words: int, reference: int, t: int, o: int) -> int:
    """Where the value of a reference lies; 0 where `row_of` finds none."""
    state = longs_at(words, at.WORDS)
    types, width, row = state[at.TYPES], state[at.WIDTH], row_of(words, reference, t, o)
    if reference < 0:
        arena = int_table(state[at.SLOT_ARENA], types, state[at.SLOTS])[t, o]
    else:
        node, output = reference >> state[at.SHIFT], reference & (width - 1)
        kind = ints_at(state[at.NODE_AT], state[at.NODES])[node]
        arena = int_table(state[at.OUTPUT_ARENA], types, width)[kind, output]
    place = longs_in(state, at.ARENA)[arena] + row * longs_in(state, at.PITCH)[arena]
    return place if row >= 0 else 0


@fragment
def copy(source: int, output: Longs, to: int) -> None:
    """Copy a value without the padding of its rows."""
    for r in range(output[MATRIX]):
        given = floats_at(source + 4 * r * output[PADDED], output[FLOATS])
        place = floats_at(to + 4 * r * output[FLOATS], output[FLOATS])
        for j in range(output[FLOATS]):
            place[j] = given[j]
