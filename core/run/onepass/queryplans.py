"""The stage that reads query plans: `abw.core.data.readers.plans`, into the block.

What the scan there finds wrong, numbers that are to be read again, and fields that a node has twice end the
pass with OTHER.
"""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from abw.core.data.readers import planscan as scanned
from abw.core.data.readers.jsontokens import Json
from abw.core.data.readers.planscan import DEEPEST, DONE, Names, PlanRoom, scan_plans
from abw.core.jit.addresses import (
    bytes_at,
    doubles_at,
    doubles_in,
    eights_at,
    floats_at,
    int_table,
    ints_at,
    longs_at,
    longs_in,
    text_at,
)
from abw.core.jit.decorators import entry, fragment
from abw.core.jit.pointers import Table
from abw.core.run.onepass import build
from abw.core.run.onepass import state as at
from abw.core.run.onepass.read import escaped, field_room, in_lines
from abw.core.run.onepass.state import FINE, MORE, OTHER, WRONG, clear, full, spare, take

# The registers that a plan always fills, and how many there are.
COLUMNS = ("parent", "left", "right", "child-count", "kind")
_CHILDREN, _KIND = 3, 4
# Of a field: its register, or the number of a field that flows in; -1 where neither is wanted.
FIELD_TO, FIELD_OF, OF_FIELD = range(3)
# What `PLAN_NAMES` has: addresses of the words' slots, text, begins, sizes and codes; the text's bytes; how
# many words there are, and how many of them are keys.
_SLOTS, _TEXT, _BEGIN, _SIZE, _CODE, _BYTES, _COUNT, _KEYS, _OF_NAMES = range(9)


def plan_names() -> Table:
    """The keys and operators of plans, in the form that the stage reads."""
    known, table = scanned.names(), Table(np.zeros(_OF_NAMES, np.int64))
    text = np.frombuffer(cast(Any, known.eights.base), np.uint8)
    for word, array in (_SLOTS, known.slots), (_TEXT, text), (_BEGIN, known.begin), (_SIZE, known.size):
        table.point(word, array)
    table.point(_CODE, known.code)
    table.words[_BYTES], table.words[_COUNT], table.words[_KEYS] = len(text), len(known.begin), known.keys
    return table


@entry
def query_plans(words: int) -> int:
    """Registers: `COLUMNS`, and those that `PLAN_FIELDS` names. One plan may have several lines."""
    state = longs_at(words, at.WORDS)
    size, count, names = state[at.SIZE], state[at.COUNT], longs_in(state, at.PLAN_NAMES)
    if size <= 8 or (count > 1 and not in_lines(words)):
        return WRONG
    most, values, lines, keys = size // 5 + 4, size // 8 + 4, size // 10 + 4, names[_KEYS]
    state[at.KIND_AT], vertices, content = (
        take(words, most, 1),
        take(words, 4 * most, 4),
        take(words, values, 8),
    )
    state[at.START], state[at.START + 1] = take(words, count + 1, 8), count + 1
    room = PlanRoom(
        bytes_at(state[at.KIND_AT], most),
        int_table(vertices, 4, most),
        bytes_at(take(words, values, 1), values),
        spare(words, values),
        doubles_at(content, values),
        int_table(content, values, 2),
        int_table(take(words, 3 * values, 4), 3, values),
        int_table(take(words, 3 * lines, 4), 3, lines),
        int_table(take(words, 3 * (DEEPEST + 1), 4), 3, DEEPEST + 1),
        longs_at(take(words, 4, 8), 4),
        spare(words, keys + 1),
    )
    if full(words):
        return MORE
    known = Names(
        int_table(names[_SLOTS], 2, scanned._SLOTS),
        eights_at(names[_TEXT], names[_BYTES] - 7),
        ints_at(names[_BEGIN], names[_COUNT]),
        ints_at(names[_SIZE], names[_COUNT]),
        ints_at(names[_CODE], names[_COUNT]),
        keys,
    )
    clear(room.counts)
    clear(room.next)
    text, eights = text_at(state[at.TEXT], size), eights_at(state[at.TEXT], size - 7)
    json = Json(text, eights, doubles_in(state, at.JSON_POWERS))
    seen, _, code, _ = scan_plans(json, at.ZERO, at.ZERO, count + 1, known, room)
    if code != DONE or seen != count or room.counts[scanned._HARD] > 0:
        return OTHER
    start = longs_in(state, at.START)
    for i in range(count):
        start[i] = room.rows[0, i]
        if count > 1 and room.rows[1, i] != i:  # its line
            return WRONG
    start[count] = state[at.VERTICES] = room.counts[scanned._VERTICES]
    registers, first = longs_in(state, at.REGISTERS), state[at.COLUMNS]
    for c in range(_KIND):  # numbers are in the first half of a register, links in the second
        field = int(c == _CHILDREN)
        registers[2 * (first + c) + field] = -1
        registers[2 * (first + c) + 1 - field] = (vertices + 4 * c * most - state[at.BLOCK]) >> 2
    return _fields(words, room)


@fragment
def _fields(words: int, room: PlanRoom) -> int:
    """Write the kinds of nodes and the values of fields to their registers."""
    state = longs_at(words, at.WORDS)
    v, begin, registers = state[at.VERTICES], state[at.BLOCK], longs_in(state, at.REGISTERS)
    fields, told = longs_in(state, at.PLAN_FIELDS), longs_in(state, at.FIELDS)
    kinds, values = take(words, v, 4), room.counts[scanned._VALUES]
    for f in range(0, len(fields), OF_FIELD):
        if not field_room(words, fields[f + FIELD_TO], fields[f + FIELD_OF], False, v, 1):
            return MORE
    if full(words):
        return MORE
    to = 2 * (state[at.COLUMNS] + _KIND)
    registers[to], registers[to + 1] = (kinds - begin) >> 2, -1
    kind = ints_at(kinds, v)
    for u in range(v):
        kind[u] = np.int32(room.kind[u]) if room.kind[u] > 0 else np.int32(-1)
    data = ints_at(begin, at.ENDLESS)
    for m in range(values):
        f, u = OF_FIELD * (room.field[m] + at.ZERO), room.owner[m]
        to, flows = 2 * fields[f + FIELD_TO], fields[f + FIELD_OF] * build.OF_FIELD
        if to >= 0:
            low, high = room.span[m, 0], room.span[m, 1]
            if low == high or data[registers[to + 1] + u] > 0 or escaped(words, low, high):
                return OTHER
            data[registers[to] + u], data[registers[to + 1] + u] = low, high
        elif flows >= 0:
            row = told[flows + build.COUNT]
            vertex = ints_at(told[flows + build.VERTEX], row + 1)
            if row > 0 and vertex[row - 1] >= u:
                return OTHER
            told[flows + build.COUNT] = row + 1
            vertex[row] = u
            floats_at(told[flows + build.ROWS], row + 1)[row] = room.number[m]
    return FINE
