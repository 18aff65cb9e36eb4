"""Query plans read by compiled code, straight into arrays: strict JSON, of which a few keys mean something.

A stack of open brackets says what each is: the plan as a whole, a node, a list of nodes, what belongs to a
node, or something that is passed over.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from abw.core.data.feed import Bytes
from abw.core.data.instances import Ints, Longs
from abw.core.data.intern import Eights
from abw.core.data.readers.jsontokens import (
    BAIL,
    BLANK,
    CLOSE,
    CLOSE_LIST,
    COLON,
    COMMA,
    MINUS,
    NEWLINE,
    NINE,
    OPEN,
    OPEN_LIST,
    QUOTE,
    TOO_LARGE,
    ZERO,
    Doubles,
    Json,
    json_of,
    masked,
    read_number,
    same,
    spaces,
    string_end,
)
from abw.core.ir import formats
from abw.core.jit.decorators import njit, within

# The most brackets that are open at once.
DEEPEST = 1000
# What a key is: to be passed over, the operator, the root, the children, more of the node; or FIELD + number.
SKIP, TYPE, ROOT, NODES, MORE, FIELD = range(6)
# What an open bracket is: the plan as a whole, which may turn out to be the root, a node, ….
_PLAN, _OUTERMOST, _NODE, _MORE, _LIST, _OBJECT, _ARRAY = range(7)
# Why the scan ended: where enough was seen or the text ended, inside a plan, or at a fault.
(
    DONE, INSIDE, NOT_JSON, NO_PLAN, NO_TYPE, NOT_NUMBER, NOT_TEXT, NOT_NODES, NOT_NODE, SEVERAL, LATE, DEEP,
    LARGE, NOTHING,
) = range(14)  # fmt: skip
# What a key means in a bracket of each sort, of keys as above and of numbers, those of plans, and texts; in
# MORE DuckDB writes numbers as texts.
_NUMBER, _TEXT, _TOLD, _MEMBER = range(5, 9)
_MEANINGS = np.zeros((7, 8), np.uint8)
_MEANINGS[_PLAN] = SKIP, TYPE, ROOT, NODES, SKIP, SKIP, _NUMBER, SKIP
_MEANINGS[_OUTERMOST] = SKIP, TYPE, SKIP, NODES, MORE, _NUMBER, _NUMBER, _TEXT
_MEANINGS[_NODE] = SKIP, TYPE, SKIP, NODES, MORE, _NUMBER, SKIP, _TEXT
_MEANINGS[_MORE] = SKIP, SKIP, SKIP, SKIP, SKIP, _TOLD, SKIP, _TEXT
_MEANINGS[_LIST] = _MEMBER
# What is done with a value by that, if it is an object, a list, a text, a number, null: the bracket is opened
# as this, it is taken, it is passed over; or what is wrong with it, below 0.
_AS_TEXT, _AS_NUMBER, _AS_NULL = 2, 3, 4
_PASS, _TAKE = 0, 1
_DOES = np.zeros((9, 5), np.int8)
_DOES[SKIP] = _OBJECT, _ARRAY, _PASS, _PASS, _PASS
_DOES[MORE] = _MORE, _ARRAY, _PASS, _PASS, _PASS
_DOES[TYPE] = _DOES[_TEXT] = -NOT_TEXT, -NOT_TEXT, _TAKE, -NOT_TEXT, _PASS
_DOES[_NUMBER] = -NOT_NUMBER, -NOT_NUMBER, -NOT_NUMBER, _TAKE, _PASS
_DOES[_TOLD] = -NOT_NUMBER, -NOT_NUMBER, _TAKE, _TAKE, _PASS
_DOES[NODES] = -NOT_NODES, _LIST, -NOT_NODES, -NOT_NODES, _PASS
_DOES[ROOT] = _NODE, -NOT_NODE, -NOT_NODE, -NOT_NODE, _PASS
_DOES[_MEMBER] = _NODE, -NOT_NODE, -NOT_NODE, -NOT_NODE, -NOT_NODE
_VERTICES, _VALUES, _HARD, _LINES = range(4)
_SLOTS, _TAB, _RETURN = 512, 9, 13
_MIX, _SHIFT, _HALF = np.uint64(0x9E3779B97F4A7C15), np.uint64(55), np.uint64(32)
_KINDS = formats.SCHEMAS["plans"].kinds
OTHER = _KINDS.index(formats.OTHER)
NUMBERS = (*formats.NODE_NUMBERS, *formats.PLAN_NUMBERS)
# Fields by number: those of numbers on nodes, on plans, and texts, of which the last is the operator.
FIELDS = tuple(map(formats.slug, (*NUMBERS, *formats.TEXTS, "Node Type")))
_RELATION = FIELD + FIELDS.index("parent-relationship")
_NODE_TYPE = FIELD + FIELDS.index("node-type")
_OF_PLANS, _OF_TEXTS = FIELD + len(formats.NODE_NUMBERS), FIELD + len(NUMBERS)


class Names(NamedTuple):
    """Known words by hash: `slots` (2, 512) have the number of a key or operator, or -1; word n has `size[n]`
    bytes from place `begin[n]` of a text, `eights` of it, and means `code[n]`. `keys` are keys.
    """

    slots: Ints
    eights: Eights
    begin: Ints
    size: Ints
    code: Ints
    keys: int


class PlanRoom(NamedTuple):
    """Where `scan_plans` writes: of a vertex its kind, and `vertex` (4, V): parent, first and second child
    (-1: none), how many children that are no InitPlan or SubPlan (of an instance -1). Of a value its `field`
    (m,) and vertex, `owner` (m,); a number is in `number` (m,), the offsets of a text in `span` (m, 2), the
    same memory. `hard` (3, m) are values whose numbers are to be read again, and the offsets of these. `rows`
    (3, n): of a plan the first vertex, the line, the offset. `stack` (3, DEEPEST): what is open, whose, since
    where. `counts` (4,) say how many vertices, values, hard numbers and lines there are. `next` (keys + 1,):
    the key that came last behind each.
    """

    kind: Bytes
    vertex: Ints
    field: Bytes
    owner: Ints
    number: Doubles
    span: Ints
    hard: Ints
    rows: Ints
    stack: Ints
    counts: Longs
    next: Ints


def room_of(size: int) -> PlanRoom:
    """Room for what a text of so many bytes can hold at most."""
    vertices, values = size // 5 + 4, size // 8 + 4
    number = np.empty(values)
    return PlanRoom(
        np.empty(vertices, np.uint8),
        np.empty((4, vertices), np.int32),
        np.empty(values, np.uint8),
        np.empty(values, np.int32),
        number,
        number.view(np.int32).reshape(-1, 2),
        np.empty((3, values), np.int32),
        np.empty((3, size // 10 + 4), np.int32),
        np.empty((3, DEEPEST + 1), np.int32),
        np.zeros(4, np.int64),
        np.zeros(names().keys + 1, np.int32),
    )


@cache
def names() -> Names:
    """The table of keys and operators."""
    keys = dict.fromkeys(formats.TYPE_KEYS, TYPE) | {
        "Plan": ROOT, "Plans": NODES, "children": NODES, "extra_info": MORE
    }  # fmt: skip
    keys |= {key: FIELD + number for number, key in enumerate((*NUMBERS, *formats.TEXTS))}
    keys |= dict.fromkeys(formats.SKIPPED, SKIP)
    operators = {name: _KINDS.index(kind) for name, kind in formats.OPERATORS.items()}
    words = [word.encode() for word in (*keys, *operators)]
    size = np.array([len(word) for word in words], np.int32)
    begin = np.cumsum(size, dtype=np.int32) - size
    code = np.array([*keys.values(), *operators.values()], np.int32)
    slots = np.full((2, _SLOTS), -1, np.int32)
    found = Names(slots, json_of(b"".join(words) + bytes(8)).eights, begin, size, code, len(keys))
    _enter(found)
    return found


@within
def _hash(eights: Eights, begin: int, size: int) -> int:
    """A number from 0 to 511 by a word's first and last bytes and its length."""
    final = eights[begin + size - 8] if size > 8 else np.uint64(0)
    mixed = (masked(eights, begin, size) + (final ^ np.uint64(size))) * _MIX
    return np.int64((mixed ^ mixed >> _HALF) * _MIX >> _SHIFT)  # type: ignore[return-value]


@njit
def _enter(known: Names) -> None:
    """Enter words into the table: keys into row 0, operators into row 1."""
    for n in range(len(known.begin)):
        row = known.slots[int(n >= known.keys)]
        slot = _hash(known.eights, known.begin[n], known.size[n])
        while row[slot] >= 0:
            slot = (slot + 1) % _SLOTS
        row[slot] = n


@within
def _find(eights: Eights, begin: int, size: int, row: int, known: Names) -> int:
    """The number of a word, or -1."""
    slots = known.slots[row]
    slot = _hash(eights, begin, size)
    while slots[slot] >= 0:
        n = slots[slot]
        if known.size[n] == size and same(eights, begin, known.eights, known.begin[n], size):
            return int(n)
        slot = (slot + 1) % _SLOTS
    return -1


@within
def _word_after(json: Json, at: int, word: np.uint64, size: int) -> int:
    """The offset behind a literal at an offset, or BAIL."""
    there = masked(json.eights, at, size) == np.uint64(word)
    return at + size if there and at + size <= json.text.size else BAIL


_TRUE, _FALSE, _NULL = (np.uint64(int.from_bytes(word, "little")) for word in (b"true", b"false", b"null"))
_SMALL_T, _SMALL_F = 116, 102
# "InitPlan" and "SubPlan" by their first letters and how many they have.
_LARGE_I, _LARGE_S, _INIT_PLAN, _SUB_PLAN = 73, 83, 8, 7


@njit
def scan_plans(
    json: Json, at: int, skip: int, stop: int, known: Names, room: PlanRoom
) -> tuple[int, int, int, int]:
    """Read plans from an offset until `stop` of them are seen; of the first `skip` nothing is kept.

    Between plans white space, commas and square brackets stand for nothing. Returns how many were seen, the
    offset behind them, why it ended, and at which offset. Cost: about 0.7 ns a byte.
    """
    text, counts, seen, after = json.text, room.counts, 0, at
    while seen < stop:
        while at < text.size and (
            text[at] <= BLANK or text[at] == COMMA or text[at] == OPEN_LIST or text[at] == CLOSE_LIST
        ):
            if text[at] < BLANK and text[at] != _TAB and text[at] != _RETURN and text[at] != NEWLINE:
                return seen, after, NOTHING, at
            counts[_LINES] += text[at] == NEWLINE
            at += 1
        if at == text.size:
            return seen, at, DONE, at
        if text[at] != OPEN:
            return seen, after, NOTHING, at
        first, values, hard, row = counts[_VERTICES], counts[_VALUES], counts[_HARD], max(seen - skip, 0)
        room.rows[0, row], room.rows[1, row], room.rows[2, row] = first, counts[_LINES], at
        at, code = _plan(json, at, known, room)
        if code != DONE:
            counts[_VERTICES], counts[_VALUES], counts[_HARD] = first, values, hard
            return seen, after, code, at
        if seen < skip:
            counts[_VERTICES], counts[_VALUES], counts[_HARD] = 0, 0, 0
        seen += 1
        after = at
    return seen, after, DONE, after


@within
def _white(json: Json, at: int, counts: Longs) -> int:
    """The offset of what follows white space; its lines are counted."""
    text = json.text
    while at < text.size and text[at] <= BLANK:
        byte = text[at]
        at += 1
        if byte == NEWLINE:
            counts[_LINES] += 1
            at = spaces(json.eights, at)
        elif byte != BLANK and byte != _TAB and byte != _RETURN:
            return at - 1
    return at


@within
def _add(room: PlanRoom, parent: int) -> int:
    """A new vertex."""
    v = room.counts[_VERTICES]
    room.kind[v] = 0
    room.vertex[0, v], room.vertex[1, v], room.vertex[2, v], room.vertex[3, v] = parent, -1, -1, 0
    room.counts[_VERTICES] += 1
    return int(v)


@within
def _note(room: PlanRoom, action: int, owner: int) -> int:
    """A new value of a field."""
    m = room.counts[_VALUES]
    room.field[m], room.owner[m] = action - FIELD, owner
    room.counts[_VALUES] += 1
    return int(m)


@within
def _note_number(
    room: PlanRoom, action: int, owner: int, number: float, certain: bool, begin: int, end: int
) -> None:
    """A number as the value of a field; one that is not certain to be the nearest is noted."""
    m = _note(room, action, owner)
    room.number[m] = number
    if not certain or abs(number) >= TOO_LARGE:
        h, hard = room.counts[_HARD], room.hard
        hard[0, h], hard[1, h], hard[2, h] = m, begin, end
        room.counts[_HARD] += 1


@within
def _take_text(
    json: Json, begin: int, end: int, action: int, owner: int, known: Names, room: PlanRoom
) -> None:
    """Take a string as the operator, a text, or the number that it is."""
    text, eights = json.text, json.eights
    if FIELD <= action < _OF_TEXTS:
        number, certain, behind = read_number(json, begin)
        if behind == end:
            _note_number(room, action, owner, number, certain, begin, end)
        return
    if action == TYPE:
        if room.kind[owner]:
            return
        while end > begin + 1 and text[end - 1] == BLANK:
            end -= 1
        n = _find(eights, begin, end - begin, 1, known)
        room.kind[owner] = known.code[n] if n >= 0 else OTHER
        action = _NODE_TYPE
    elif action == _RELATION:
        size = end - begin
        initial = text[begin] == _LARGE_I and size == _INIT_PLAN
        room.vertex[3, owner] = initial or (text[begin] == _LARGE_S and size == _SUB_PLAN)
    m = _note(room, action, owner)
    room.span[m, 0], room.span[m, 1] = begin, end


@within
def _plan(json: Json, at: int, known: Names, room: PlanRoom) -> tuple[int, int]:
    """Read the plan whose first bracket is at an offset; returns the offset behind it and DONE, or of what is
    wrong and what that is.
    """
    text, eights, counts = json.text, json.eights, room.counts
    what, whose, since = room.stack[0], room.stack[1], room.stack[2]
    begin, depth, early, roots, last = at, 0, False, 0, known.keys
    first = _add(room, -1)
    what[0], whose[0], since[0] = _PLAN, first, at
    top, opened = _PLAN, True
    while True:
        # behind a bracket that has opened, or a comma
        at = _white(json, at + 1, counts)
        if at >= text.size:
            return at, INSIDE
        is_list = top in (_LIST, _ARRAY)
        if not (opened and text[at] == (CLOSE_LIST if is_list else CLOSE)):
            opened, action = False, SKIP
            if not is_list:
                if text[at] != QUOTE:
                    return at, NOT_JSON
                key = room.next[last]
                size = known.size[key]
                end = at + 1 + size
                expected = end < text.size and text[end] == QUOTE
                if not expected or not same(eights, at + 1, known.eights, known.begin[key], size):
                    end = string_end(json, at + 1)
                    if end == BAIL:
                        return at, NOT_JSON
                    key = _find(eights, at + 1, end - at - 1, 0, known)
                    if key >= 0:
                        room.next[last] = key
                if top <= _MORE and key >= 0:
                    last, action = key, known.code[key]
                    # what the whole says of a node is lost if it turns out to be one
                    early |= top == _PLAN and action > TYPE and not _OF_PLANS <= action < _OF_TEXTS
                at = _white(json, end + 1, counts)
                if at >= text.size:
                    return at, INSIDE
                if text[at] != COLON:
                    return at, NOT_JSON
                at = _white(json, at + 1, counts)
                if at >= text.size:
                    return at, INSIDE
            sort = action if action < FIELD else FIELD + (action >= _OF_PLANS) + (action >= _OF_TEXTS)
            meaning, byte, start = _MEANINGS[top, sort], text[at], at
            if byte in (OPEN, OPEN_LIST):
                now = int(_DOES[meaning, int(byte == OPEN_LIST)])
                if now < 0:
                    return at, -now
                depth += 1
                if depth == DEEPEST:
                    return at, DEEP
                owner = int(whose[depth - 1])
                if now == _NODE:
                    roots += owner == first
                    if owner == first and roots > 1:
                        return at, SEVERAL
                    owner = _add(room, owner if owner != first else -1)
                what[depth], whose[depth], since[depth] = now, owner, at
                top, opened = now, True
                continue
            number, certain, value = 0.0, True, _AS_NUMBER
            if byte == QUOTE:
                value, at = _AS_TEXT, string_end(json, at + 1) + 1
            elif byte == MINUS or ZERO <= byte <= NINE:
                number, certain, at = read_number(json, at)
            elif byte == _SMALL_T:
                number, at = 1.0, _word_after(json, at, _TRUE, 4)
            elif byte == _SMALL_F:
                at = _word_after(json, at, _FALSE, 5)
            else:
                value, at = _AS_NULL, _word_after(json, at, _NULL, 4)
            if at >= BAIL:
                return start, NOT_JSON
            now = int(_DOES[meaning, value])
            if now < 0:
                return start, -now
            if now == _TAKE:
                if meaning == TYPE and top == _PLAN:
                    if early or roots:
                        return start, LATE
                    roots, top = 1, _OUTERMOST
                    what[0], whose[0] = top, _add(room, -1)
                owner = first if _OF_PLANS <= action < _OF_TEXTS else int(whose[depth])
                if value == _AS_TEXT:
                    _take_text(json, start + 1, at - 1, action, owner, known, room)
                else:
                    _note_number(room, action, owner, number, certain, start, at)
            at = _white(json, at, counts)
        while at < text.size and text[at] == (CLOSE_LIST if top in (_LIST, _ARRAY) else CLOSE):
            if top in (_OUTERMOST, _NODE) and room.kind[whose[depth]] == 0:
                return int(since[depth]), NO_TYPE
            depth -= 1
            at += 1
            if depth < 0:
                if roots == 0:
                    return begin, NO_PLAN
                _pair(room, first)
                return at, DONE
            top, opened = int(what[depth]), False
            at = _white(json, at, counts)
        if at >= text.size:
            return at, INSIDE
        if text[at] != COMMA:
            return at, NOT_JSON


@within
def _pair(room: PlanRoom, first: int) -> None:
    """Write the first two children and the number of children of each vertex from the first one on, InitPlans
    and SubPlans apart. `_text` has noted in the place of a vertex's number that it is one of these.
    """
    parent, left, right, children = room.vertex[0], room.vertex[1], room.vertex[2], room.vertex[3]
    children[first] = -1
    for v in range(first + 1, room.counts[_VERTICES]):
        p, apart = parent[v], children[v]
        children[v] = 0
        if p >= 0 and not apart:
            children[p] += 1
            if left[p] < 0:
                left[p] = v
            elif right[p] < 0:
                right[p] = v
