"""The index of a data file: its hash, and where some of its instances begin, so that shards find theirs.

The index of a large file is kept beside it, as `DATA.shards.json`, while size and time of change are those of
the file: it is read once, however many processes run shards of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.base.files import read_json, replacing
from abw.core.base.parallel import usable_cores
from abw.core.data.feed import BOM, Bytes, Section, count_where, open_data
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


# Bytes from one place of an index to the next, at least; and the most places.
SPACING = 1 << 22
PLACES = 1 << 18
# Bytes of a file from which on its index is kept: a smaller one is indexed in less than a second.
KEPT = 1 << 28
# Bytes read at once to hash them.
PIECE = 1 << 22
# Of the file.
SCHEMA_VERSION = 2


@dataclass(frozen=True, slots=True)
class Index:
    """What is known of a file of `size` bytes with `count` instances.

    `hash`: XXH64 of the hashes of its blocks, which are hashed side by side. `places` (3, n): offset, line
    and number of the first instance that begins in each block that has one.
    """

    path: Path
    format: str
    size: int
    hash: str
    count: int
    places: Longs

    def section(self, number: int, parts: int, batch: int, limit: int | None = None) -> Section:
        """Section `number`, from 1, of `parts` that have about as many bytes each.

        It begins with the first instance of a mini-batch of `batch` that is at or behind its share of the
        bytes: run one by one the sections make the mini-batches of the whole file, or of its first `limit`
        instances; some may be empty. Errors: DataError where the file cannot be read. Cost: looks at two
        blocks.
        """
        last = self._end(limit)
        return self._section(*(self._cut(k, parts, batch, last) for k in (number - 1, number)))

    def sections(self, parts: int, batch: int, limit: int | None = None) -> Iterator[Section]:
        """All sections."""
        last = self._end(limit)
        for begin, end in pairwise(self._cut(k, parts, batch, last) for k in range(parts + 1)):
            yield self._section(begin, end)

    def _section(self, begin: Place, end: Place) -> Section:
        count, last = end.number - begin.number, end.offset == self.size
        return Section(begin.offset, end.offset, begin.line, begin.number, count, last=last)

    def _end(self, limit: int | None) -> Place:
        """Where the first `limit` instances, or all of them, end."""
        if limit is not None and limit < self.count:
            for offset, line, number in self._from(2, limit):
                at = int(np.searchsorted(number, limit))
                if at < len(number):
                    return Place(int(offset[at]), int(line[at]), limit)
        return Place(self.size, 1, self.count)

    def _cut(self, k: int, parts: int, batch: int, last: Place) -> Place:
        """Where section `k`, from 0, begins."""
        if k == 0:
            return START
        share = last.offset * k // parts
        for offset, line, number in self._from(0, share) if k < parts else ():
            at = np.flatnonzero((offset >= share) & (number % batch == 0) & (number < last.number))
            if len(at):
                return Place(int(offset[at[0]]), int(line[at[0]]), int(number[at[0]]))
            if len(number) and number[-1] >= last.number:
                break
        return last

    def _from(self, row: int, value: int) -> Iterator[tuple[Longs, Longs, Longs]]:
        """What begins from the last place on whose `row` is at most `value`."""
        at = int(np.searchsorted(self.places[row], value, "right")) - 1
        place = START if at <= 0 else Place(*self.places[:, at].tolist())
        return begins(self.path, self.format, place)


def index_of(path: Path, format: str) -> Index:
    """The index of a file: the one beside it, or a new one, which is kept there if the file is large.

    Processes that want it at the same time wait for the one that makes it. Errors: DataError where the file
    cannot be read.
    """
    if not path.is_file() or path.stat().st_size < KEPT:
        return made(path, format)
    beside = path.with_name(f"{path.name}.shards.json")
    if found := _stored(beside, path, format):
        return found
    try:
        with replacing(beside) as file:
            about = path.stat()
            index = _stored(beside, path, format) or made(path, format)  # another one may have made it
            document: dict[str, Any] = {"schema_version": SCHEMA_VERSION, "mtime_ns": about.st_mtime_ns}
            document |= {"format": format, "size": index.size, "xxh64": index.hash, "instances": index.count}
            names = ("offsets", "lines", "numbers")
            document["places"] = dict(zip(names, index.places.tolist(), strict=True))
            file.write(json.dumps(document).encode())
            return index
    except OSError:  # nothing can be written there
        return made(path, format)


def _stored(file: Path, path: Path, format: str) -> Index | None:
    """The index in a file, if it is of the data as they are."""
    if not file.is_file():
        return None
    try:
        document, about = read_json(file, "index"), path.stat()
        wanted = (SCHEMA_VERSION, format, about.st_size, about.st_mtime_ns)
        if tuple(document[name] for name in ("schema_version", "format", "size", "mtime_ns")) != wanted:
            return None
        rows = [document["places"][name] for name in ("offsets", "lines", "numbers")]
        places = np.array(rows, np.int64).reshape(3, -1)
        return Index(path, format, about.st_size, str(document["xxh64"]), int(document["instances"]), places)
    except (AbwError, KeyError, TypeError, ValueError):
        return None  # damaged, or of another version


def made(path: Path, format: str) -> Index:
    """Make the index of a file, on all cores. Errors: DataError where it cannot be read.

    Cost: 0.1 ns a byte to hash it and what `begins` costs.
    """
    size = path.stat().st_size if path.is_file() else 0
    spacing = max(SPACING, -(-size // PLACES))
    starts = range(0, size, spacing)
    with open_data(path):  # says what is wrong with it
        pass
    with ThreadPoolExecutor(max(1, min(usable_cores(), len(starts)))) as pool:
        hashes = pool.map(lambda at: _hash(path, at, at + spacing), starts)
        blocks = pool.map(lambda at: _look(path, format, at, at + spacing), starts)
        places, count = _together(path, format, blocks)
        digest = xxhash.xxh64(size.to_bytes(8, "little") + b"".join(hashes)).hexdigest()
    return Index(path, format, size, digest, count, places)


def _hash(path: Path, begin: int, end: int) -> bytes:
    hashed = xxhash.xxh64()
    with open_data(path, 0) as file:
        file.seek(begin)
        while begin < end and (piece := file.read(min(PIECE, end - begin))):
            hashed.update(piece)
            begin += len(piece)
    return hashed.digest()


@dataclass(frozen=True, slots=True)
class Block:
    """What lines from `begin` to `end` hold, if `before` is left of the instance before them (`left_over`).

    `place`: of the first instance that begins there, counted from the first line; `count`: instances that do;
    `lines`: how many there are; `behind`: what is left of the last instance.
    """

    begin: int
    end: int
    before: int
    place: Place | None
    count: int
    lines: int
    behind: int


def _look(path: Path, format: str, begin: int, end: int) -> Block:
    """Look at the lines that begin in a block."""
    first, last = (_line_from(path, at) for at in (begin, end))
    return _looked(path, format, first, last, left_over(path, format, first))


def _looked(path: Path, format: str, begin: int, end: int, before: int) -> Block:
    place, count, state = None, 0, np.array([0, before])
    if begin < end:
        for offset, line, number in begins(path, format, Place(begin, 0, 0), end, state):
            if place is None and len(number):
                place = Place(int(offset[0]), int(line[0]), 0)
            count += len(number)
    return Block(begin, end, before, place, count, *state.tolist())


def _line_from(path: Path, at: int) -> int:
    """Where the first line begins that does so at an offset or behind it."""
    if at == 0:
        return 0
    with path.open("rb") as file:
        file.seek(at - 1)
        file.readline()
        return file.tell()


def _together(path: Path, format: str, blocks: Iterable[Block]) -> tuple[Longs, int]:
    """The places and the number of instances. Blocks that were guessed wrong are looked at again."""
    places, lines, seen, behind = [], START.line, 0, left_over(path, format, 0)
    for guessed in blocks:
        block = guessed
        if block.before != behind:
            block = _looked(path, format, block.begin, block.end, behind)
        if block.place is not None:
            places.append((block.place.offset, lines + block.place.line, seen))
        lines, seen, behind = lines + block.lines, seen + block.count, block.behind
    return np.array(places, np.int64).reshape(-1, 3).T.copy(), seen
