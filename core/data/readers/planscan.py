"""Query plans read by compiled code, straight into arrays: strict JSON, of which a few keys mean something.

A stack of open brackets says what each is: the plan as a whole, a node, a list of nodes, what belongs to a
node, or something that is passed over.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abw.core.data.feed import Bytes
from abw.core.data.instances import Ints
from abw.core.data.intern import Eights
from abw.core.data.readers.jsontokens import (
    BAIL,
    CLOSE,
    CLOSE_LIST,
    COLON,
    COMMA,
    MINUS,
    NEWLINE,
    NINE,
    OPEN,
    OPEN_LIST,
    POINT,
    QUOTE,
    ZERO,
    Doubles,
    read_number,
    string_end,
)
from abw.core.ir import plans
from abw.core.ir.formats import SCHEMAS
from abw.core.jit.decorators import inner, njit

# The most brackets that are open at once.
DEEPEST = 1000
# What a key is: to be passed over, the operator, the root, the children, more of the node; or FIELD + number.
SKIP, TYPE, ROOT, NODES, MORE, FIELD = range(6)
# What an open bracket is.
_PLAN, _NODE, _MORE, _LIST, _OBJECT, _ARRAY = range(6)
# What comes next: a value, a value or the list's end, a key, a key or the object's end, what follows a value.
_VALUE, _FIRST_VALUE, _KEY, _FIRST_KEY, _AFTER = range(5)
# Why the scan ended: where enough was seen or the text ended, inside a plan, or at a fault.
(
    DONE, INSIDE, NOT_JSON, NO_PLAN, NO_TYPE, NOT_NUMBER, NOT_TEXT, NOT_NODES, NOT_NODE, SEVERAL, LATE, DEEP,
    LARGE, NOTHING,
) = range(14)  # fmt: skip
_VERTICES, _VALUES, _HARD, _LINES = range(4)
_SLOTS = 512
_MIX = np.uint64(0x9E3779B97F4A7C15)
_SHIFT, _HALF = np.uint64(55), np.uint64(32)
_LOW, _HIGH = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_BLANK, _TAB, _RETURN = 32, 9, 13
_QUOTES, _SLASHES, _BLANKS = _LOW * np.uint64(34), _LOW * np.uint64(92), _LOW * np.uint64(32)
_INDEX = np.uint64(0x0001020304050607)
_MASKS = np.array([256**size - 1 for size in range(8)] + [2**64 - 1], np.uint64)
LEAST_LARGE = 2.0**128 - 2.0**103
_KINDS = SCHEMAS["plans"].kinds
OTHER = _KINDS.index(plans.OTHER)
NUMBERS = (*plans.NODE_NUMBERS, *plans.PLAN_NUMBERS)
# Fields by number: those of numbers on nodes, on plans, and texts, of which the last is the operator.
FIELDS = tuple(map(plans.slug, (*NUMBERS, *plans.TEXTS, "Node Type")))
_RELATION = FIELD + FIELDS.index("parent-relationship")
_NODE_TYPE = FIELD + FIELDS.index("node-type")
_OF_PLANS, _OF_TEXTS = FIELD + len(plans.NODE_NUMBERS), FIELD + len(NUMBERS)


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
    (-1: none), whether it is an InitPlan or SubPlan. `value` (4, m): a value's field, vertex and offsets;
    `number` (m,) what it is. `hard` (m,) are the values whose numbers are to be read again. `rows` (3, n):
    of a plan the first vertex, the line, the offset. `stack` (3, DEEPEST): what is open, whose, since where.
    `counts` (4,) say how many vertices, values, hard numbers and lines there are. `next` (keys + 1,): the key
    that came last behind each.
    """

    kind: Bytes
    vertex: Ints
    value: Ints
    number: Doubles
    hard: Ints
    rows: Ints
    stack: Ints
    counts: NDArray[np.int64]
    next: Ints


def room_of(size: int) -> PlanRoom:
    """Room for what a text of so many bytes can hold at most."""
    vertices, values = size // 5 + 4, size // 8 + 4
    return PlanRoom(
        np.empty(vertices, np.uint8),
        np.empty((4, vertices), np.int32),
        np.empty((4, values), np.int32),
        np.empty(values),
        np.empty(values, np.int32),
        np.empty((3, size // 10 + 4), np.int32),
        np.empty((3, DEEPEST + 1), np.int32),
        np.zeros(4, np.int64),
        np.zeros(names().keys + 1, np.int32),
    )


@cache
def names() -> Names:
    """The table of keys and operators."""
    keys = dict.fromkeys(plans.TYPE_KEYS, TYPE) | {
        "Plan": ROOT, "Plans": NODES, "children": NODES, "extra_info": MORE
    }  # fmt: skip
    keys |= {key: FIELD + number for number, key in enumerate((*NUMBERS, *plans.TEXTS))}
    keys |= dict.fromkeys(plans.SKIPPED, SKIP)
    operators = {name: _KINDS.index(kind) for name, kind in plans.OPERATORS.items()}
    words = [word.encode() for word in (*keys, *operators)]
    size = np.array([len(word) for word in words], np.int32)
    begin = np.cumsum(size, dtype=np.int32) - size
    code = np.array([*keys.values(), *operators.values()], np.int32)
    slots = np.full((2, _SLOTS), -1, np.int32)
    found = Names(slots, eights_of(b"".join(words) + bytes(8)), begin, size, code, len(keys))
    _enter(found)
    return found


def eights_of(data: bytes) -> Eights:
    """The eight bytes from each place of a text on, as a number."""
    padded = data if len(data) > 8 else data + bytes(9)
    return np.ndarray(len(padded) - 7, np.uint64, padded, strides=(1,))


@inner
def _hash(eights: Eights, begin: int, size: int) -> int:
    """A number from 0 to 511 by a word's first and last bytes and its length."""
    at = min(begin, eights.size - 1)
    first = eights[at] >> np.uint64(8 * (begin - at)) & _MASKS[min(size, 8)]
    final = eights[begin + size - 8] if size > 8 else np.uint64(0)
    mixed = (first + (final ^ np.uint64(size))) * _MIX
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


@inner
def _same(eights: Eights, begin: int, known: Names, n: int) -> bool:
    """Whether known word n begins at an offset."""
    first, size, last = known.begin[n], known.size[n], eights.size - 1
    if size < 8:
        at = min(begin, last)
        here = eights[at] >> np.uint64(8 * (begin - at)) & _MASKS[size]
        return bool(here == known.eights[first] & _MASKS[size])
    if begin + size - 8 > last:
        return False
    same = eights[begin + size - 8] == known.eights[first + size - 8]
    for k in range(0, size - 8, 8):
        same &= eights[begin + k] == known.eights[first + k]
    return bool(same)


@inner
def _find(eights: Eights, begin: int, size: int, row: int, known: Names) -> int:
    """The number of a word, or -1."""
    slots = known.slots[row]
    slot = _hash(eights, begin, size)
    while slots[slot] >= 0:
        n = slots[slot]
        if known.size[n] == size and _same(eights, begin, known, n):
            return int(n)
        slot = (slot + 1) % _SLOTS
    return -1


@inner
def _closing(text: Bytes, eights: Eights, at: int) -> int:
    """The offset of the quote that ends the string whose first quote is before `at`, or BAIL."""
    while at < eights.size:
        word = eights[at]
        quote, slash = word ^ _QUOTES, word ^ _SLASHES
        found = (quote - _LOW) & ~quote | (slash - _LOW) & ~slash | (word - _BLANKS) & ~word
        found &= _HIGH
        if found:
            lowest = found & (~found + np.uint64(1))
            at += np.int64((lowest >> np.uint64(7)) * _INDEX >> np.uint64(56))  # type: ignore[assignment]
            return at if text[at] == QUOTE else string_end(text, at)
        at += 8
    return string_end(text, at)


@inner
def _word_after(text: Bytes, at: int, word: Bytes) -> int:
    """The offset behind a literal at an offset, or BAIL."""
    if at + len(word) > text.size:
        return BAIL
    for j in range(len(word)):
        if text[at + j] != word[j]:
            return BAIL
    return at + len(word)


_TRUE, _FALSE, _NULL = (np.frombuffer(word, np.uint8) for word in (b"true", b"false", b"null"))
_SMALL_T, _SMALL_F, _SMALL_E = 116, 102, 101
_EXACT = 1 << 24
# "InitPlan" and "SubPlan" by their first letters and how many they have.
_LARGE_I, _LARGE_S, _INIT_PLAN, _SUB_PLAN = 73, 83, 8, 7


@njit
def scan_plans(
    text: Bytes,
    eights: Eights,
    at: int,
    skip: int,
    stop: int,
    known: Names,
    powers: Doubles,
    room: PlanRoom,
) -> tuple[int, int, int, int]:
    """Read plans from an offset until `stop` of them are seen; of the first `skip` nothing is kept.

    Between plans white space, commas and square brackets stand for nothing. Returns how many were seen, the
    offset behind them, why it ended, and at which offset. Cost: about 0.7 ns a byte.
    """
    counts, seen, after = room.counts, 0, at
    while seen < stop:
        while at < text.size and (
            text[at] <= _BLANK or text[at] == COMMA or text[at] == OPEN_LIST or text[at] == CLOSE_LIST
        ):
            if text[at] < _BLANK and text[at] != _TAB and text[at] != _RETURN and text[at] != NEWLINE:
                return seen, after, NOTHING, at
            counts[_LINES] += text[at] == NEWLINE
            at += 1
        if at == text.size:
            return seen, at, DONE, at
        if text[at] != OPEN:
            return seen, after, NOTHING, at
        first, values, hard, row = counts[_VERTICES], counts[_VALUES], counts[_HARD], max(seen - skip, 0)
        room.rows[0, row], room.rows[1, row], room.rows[2, row] = first, counts[_LINES], at
        at, code = _plan(text, eights, at, known, powers, room)
        if code != DONE:
            counts[_VERTICES], counts[_VALUES], counts[_HARD] = first, values, hard
            return seen, after, code, at
        if seen < skip:
            counts[_VERTICES], counts[_VALUES], counts[_HARD] = 0, 0, 0
        seen += 1
        after = at
    return seen, after, DONE, after


@inner
def _white(text: Bytes, at: int, counts: NDArray[np.int64]) -> int:
    """The offset of what follows white space; its lines are counted."""
    while at < text.size and (
        text[at] == _BLANK or text[at] == NEWLINE or text[at] == _RETURN or text[at] == _TAB
    ):
        counts[_LINES] += text[at] == NEWLINE
        at += 1
    return at


@inner
def _add(room: PlanRoom, parent: int) -> int:
    """A new vertex."""
    v = room.counts[_VERTICES]
    room.kind[v] = 0
    room.vertex[0, v], room.vertex[1, v], room.vertex[2, v], room.vertex[3, v] = parent, -1, -1, 0
    room.counts[_VERTICES] += 1
    return int(v)


@inner
def _note(room: PlanRoom, action: int, owner: int, begin: int, end: int) -> int:
    """A new value of a field."""
    m, value = room.counts[_VALUES], room.value
    value[0, m], value[1, m], value[2, m], value[3, m] = action - FIELD, owner, begin, end
    room.counts[_VALUES] += 1
    return int(m)


@inner
def _meaning(action: int, top: int, depth: int) -> int:
    """What a key means in a bracket of some sort."""
    if _OF_PLANS <= action < _OF_TEXTS:
        return action if depth == 0 else SKIP
    if top == _PLAN:
        return action if action in (TYPE, ROOT, NODES) else SKIP
    if action == ROOT or (top == _MORE and action < FIELD):
        return SKIP
    return action


@inner
def _opened(action: int, top: int, is_list: bool) -> int:
    """What a bracket is that opens as the value of a key, or what is wrong with it, below 0."""
    if action == SKIP or (action == MORE and is_list):
        return _ARRAY if is_list else _OBJECT
    if action == MORE:
        return _MORE
    if action == ROOT or top == _LIST:
        return -NOT_NODE if is_list else _NODE
    if action == NODES:
        return _LIST if is_list else -NOT_NODES
    return _misplaced(action, top)


@inner
def _misplaced(action: int, top: int) -> int:
    """What is wrong with a value that is not what its key wants, below 0."""
    if action == ROOT or top == _LIST:
        return -NOT_NODE
    if action == NODES:
        return -NOT_NODES
    return -NOT_TEXT if action == TYPE or action >= _OF_TEXTS else -NOT_NUMBER


@inner
def _text(
    text: Bytes,
    eights: Eights,
    begin: int,
    end: int,
    action: int,
    top: int,
    owner: int,
    known: Names,
    powers: Doubles,
    room: PlanRoom,
) -> int:
    """Take a string as the value of a key; DONE, or what is wrong."""
    if action == TYPE:
        if room.kind[owner]:
            return DONE
        while end > begin + 1 and text[end - 1] == _BLANK:
            end -= 1
        n = _find(eights, begin, end - begin, 1, known)
        room.kind[owner] = known.code[n] if n >= 0 else OTHER
        _note(room, _NODE_TYPE, owner, begin, end)
    elif action >= _OF_TEXTS:
        if action == _RELATION:
            size = end - begin
            initial = text[begin] == _LARGE_I and size == _INIT_PLAN
            room.vertex[3, owner] = initial or (text[begin] == _LARGE_S and size == _SUB_PLAN)
        _note(room, action, owner, begin, end)
    elif action >= FIELD and top == _MORE:
        # DuckDB writes numbers there as texts
        number, certain, behind = read_number(text, begin, powers)
        if behind == end:
            _number(room, _note(room, action, owner, begin, end), number, certain)
    elif action >= FIELD or action in (ROOT, NODES):
        return -_misplaced(action, top)
    return DONE


@inner
def _number(room: PlanRoom, m: int, number: float, certain: bool) -> None:
    """Write the number that a value is; one that is not certain to be the nearest is noted."""
    room.number[m] = number
    if not certain or abs(number) >= LEAST_LARGE:
        room.hard[room.counts[_HARD]] = m
        room.counts[_HARD] += 1


@inner
def _short_number(text: Bytes, at: int, powers: Doubles) -> tuple[float, bool, int]:
    """See `read_number`: of few digits without an exponent, as nearly all are, in less time."""
    begin, whole, after = at, 0, at
    while at < text.size and ZERO <= text[at] <= NINE:
        whole = 10 * whole + text[at] - ZERO
        at += 1
    after, digits = at, at - begin
    if digits and at < text.size and text[at] == POINT:
        at += 1
        while at < text.size and ZERO <= text[at] <= NINE:
            whole = 10 * whole + text[at] - ZERO
            at += 1
        digits = at - begin
    fraction = max(at - after - 1, 0)
    # of numbers of 24 bits single precision makes the nearest of a quotient in double precision
    plain = 0 < digits <= 11 and whole < _EXACT and (at == after or fraction > 0)
    plain &= text[begin] != ZERO or after == begin + 1
    if not plain or (at < text.size and (text[at] | 32) == _SMALL_E):
        return read_number(text, begin, powers)
    return whole / powers[fraction], True, at


@inner
def _plan(
    text: Bytes, eights: Eights, at: int, known: Names, powers: Doubles, room: PlanRoom
) -> tuple[int, int]:
    """Read the plan whose first bracket is at an offset; returns the offset behind it and DONE, or of what is
    wrong and what that is.
    """
    counts, what, whose, since = room.counts, room.stack[0], room.stack[1], room.stack[2]
    begin, depth, early, roots, action, want, last = at, 0, False, 0, SKIP, _FIRST_KEY, known.keys
    first = _add(room, -1)
    what[0], whose[0], since[0] = _PLAN, first, at
    at += 1
    while depth >= 0:
        at = _white(text, at, counts)
        if at >= text.size:
            return at, INSIDE
        byte, top = text[at], what[depth]
        is_list = top in (_LIST, _ARRAY)
        if want == _KEY or (want == _FIRST_KEY and byte != CLOSE):
            if byte != QUOTE:
                return at, NOT_JSON
            key = room.next[last]
            end = at + 1 + known.size[key]
            if end >= text.size or text[end] != QUOTE or not _same(eights, at + 1, known, key):
                end = _closing(text, eights, at + 1)
                if end < 0:
                    return at, NOT_JSON
                key = _find(eights, at + 1, end - at - 1, 0, known)
                if key >= 0:
                    room.next[last] = key
            action = SKIP
            if top <= _MORE and key >= 0:
                last, action = key, known.code[key]
                # what the whole says of a node is lost if it turns out to be one
                early |= top == _PLAN and action > TYPE and not _OF_PLANS <= action < _OF_TEXTS
                action = _meaning(action, top, depth)
            at = _white(text, end + 1, counts)
            if at >= text.size:
                return at, INSIDE
            if text[at] != COLON:
                return at, NOT_JSON
            at = _white(text, at + 1, counts)
            if at >= text.size:
                return at, INSIDE
            byte = text[at]
        elif want in (_AFTER, _FIRST_KEY) or (want == _FIRST_VALUE and byte == CLOSE_LIST):
            if byte == COMMA and want == _AFTER:
                want = _VALUE if is_list else _KEY
                action = NODES if top == _LIST else SKIP
            elif byte == (CLOSE_LIST if is_list else CLOSE):
                if top == _NODE and room.kind[whose[depth]] == 0:
                    return int(since[depth]), NO_TYPE
                depth -= 1
                want = _AFTER
            else:
                return at, NOT_JSON
            at += 1
            continue
        start = at
        if byte in (OPEN, OPEN_LIST):
            now = _opened(action, top, byte == OPEN_LIST)
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
            want = _FIRST_VALUE if byte == OPEN_LIST else _FIRST_KEY
            action = NODES if now == _LIST else SKIP
            at += 1
            continue
        want = _AFTER
        if byte == QUOTE:
            end = _closing(text, eights, at + 1)
            if end < 0:
                return at, NOT_JSON
            at = end + 1
            if at < text.size and text[at] == COMMA and not is_list:
                at, want = at + 1, _KEY
            if action in (SKIP, MORE):
                continue
            if action == TYPE and top == _PLAN:
                if early or roots:
                    return start, LATE
                roots = 1
                what[0], whose[0] = _NODE, _add(room, -1)
            code = _text(text, eights, start + 1, end, action, top, int(whose[depth]), known, powers, room)
            if code != DONE:
                return start, code
            continue
        number, certain, told = 0.0, True, True
        if byte == MINUS or ZERO <= byte <= NINE:
            number, certain, at = _short_number(text, at, powers)
        elif byte == _SMALL_T:
            number, at = 1.0, _word_after(text, at, _TRUE)
        elif byte == _SMALL_F:
            at = _word_after(text, at, _FALSE)
        else:
            told, at = False, _word_after(text, at, _NULL)
        if at < 0:
            return start, NOT_JSON
        end = at
        if at < text.size and text[at] == COMMA and not is_list:
            at, want = at + 1, _KEY
        if action in (SKIP, MORE) or (not told and top != _LIST):
            continue
        if action < FIELD or action >= _OF_TEXTS:
            return start, -_misplaced(action, top)
        owner = first if action >= _OF_PLANS else int(whose[depth])
        _number(room, _note(room, action, owner, start, end), number, certain)
    if roots == 0:
        return begin, NO_PLAN
    left, right = room.vertex[1], room.vertex[2]
    for v in range(first + 1, counts[_VERTICES]):
        p = room.vertex[0, v]
        if p >= 0 and not room.vertex[3, v]:
            if left[p] < 0:
                left[p] = v
            elif right[p] < 0:
                right[p] = v
    return at, DONE
