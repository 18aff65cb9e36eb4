"""The stages after scheduling: they lay out memory, run kernels and copy outputs."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.walk import BEFORE, COUNT, FIELDS, FIRST, PLACES, ROWS
from abw.core.jit.addresses import (
    address_of,
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
from abw.core.run.onepass.build import standing
from abw.core.run.onepass.state import APART, FINE, MORE, OTHER, Ints, full, held, spare, take
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
    type_ptr, of_type, floats = ints_at(state[at.TYPE_PTR], types + 1), longs_in(state, at.VALUE_FLOATS), 0
    for t in range(types):
        floats += (type_ptr[t + 1] - type_ptr[t]) * of_type[t]
    if floats > state[at.MOST_FLOATS]:
        return APART
    operands, values = batches * slots, n * width + state[at.EARLIER]
    row, rows = held(words, at.ROW, values), held(words, at.ROWS_NOW, arenas)
    constant_row = held(words, at.CONSTANT_NOW, arenas * constants)
    base, operand_ptr = spare(words, batches * width), spare(words, batches + 1)
    index_ptr, index = spare(words, operands + 1), spare(words, state[at.OPERANDS])
    status, start, stride = spare(words, operands), spare(words, operands), spare(words, operands)
    list_ptr, lists = spare(words, operands), spare(words, (n + batches) * state[at.MOST_REDUCED])
    launch_ptr, lanes, none = spare(words, batches + 1), spare(words, n), spare(words, 1)
    if full(words):
        return MORE
    table = longs_at(state[at.TABLE], LAUNCH_PTR + 1)
    table[TYPE], table[PTR] = state[at.BATCH_TYPE], state[at.BATCH_PTR]
    table[BASE], table[OPERAND_PTR] = address_of(base), address_of(operand_ptr)
    table[INDEX_PTR], table[INDEX] = address_of(index_ptr), address_of(index)
    table[STATUS], table[START], table[STRIDE] = address_of(status), address_of(start), address_of(stride)
    table[LIST_PTR], table[LISTS] = address_of(list_ptr), address_of(lists)
    table[LAUNCH_PTR], none[0] = address_of(launch_ptr), 0
    for b in range(batches + 1):
        launch_ptr[b] = b
    copied(ints_in(state, at.HEAD), rows, 0)
    copied(ints_at(state[at.EARLIER_AT], state[at.EARLIER]), row, n * width)
    copied(ints_in(state, at.CONSTANT_ROW), constant_row, 0)
    fields = longs_in(state, at.FIELDS)
    for f in range(0, len(fields), build.OF_FIELD):
        arena = fields[f + build.ARENA]
        if arena >= 0:
            constant_row[arena * constants + fields[f + build.CONSTANT]] = rows[arena]
            fields[f + build.TO] = rows[arena]
            rows[arena] += fields[f + build.HIGH] - fields[f + build.LOW]
    operand = ints_at(state[at.OPERAND], state[at.OPERANDS])
    state[at.LISTED], state[at.PRODUCT_FLOPS_NOW], state[at.OTHER_FLOPS_NOW] = fill_plan(
        (
            ints_at(table[TYPE], batches),
            ints_at(table[PTR], batches + 1),
            ints_at(state[at.BATCH_NODES], n),
        ),
        ((ints_at(state[at.OPERAND_PTR], n + 1), operand), (none, ints_at(words, at.ZERO))),
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
        (bools_at(state[at.LOOSE], types), lanes),
        at.ZERO != 0,
        (rows, int_table(table[BASE], batches, width), row),
        (operand_ptr, index_ptr, index),
        (status, start, stride),
        (list_ptr, lists),
    )
    return FINE


@fragment
def copied(given: Ints, to: Ints, behind: int) -> None:
    """Copy numbers behind so many others."""
    for i in range(len(given)):
        to[behind + i] = given[i]


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
    """Copy one output."""
    state = longs_at(words, at.WORDS)
    start, first = longs_in(state, at.START), state[at.FIRST]
    instances, base = state[at.LAST] - first, start[first] - BEFORE
    output, own = (
        longs_at(state[at.OUTPUTS] + 8 * k, OF_OUTPUT),
        long_table(state[at.OWN], at.ENDLESS, FIELDS),
    )
    produced = long_table(state[at.PRODUCED], state[at.PRODUCED + 1] // 3, 3)
    count = 0
    for p in range(output[BEGIN], output[END]):
        count += own[produced[p, 0], COUNT]
    matrix, floats, padded = output[MATRIX], output[FLOATS], output[PADDED]
    to, place = take(words, count * matrix * floats, 4), take(words, count, 8)
    output[VALUES], output[AT_VALUES], output[AT_VERTEX] = count, to, take(words, count, 4)
    output[AT_OFFSETS] = take(words, instances + 1, 8)
    if full(words):
        return MORE
    source, vertices = longs_at(place, count), ints_at(output[AT_VERTEX], count)
    only = output[END] - output[BEGIN] == 1 and own[produced[output[BEGIN], 0], ROWS] < 0
    if only:
        _of_cells(words, produced[output[BEGIN], 0], produced[output[BEGIN], 1], source, vertices)
    elif not _of_several(words, output, source, vertices):
        return OTHER
    offsets, i, low = longs_at(output[AT_OFFSETS], instances + 1), 0, BEFORE + at.ZERO
    for instance in range(instances):
        offsets[instance] = i
        high = start[first + instance + 1] - base
        while i < count and vertices[i] < high:
            vertices[i] -= low + 1
            i += 1
        low = high
    offsets[instances] = count
    for i in range(count):
        for r in range(matrix):
            given, value = floats_at(source[i] + 4 * r * padded, floats), floats_at(to, floats)
            for j in range(floats):
                value[j] = given[j]
            to += 4 * floats
    return FINE


@fragment
def _of_cells(words: int, t: int, o: int, source: Longs, vertices: Ints) -> None:
    """Where the values of a cell's output lie, all in one arena, and the vertices of its nodes."""
    state = longs_at(words, at.WORDS)
    width, node = state[at.WIDTH], long_table(state[at.OWN], at.ENDLESS, FIELDS)[t, FIRST]
    arena, start = int_table(state[at.OUTPUT_ARENA], at.ENDLESS, width)[t, o], longs_in(state, at.START)
    begin, pitch, looked = longs_in(state, at.ARENA)[arena], longs_in(state, at.PITCH)[arena], state[at.PLACE]
    begins, stands = ints_at(state[at.TYPE_PTR], at.ENDLESS)[t], ints_at(state[at.PLACE], at.ENDLESS)
    span = start[state[at.LAST]] - start[state[at.FIRST]] + BEFORE
    row, own = ints_at(state[at.ROW], at.ENDLESS), ints_at(state[at.SPACE] + 4 * t * span, at.ENDLESS)
    for i in range(len(source)):
        v = begins + stands[node + i] if looked != 0 else node + i
        source[i], vertices[i] = begin + row[v * width + o] * pitch, own[i]


@fragment
def _of_several(words: int, output: Longs, source: Longs, vertices: Ints) -> bool:
    """Where values of several types or of a reduction lie, in the order of their vertices, and these; False
    for a constant without a row.
    """
    state = longs_at(words, at.WORDS)
    shift, start, own = (
        state[at.SHIFT],
        longs_in(state, at.START),
        long_table(state[at.OWN], at.ENDLESS, FIELDS),
    )
    span = start[state[at.LAST]] - start[state[at.FIRST]] + BEFORE
    space, alias = int_table(state[at.SPACE], at.ENDLESS, span), ints_at(state[at.ALIAS], at.ENDLESS)
    produced = long_table(state[at.PRODUCED], at.ENDLESS, 3)
    for p in range(output[BEGIN], output[END]):
        produced[p, 2] = 0
    for i in range(len(source)):
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
        source[i], vertices[i] = _source(words, standing(words, reference), t, o), least
        if source[i] == 0:
            return False
    return True


@fragment
def row_of(words: int, reference: int, t: int, o: int) -> int:
    """The row of the value of a reference, that output o of type t gives; -1 for a constant that lies nowhere
    in its arena.
    """
    state = longs_at(words, at.WORDS)
    if reference >= 0:
        return ints_at(state[at.ROW], at.ENDLESS)[reference] + at.ZERO  # type: ignore[no-any-return]
    arena = int_table(state[at.OUTPUT_ARENA], state[at.TYPES], state[at.WIDTH])[t, o]
    begin = ints_in(state, at.CONSTANT_FIRST)
    c = range_of(-1 - reference, begin, ints_in(state, at.CONSTANT_END), at.ZERO)
    before = int_table(state[at.CONSTANT_NOW], state[at.ARENAS], state[at.CONSTANTS])[arena, c]
    return before + at.ZERO + (-1 - reference) - begin[c] if before >= 0 else -1


@fragment
def _source(words: int, reference: int, t: int, o: int) -> int:
    """Where the value of a reference lies; 0 where `row_of` finds none."""
    state, row = longs_at(words, at.WORDS), row_of(words, reference, t, o)
    arena = int_table(state[at.OUTPUT_ARENA], at.ENDLESS, state[at.WIDTH])[t, o]
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
