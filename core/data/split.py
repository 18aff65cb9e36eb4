"""Files cut into sections of whole mini-batches, of about as many bytes each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from abw.core.data.feed import BOM, Bytes, Section, count_where, open_data
from abw.core.data.readers.blanks import control
from abw.core.data.readers.pairs import LEAST_WORDS
from abw.core.jit.decorators import njit

Longs = NDArray[np.int64]

# So many bytes are looked at together.
BLOCK = 1 << 22
_LINES, _PAIRS, _LATTICES, _PLANS = range(4)
_RULES = {"pairs": _PAIRS, "lattice": _LATTICES, "plans": _PLANS}
# What is known between two blocks: the line, and how many lines a lattice still has.
_LINE, _LEFT = range(2)
# Instead of that: the file's head comes, or a length cannot be read.
_HEAD, _LOST = -1, -2
_NEWLINE, _QUOTE, _BACKSLASH, _OPEN, _CLOSE = 10, 34, 92, 123, 125


def split(path: Path, format: str, batch: int, parts: int, limit: int | None = None) -> Iterator[Section]:
    """A file's instances, or the first `limit`, in `parts` sections that follow each other.

    A section begins with the first instance of a mini-batch of `batch` that is at or behind its share of the
    bytes: run one by one they make the mini-batches of the whole file; some may be empty. Malformed lines
    count as instances. Behind a lattice whose length cannot be read nothing is cut. Errors: DataError where
    the file cannot be read. Cost: about 1 ns a byte, 5 of pairs and lattices, up to the end of the last
    section asked for; with a limit what it takes in is looked at twice. The memory of two blocks.
    """
    size = path.stat().st_size if path.is_file() else 0
    for (begin, line, seen), (end, _, after) in pairwise(_cuts(path, format, batch, parts, limit, size)):
        yield Section(begin, end, line, seen, after - seen, last=end == size)


def _cuts(
    path: Path, format: str, batch: int, parts: int, limit: int | None, size: int
) -> Iterator[tuple[int, int, int]]:
    """Offset, line and number of what begins each section, and at last of what is behind all of them."""
    last = _end(path, format, limit) if limit is not None else None
    shares = [(last[0] if last else size) * k // parts for k in range(1, parts)]
    made, seen = 1, 0
    yield 0, 1, 0
    for number, offset, line in _begins(path, format):
        seen += len(number)
        of_batches = number % batch == 0
        if last:
            of_batches &= number < last[2]
        number, offset, line = number[of_batches], offset[of_batches], line[of_batches]
        while made < parts and len(offset) and offset[-1] >= shares[made - 1]:
            at = int(np.searchsorted(offset, shares[made - 1]))
            yield int(offset[at]), int(line[at]), int(number[at])
            made += 1
        if last and seen >= last[2]:
            break
    yield from [last or (size, 1, seen)] * (parts + 1 - made)


def _end(path: Path, format: str, limit: int) -> tuple[int, int, int] | None:
    """Offset, line and number behind the first `limit` instances; None where there are no more."""
    for number, offset, line in _begins(path, format):
        if len(number) and number[-1] >= limit:
            at = limit - int(number[0])
            return int(offset[at]), int(line[at]), limit
    return None


def _begins(path: Path, format: str) -> Iterator[tuple[Longs, Longs, Longs]]:
    """Yield the numbers of a file's instances, their offsets and their lines, block by block."""
    rule = _RULES.get(format, _LINES)
    byte = np.arange(256)
    # as bytes.strip has it; in all other formats any byte up to 32 parts words
    blank = np.isin(byte, list(b" \t\n\r\v\f")) if format == "json" else byte <= ord(" ")
    state = np.array([1, _HEAD], np.int64)
    seen = taken = 0
    rest = b""
    with open_data(path) as file:
        while True:
            block = file.read(BLOCK)
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
            if begin and count and found[1, 0] == 1:
                found[0, 0] = 0  # the mark belongs to the first line
            yield np.arange(seen, seen + count), taken + found[0, :count], found[1, :count]
            seen, taken, rest = seen + count, taken + whole, data[whole:]
            if not block:
                return


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
