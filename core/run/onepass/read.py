"""The stages that read a text, a stage for each format: `abw.core.data.readers`, into the block.

Each fills the kinds of vertices, where instances begin, and its columns, in the registers from `COLUMNS` on.
The text has one instance on each line, whole; whatever else it holds ends the pass with WRONG.
"""

from __future__ import annotations

from abw.core.data.readers.blanks import BEGIN, BEHIND, END, split
from abw.core.data.readers.jsontokens import BACKSLASH
from abw.core.data.readers.lattice import parse_lattices
from abw.core.data.readers.pairs import parse_pairs
from abw.core.data.readers.trees import parse_trees
from abw.core.data.readers.words import find
from abw.core.jit.addresses import bytes_at, bytes_in, int_table, ints_at, longs_at, longs_in, text_at
from abw.core.jit.decorators import entry, fragment
from abw.core.run.onepass import state as at
from abw.core.run.onepass.state import FINE, MORE, OTHER, WRONG, full, take

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
def _room(words: int, most: int, rows: int) -> bool:
    """Room for the kinds and columns of so many vertices, and for instances' lines."""
    state = longs_at(words, at.WORDS)
    state[at.KIND_AT], state[at.COLUMNS_AT] = take(words, most, 1), take(words, rows * most, 4)
    state[at.LINES_AT] = take(words, 2 * (state[at.COUNT] + 1), 4)
    state[at.START], state[at.START + 1] = take(words, state[at.COUNT] + 1, 8), state[at.COUNT] + 1
    return not full(words)


@fragment
def _found(words: int, seen: int, vertices: int, code: int) -> int:
    """Say where instances begin, if all were read."""
    state = longs_at(words, at.WORDS)
    count = state[at.COUNT]
    if code != 0 or seen != count:
        return WRONG
    start, lines = longs_in(state, at.START), int_table(state[at.LINES_AT], 2, count + 1)
    for i in range(count):
        start[i] = lines[0, i]
    start[count] = state[at.VERTICES] = vertices
    return FINE


@fragment
def _register(words: int, number: int, first: int, second: int, most: int) -> None:
    """Say which columns, of so many vertices, the two halves of a register tell of; -1: of none."""
    state = longs_at(words, at.WORDS)
    begin, place = (state[at.COLUMNS_AT] - state[at.BLOCK]) >> 2, 2 * (state[at.COLUMNS] + number)
    registers = longs_in(state, at.REGISTERS)
    registers[place] = begin + first * most if first >= 0 else -1
    registers[place + 1] = begin + second * most if second >= 0 else -1


@entry
def trees(words: int) -> int:
    """Registers: the parent and the last child, as links; labels and words, as texts."""
    state = longs_at(words, at.WORDS)
    text, count = text_at(state[at.TEXT], state[at.SIZE]), state[at.COUNT]
    most = count + 1
    for i in range(len(text)):
        most += text[i] == _OPEN
    if not in_lines(words):
        return WRONG
    if not _room(words, most, 6):
        return MORE
    kind, columns = bytes_at(state[at.KIND_AT], most), int_table(state[at.COLUMNS_AT], 6, most)
    lines = int_table(state[at.LINES_AT], 2, count + 1)
    seen, vertices, _, code = parse_trees(text, at.ZERO, at.ZERO, count, kind, columns, lines)
    _register(words, 0, -1, 0, most)
    _register(words, 1, -1, 1, most)
    _register(words, 2, 2, 3, most)
    _register(words, 3, 4, 5, most)
    return _found(words, seen, vertices, code)


@entry
def pairs(words: int) -> int:
    """Registers: words, as texts."""
    state = longs_at(words, at.WORDS)
    text, count = text_at(state[at.TEXT], state[at.SIZE]), state[at.COUNT]
    most = count + 3
    for i in range(len(text)):
        most += text[i] <= _BLANK
    if not in_lines(words):
        return WRONG
    if not _room(words, most, 3):
        return MORE
    kind, columns = bytes_at(state[at.KIND_AT], most), int_table(state[at.COLUMNS_AT], 3, most)
    lines = int_table(state[at.LINES_AT], 2, count + 1)
    seen, vertices, _, code = parse_pairs(text, at.ZERO, at.ZERO, count, kind, columns, lines)
    _register(words, 0, BEGIN, END, most)
    return _found(words, seen, vertices, code)


@entry
def sentences(words: int) -> int:
    """Plain text, or tagged where the format is that (`TAGGED`). Registers: words; tags, as texts."""
    state = longs_at(words, at.WORDS)
    text, count = text_at(state[at.TEXT], state[at.SIZE]), state[at.COUNT]
    most = 2 + count
    for i in range(len(text)):
        most += text[i] <= _BLANK
    if not in_lines(words):
        return WRONG
    fits = _room(words, most, 4)
    found = take(words, 3 * most, 4)
    if not fits or full(words):
        return MORE
    kind, columns = bytes_at(state[at.KIND_AT], most), int_table(state[at.COLUMNS_AT], 4, most)
    lines, pieces = int_table(state[at.LINES_AT], 2, count + 1), int_table(found, 3, most)
    for k in range(3 * most):
        ints_at(found, at.ENDLESS)[k] = 0
    seen, tokens, _ = split(text, at.ZERO, count, pieces, lines)
    if seen != count:
        return WRONG
    v = 0
    for i in range(count):
        begin, end = lines[1, i], lines[1, i + 1] if i + 1 < count else tokens
        lines[0, i], kind[v] = v, 0
        columns[0, v] = columns[1, v] = columns[2, v] = columns[3, v] = 0
        if text[pieces[BEGIN, begin]] <= _BLANK:  # control characters alone
            return WRONG
        v += 1
        for k in range(begin, end):
            first, last, behind = pieces[BEGIN, k], pieces[END, k], pieces[BEHIND, k]
            kind[v] = 1
            columns[0, v], columns[1, v] = first, last
            columns[2, v] = columns[3, v] = 0
            if state[at.TAGGED] != 0:
                if behind <= first + 1 or behind == last:
                    return WRONG
                columns[1, v], columns[2, v], columns[3, v] = behind - 1, behind, last
            v += 1
    _register(words, 0, 0, 1, most)
    _register(words, 1, 2, 3, most)
    return _found(words, seen, v, 0)


@entry
def tokens(words: int) -> int:
    """Plain text whose tokens are found by `TOKENS`, `words.find`'s masks. Registers: words, as texts."""
    state = longs_at(words, at.WORDS)
    text, count, size = text_at(state[at.TEXT], state[at.SIZE]), state[at.COUNT], state[at.SIZE]
    most, blanks = size + count + 1, 2 + count
    for i in range(size):
        blanks += text[i] <= _BLANK
    fits = _room(words, most, 2)
    pieces_at, ends_at = take(words, 3 * blanks, 4), take(words, 2 * count, 4)
    found_at, ptr_at = take(words, 2 * (size + 1), 4), take(words, count + 1, 4)
    if not fits or full(words):
        return MORE
    # the last sign has all of its bytes
    if text[size - 1] >= _TWO_BYTES or (size > 1 and text[size - 2] >= _THREE_BYTES):
        return WRONG
    pieces, lines = int_table(pieces_at, 3, blanks), int_table(state[at.LINES_AT], 2, count + 1)
    for k in range(3 * blanks):
        ints_at(pieces_at, at.ENDLESS)[k] = 0
    seen, last, _ = split(text, at.ZERO, count, pieces, lines)
    if seen != count:
        return WRONG
    ends = int_table(ends_at, 2, count)
    for i in range(count):
        ends[0, i] = pieces[BEGIN, lines[1, i]]
        ends[1, i] = pieces[END, (lines[1, i + 1] if i + 1 < count else last) - 1]
        if text[ends[0, i]] <= _BLANK:  # control characters alone
            return WRONG
    found, ptr = int_table(found_at, 2, size + 1), ints_at(ptr_at, count + 1)
    many = state[at.TOKENS_MANY]
    if find(text, ends[0], ends[1], bytes_in(state, at.TOKENS), many, found, ptr) < 0:
        return OTHER
    kind, columns, v = bytes_at(state[at.KIND_AT], most), int_table(state[at.COLUMNS_AT], 2, most), 0
    for i in range(count):
        if ptr[i] == ptr[i + 1]:
            return WRONG
        lines[0, i], kind[v], columns[0, v], columns[1, v] = v, 0, 0, 0
        v += 1
        for k in range(ptr[i], ptr[i + 1]):
            kind[v], columns[0, v], columns[1, v] = 1, found[0, k], found[1, k]
            v += 1
    _register(words, 0, 0, 1, most)
    return _found(words, seen, v, 0)


@entry
def lattices(words: int) -> int:
    """Registers: from and to, as links; ids and tags. Between two lattices stands a line with a byte 1."""
    state = longs_at(words, at.WORDS)
    text, count = text_at(state[at.TEXT], state[at.SIZE]), state[at.COUNT]
    lines, most = 1, 2
    for i in range(len(text)):
        lines += text[i] == _NEWLINE
        most += text[i] <= _BLANK
    rooms = most // 2 + lines
    fits = _room(words, rooms, 4)
    scratch, rows = take(words, 3 * most, 4), take(words, 2 * lines, 4)
    if not fits or full(words):
        return MORE
    kind, columns = bytes_at(state[at.KIND_AT], rooms), int_table(state[at.COLUMNS_AT], 4, rooms)
    firsts = int_table(rows, 2, lines)
    seen, vertices, end, code, _, _ = parse_lattices(
        text, at.ZERO, count, at.ZERO, count, kind, columns, firsts, int_table(scratch, 3, most)
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
    given = int_table(state[at.LINES_AT], 2, count + 1)
    for i in range(count):
        given[0, i] = firsts[0, i]
    _register(words, 0, -1, 0, rooms)
    _register(words, 1, -1, 1, rooms)
    _register(words, 2, 2, -1, rooms)
    _register(words, 3, 3, -1, rooms)
    return _found(words, seen, vertices, code)
