"""The index of a data file: its hash, and where some of its instances begin, so that shards find theirs.

The index of a large file is kept beside it, as `DATA.shards.json`, while size and time of change are those of
the file: it is read once, however many processes run shards of it.
"""

from __future__ import annotations

import json
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
from abw.core.data.feed import Section, open_data
from abw.core.data.sections.begins import START, Place, begins, left_over

Longs = NDArray[np.int64]

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
