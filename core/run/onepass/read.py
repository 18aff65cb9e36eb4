"""The stages that read a text, a stage for each format: `abw.core.data.readers`, into the block.

Each fills the kinds of vertices, where instances begin, and its columns, of which the registers from
`COLUMNS` on have those that `HALVES` says (`binding.Format`).
The text has one instance on each line, whole; whatever else it holds ends the pass with WRONG.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.data.readers.blanks import BEGIN, END, parse_sentences
from abw.core.data.readers.jsontokens import BACKSLASH
from abw.core.data.readers.lattice import parse_lattices
from abw.core.data.readers.pairs import parse_pairs
from abw.core.data.readers.trees import parse_trees
from abw.core.data.readers.words import find
from abw.core.jit.addresses import address_of, bytes_at, bytes_in, int_table, longs_at, longs_in, text_at
from abw.core.jit.decorators import entry, fragment
from abw.core.run.onepass import build
from abw.core.run.onepass import state as at
from abw.core.run.onepass.state import FINE, MORE, OTHER, WRONG, Ints, full, spare, take

Bytes = NDArray[np.uint8]

# The first bytes of signs of two bytes and of three.
_TWO_BYTES, _THREE_BYTES = 0xC0, 0xE0
# Bytes: a new line, a bracket, the largest blank, what parts lattices, how a mark of the byte order begins.
_NEWLINE, _OPEN, _BLANK, _PARTING, _MARK = 10, 40, 32, 1, 0xEF


@fragment
def in_lines(words: int) -> bool:
    """Whether the text has as many lines as instances, and no byte-order mark."""
    state = longs_at(words, at.WORDS)
    text, lines, marks = bytes_at(state[at.TEXT], state[at.SIZE]), 1, 0
    for i in range(len(text)):
        lines += text[i] == _NEWLINE
        marks += text[i] == _MARK
    if marks > 0:
        for i in range(len(text)):
            if text[i] == _MARK and (i == 0 or text[i - 1] == _NEWLINE):
                return False
    return lines == state[at.COUNT]  # type: ignore[no-any-return]


@fragment
def escaped(words: int, low: int, high: int) -> bool:
    """Whether a backslash stands in a part of the text."""
    state = longs_at(words, at.WORDS)
    text = bytes_at(state[at.TEXT], state[at.SIZE])
    found = False
    for j in range(low, high):
        found |= text[j] == BACKSLASH
    return found


@fragment
def field_room(words: int, register: int, field: int, whole: bool, many: int, size: int) -> bool:
    """Room for a field: in a register for each vertex's text, empty, or (`whole`) number, -1; else, where it
    flows in as a field, for so many rows of this size. False without.
    """
    state = longs_at(words, at.WORDS)
    v, registers, told = state[at.VERTICES], longs_in(state, at.REGISTERS), longs_in(state, at.FIELDS)
    if register >= 0:
        first, second, begin = spare(words, v), spare(words, v), state[at.BLOCK]
        registers[2 * register] = (address_of(first) - begin) >> 2
        registers[2 * register + 1] = -1 if whole else (address_of(second) - begin) >> 2
        for u in range(0 if full(words) else v):
            first[u], second[u] = -1 if whole else 0, 0
    elif field >= 0:
        f = field * build.OF_FIELD
        told[f + build.VERTEX], told[f + build.ROWS] = take(words, many, 4), take(words, many * size, 4)
        told[f + build.COUNT], told[f + build.FLOATS] = 0, size
    return not full(words)


@fragment
def _room(words: int, most: int, rows: int) -> tuple[Bytes, Ints, Ints]:
    """Room for the kinds of so many vertices, their columns (rows, most), and instances' lines (2, n + 1)."""
    state = longs_at(words, at.WORDS)
    count = state[at.COUNT]
    state[at.KIND_AT], state[at.COLUMNS_AT] = take(words, most, 1), take(words, rows * most, 4)
    state[at.LINES_AT] = take(words, 2 * (count + 1), 4)
    state[at.START], state[at.START + 1] = take(words, count + 1, 8), count + 1
    columns, lines = int_table(state[at.COLUMNS_AT], rows, most), int_table(state[at.LINES_AT], 2, count + 1)
    return bytes_at(state[at.KIND_AT], most), columns, lines


@fragment
def _found(words: int, seen: int, vertices: int, code: int, most: int) -> int:
    """Say where instances begin, and which columns (of `most` vertices) registers have, if all were read."""
    state = longs_at(words, at.WORDS)
    count = state[at.COUNT]
    if code != 0 or seen != count:
        return WRONG
    start, lines = longs_in(state, at.START), int_table(state[at.LINES_AT], 2, count + 1)
    for i in range(count):
        start[i] = lines[0, i]
    start[count] = state[at.VERTICES] = vertices
    halves, registers = longs_in(state, at.HALVES), longs_in(state, at.REGISTERS)
    begin, first = (state[at.COLUMNS_AT] - state[at.BLOCK]) >> 2, 2 * state[at.COLUMNS]
    for h in range(len(halves)):
        registers[first + h] = begin + halves[h] * most if halves[h] >= 0 else -1
    return FINE


@entry
def trees(words: int) -> int:
    """Trees in brackets."""
    state = longs_at(words, at.WORDS)
    text, count = text_at(state[at.TEXT], state[at.SIZE]), state[at.COUNT]
    most = count + 1
    for i in range(len(text)):
        most += text[i] == _OPEN
    if not in_lines(words):
        return WRONG
    kind, columns, lines = _room(words, most, 6)
    if full(words):
        return MORE
    seen, vertices, _, code = parse_trees(text, at.ZERO, at.ZERO, count, kind, columns, lines)
    return _found(words, seen, vertices, code, most)


@entry
def pairs(words: int) -> int:
    """Pairs of sentences."""
    state = longs_at(words, at.WORDS)
    text, count = text_at(state[at.TEXT], state[at.SIZE]), state[at.COUNT]
    most = _blanks(words) + 3
    if not in_lines(words):
        return WRONG
    kind, columns, lines = _room(words, most, 3)
    if full(words):
        return MORE
    seen, vertices, _, code = parse_pairs(text, at.ZERO, at.ZERO, count, kind, columns, lines)
    return _found(words, seen, vertices, code, most)


@fragment
def _blanks(words: int) -> int:
    """How many blanks the text has, and instances."""
    state = longs_at(words, at.WORDS)
    text, found = text_at(state[at.TEXT], state[at.SIZE]), state[at.COUNT]
    for i in range(len(text)):
        found += text[i] <= _BLANK
    return found  # type: ignore[no-any-return]


@entry
def sentences(words: int) -> int:
    """Plain text, or tagged where the format is that (`TAGGED`)."""
    state = longs_at(words, at.WORDS)
    text, count = text_at(state[at.TEXT], state[at.SIZE]), state[at.COUNT]
    most = _blanks(words) + 3
    if not in_lines(words):
        return WRONG
    kind, columns, lines = _room(words, most, 4 if state[at.TAGGED] != 0 else 3)
    if full(words):
        return MORE
    seen, vertices, _, code = parse_sentences(text, at.ZERO, at.ZERO, count, kind, columns, lines)
    return _found(words, seen, vertices, code, most)


@entry
def tokens(words: int) -> int:
    """Plain text whose tokens are found by `TOKENS`, `words.find`'s masks."""
    state = longs_at(words, at.WORDS)
    text, count, size = text_at(state[at.TEXT], state[at.SIZE]), state[at.COUNT], state[at.SIZE]
    most, blanks = size + count + 1, _blanks(words) + 3
    kind, columns, lines = _room(words, most, 2)
    pieces, ptr = int_table(take(words, 3 * blanks, 4), 3, blanks), spare(words, count + 1)
    ends = int_table(take(words, 2 * count, 4), 2, count)
    found = int_table(take(words, 2 * (size + 1), 4), 2, size + 1)
    if full(words):
        return MORE
    # the last sign has all of its bytes
    if text[size - 1] >= _TWO_BYTES or (size > 1 and text[size - 2] >= _THREE_BYTES):
        return WRONG
    seen, last, _, code = parse_sentences(text, at.ZERO, at.ZERO, count, kind, pieces, lines)
    if seen != count or code != 0:
        return WRONG
    for i in range(count):
        ends[0, i] = pieces[BEGIN, lines[0, i] + 1]
        ends[1, i] = pieces[END, (lines[0, i + 1] if i + 1 < count else last) - 1]
    many, v = state[at.TOKENS_MANY], 0
    if find(text, ends[0], ends[1], bytes_in(state, at.TOKENS), many, found, ptr) < 0:
        return OTHER
    for i in range(count):
        if ptr[i] == ptr[i + 1]:
            return WRONG
        lines[0, i], kind[v], columns[0, v], columns[1, v] = v, 0, 0, 0
        v += 1
        for k in range(ptr[i], ptr[i + 1]):
            kind[v], columns[0, v], columns[1, v] = 1, found[0, k], found[1, k]
            v += 1
    return _found(words, seen, v, 0, most)


@entry
def lattices(words: int) -> int:
    """Lattices, between two of which stands a line with a byte 1."""
    state = longs_at(words, at.WORDS)
    text, count = text_at(state[at.TEXT], state[at.SIZE]), state[at.COUNT]
    lines, most = 1, 2 + _blanks(words) - count
    for i in range(len(text)):
        lines += text[i] == _NEWLINE
    rooms = most // 2 + lines
    kind, columns, given = _room(words, rooms, 4)
    scratch = int_table(take(words, 3 * most, 4), 3, most)
    firsts = int_table(take(words, 2 * lines, 4), 2, lines)
    if full(words):
        return MORE
    seen, vertices, end, code, _, _ = parse_lattices(
        text, at.ZERO, count, at.ZERO, count, kind, columns, firsts, scratch
    )
    if code != 0 or seen != count:
        return WRONG
    line, met, parted = 1, 0, 0
    for i in range(len(text)):
        if i >= end and text[i] > _BLANK:
            return WRONG
        if met < count and line == firsts[1, met] and text[i] > _BLANK:
            met += 1
            if met != parted + 1:
                return WRONG
        if text[i] == _PARTING:
            parted += 1
            if met != parted:
                return WRONG
        line += text[i] == _NEWLINE
    if met != count or parted != count - 1:
        return WRONG
    for i in range(count):
        given[0, i] = firsts[0, i]
    return _found(words, seen, vertices, code, rooms)
