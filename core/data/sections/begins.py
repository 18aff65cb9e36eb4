"""Where the instances of a file begin, found without reading what they say."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from abw.core.data.feed import BOM, Bytes, count_where, open_data
from abw.core.data.readers.blanks import control
from abw.core.data.readers.pairs import LEAST_WORDS
from abw.core.jit.decorators import njit

Longs = NDArray[np.int64]
# Offsets, lines and numbers of instances.
Found = tuple[Longs, Longs, Longs]

# So many bytes are looked at together.
BLOCK = 1 << 22
_LINES, _PAIRS, _LATTICES, _PLANS = range(4)
_RULES = {"pairs": _PAIRS, "lattice": _LATTICES, "plans": _PLANS}
# What is known between two blocks: the line, and how many lines a lattice, or levels a plan, still has.
_LINE, _LEFT = range(2)
# Instead of that: the file's head comes, or a length cannot be read.
_HEAD, _LOST = -1, -2
_NEWLINE, _QUOTE, _BACKSLASH, _OPEN, _CLOSE = 10, 34, 92, 123, 125
# Bytes that are looked at to guess it.
_GUESSED = 1 << 15
_WORDS, _STRING = re.compile(rb"[^\x00-\x20]+"), re.compile(rb'"(?:\\.|[^"\\\n])*"?')


@dataclass(frozen=True, slots=True)
class Place:
    """Where an instance begins: its offset in the file, its line (from 1) and its number (from 0)."""

    offset: int
    line: int
    number: int


# The beginning of a file, where no instance needs to be.
START = Place(0, 1, 0)


def begins(
    path: Path, format: str, place: Place = START, end: int | None = None, state: Longs | None = None
) -> Iterator[Found]:
    """Yield the offsets, lines and numbers of the instances from a place on, block by block.

    `place`: the start of the file or of an instance, or of any line, with its `state`: the line's number, and
    what is left there of the instance before it (`left_over`); both become those behind the last line.
    `end`: where a line ends. Malformed lines count as instances. Behind a lattice whose length cannot be read
    there are none. Errors: DataError where the file cannot be read. Cost: about 1 ns a byte, 5 of pairs and
    lattices; the memory of two blocks.
    """
    rule = _RULES.get(format, _LINES)
    byte = np.arange(256)
    # as bytes.strip has it; in all other formats any byte up to 32 parts words
    blank = np.isin(byte, list(b" \t\n\r\v\f")) if format == "json" else byte <= ord(" ")
    if state is None:
        state = np.array([place.line, 0 if place.offset else left_over(path, format, 0)])
    seen, taken, rest = place.number, place.offset, b""
    with open_data(path) as file:
        file.seek(place.offset)
        while True:
            block = file.read(BLOCK if end is None else min(BLOCK, end - taken - len(rest)))
            data = rest + block
            whole = data.rfind(b"\n") + 1 if block else len(data)
            text = np.frombuffer(data, np.uint8, whole)
            ends = np.flatnonzero(text == ord("\n"))
            if whole and data[whole - 1 : whole] != b"\n":
                ends = np.append(ends, whole)
            most = len(ends) if rule != _PLANS else count_where(lambda part: part == _OPEN, text)
            found = np.empty((2, most), np.int64)
            begin = len(BOM) if not taken and data.startswith(BOM) else 0
            if rule == _PLANS:
                count = _scan_plans(text, begin, state, found)
            else:
                count = _scan(text, begin, ends, rule, blank, state, found)
            if begin and count and found[1, 0] == place.line:
                found[0, 0] = 0  # the mark belongs to the first line
            yield taken + found[0, :count], found[1, :count], np.arange(seen, seen + count)
            seen, taken, rest = seen + count, taken + whole, data[whole:]
            if not block:
                return


def left_over(path: Path, format: str, offset: int) -> int:
    """Guess what is left, where a line begins, of the instance before it: lines or, of plans, levels.

    Right in a valid file if a lattice of two positions or more, or a plan, begins soon. 0 in other formats.
    """
    rule = _RULES.get(format, _LINES)
    if rule in (_LINES, _PAIRS) or not offset:
        return _HEAD if rule == _LATTICES else 0
    with open_data(path) as file:
        file.seek(offset)
        data = file.read(_GUESSED)
    if rule == _PLANS:
        bare = np.frombuffer(_STRING.sub(b"", data), np.uint8)
        levels = np.cumsum((bare == _OPEN).astype(np.int64) - (bare == _CLOSE))
        return -int(levels.min(initial=0))
    lines = [words for line in data.split(b"\n") if (words := _WORDS.findall(line))]
    for before, (words, tags) in enumerate(pairwise(lines)):
        if len(words) == 1 and len(tags) > 1 and words[0] == b"%d" % len(tags):
            return before
    return 0


@njit
def _scan_plans(text: Bytes, at: int, state: Longs, found: Longs) -> int:
    """Look at whole lines from the offset `at`; fills where objects begin that are in no other, and their
    lines. Returns how many. A string ends with its line, as it must.
    """
    count, depth, quoted = 0, max(state[_LEFT], 0), False
    while at < text.size:
        byte = text[at]
        if byte == _NEWLINE:
            state[_LINE] += 1
            quoted = False
        elif quoted:
            at += byte == _BACKSLASH
            quoted = byte != _QUOTE
        elif byte == _QUOTE:
            quoted = True
        elif byte == _OPEN:
            if depth == 0:
                found[0, count], found[1, count] = at, state[_LINE]
                count += 1
            depth += 1
        elif byte == _CLOSE and depth > 0:
            depth -= 1
        at += 1
    state[_LEFT] = depth
    return count


@njit
def _scan(
    text: Bytes, at: int, ends: Longs, rule: int, blank: NDArray[np.bool_], state: Longs, found: Longs
) -> int:
    """Look at whole lines from the offset `at` to their `ends`; fills where instances begin, and their lines.

    Returns how many.
    """
    count = 0
    for end in ends:
        begin = at
        words, left, number = 0, -1, state[_LINE] * 0
        twice = False
        while at < end and not (rule == _LINES and words > 0):
            if blank[text[at]]:
                at += 1
                continue
            word = at
            while at < end and not blank[text[at]]:
                if rule == _LINES:
                    break
                if words == 0 and number >= 0:
                    number = number * 10 + (np.int64(text[at]) - 48)
                    if text[at] < 48 or text[at] > 57 or number > 2147483647:
                        number = -1
                at += 1
            bars = at - word == 3 and text[word] == 124 and text[word + 1] == 124 and text[word + 2] == 124
            if rule == _PAIRS and bars:
                twice = twice or left >= 0
                left = words
            else:
                words += 1
        odd = words == 0 and rule != _LATTICES and control(text, begin) >= 0
        begins = words > 0 or odd
        if rule == _PAIRS:
            wrong = twice or odd or (left < 0 and words > 0)
            begins = wrong or (left >= LEAST_WORDS and words - left >= LEAST_WORDS)
        elif rule == _LATTICES and words > 0:
            begins = state[_LEFT] == 0
            if state[_LEFT] == _HEAD:
                state[_LEFT] = 0
            elif begins and (words > 1 or number < 0):
                state[_LEFT] = _LOST
            elif begins:
                state[_LEFT] = number + 1 if number > 0 else 0
            elif state[_LEFT] > 0:
                state[_LEFT] -= 1
        if begins:
            found[0, count] = begin
            found[1, count] = state[_LINE]
            count += 1
        at = end + 1
        state[_LINE] += 1
    return count
