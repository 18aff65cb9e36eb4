"""Words as numbers: equal pieces of a text get the same one; rows of embedding tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from abw.core.base.errors import DataError, Problem
from abw.core.data.instances import Instances, Ints
from abw.core.ir.model import Table
from abw.core.jit.decorators import fragment, njit

# The eight bytes from each place of a text on.
Eights = NDArray[np.uint64]
EIGHT = 8
_LONG, _TOP, _HALF = np.uint64(1 << 63), np.uint64(56), np.uint64(32)
_MIX = np.uint64(0x9E3779B97F4A7C15)
_MASKS = np.array([256**size - 1 for size in range(EIGHT)], np.uint64)


def intern(data: bytes, begin: Ints, end: Ints) -> tuple[Ints, Words]:
    """The number of each piece `data[begin[i]:end[i]]` (-1 for an empty one), and the distinct pieces.

    Cost: about 10 ns a piece.
    """
    number = np.empty(len(begin), np.int32)
    room = min(4096, 1 << len(begin).bit_length())  # of a single instance its table is no longer than that
    eights = eights_of(data)
    while True:
        # starting anew where there are more words than room is cheap: most words appear early
        slots, words = np.empty(4 * room, np.int32), np.empty((2, room + 1), np.int32)
        keys = np.empty(room + 1, np.uint64)
        count = number_pieces(eights, begin, end, number, slots, keys, words)
        if count >= 0:
            return number, Words(data, words[:, 1 : count + 1])
        room *= 8


def eights_of(data: bytes) -> Eights:
    """The eight bytes from each place of a text on; zeros follow a short one."""
    # two places at least: an array of one has another layout to numba, which would compile it anew
    padded = data if len(data) > EIGHT else data + bytes(EIGHT + 1)
    return np.ndarray(len(padded) - EIGHT + 1, np.uint64, padded, strides=(1,))


class Words(Sequence[str]):
    """Distinct words by their offsets (2, words), decoded only where they are asked for."""

    def __init__(self, data: bytes, pieces: Ints) -> None:
        self._data = data
        self._pieces = pieces
        self._hashes: NDArray[np.uint64] | None = None
        self._found: tuple[Mapping[str, int], int, Ints] | None = None

    def hashes(self) -> NDArray[np.uint64]:
        """The hash of each word: see `hash_pieces`. Cost: about 20 ns a word."""
        if self._hashes is None:
            self._hashes = np.empty(len(self), np.uint64)
            hash_pieces(np.frombuffer(self._data, np.uint8), self._pieces[0], self._pieces[1], self._hashes)
        return self._hashes

    def rows(self, known: Mapping[str, int], unknown: int) -> Ints:
        """The number of each word, or `unknown`; those of the mapping asked for last are kept."""
        if self._found is None or self._found[0] is not known or self._found[1] != unknown:
            self._found = known, unknown, np.array([known.get(word, unknown) for word in self], np.int32)
        return self._found[2]

    def __len__(self) -> int:
        return len(self._pieces[0])

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        begin, end = self._pieces[:, index]
        return self._data[begin:end].decode()

    def __iter__(self) -> Iterator[str]:
        data = self._data
        return (data[begin:end].decode() for begin, end in zip(*self._pieces.tolist(), strict=True))


@njit
def hash_pieces(
    text: NDArray[np.uint8], begin: NDArray[np.integer], end: NDArray[np.integer], hashes: NDArray[np.uint64]
) -> None:
    """The 64-bit FNV-1a hashes (Fowler, Noll and Vo) of n pieces `text[begin[i]:end[i]]` (n,)."""
    for i in range(len(begin)):
        h = np.uint64(0xCBF29CE484222325)
        for j in range(begin[i], end[i]):
            h = (h ^ np.uint64(text[j])) * np.uint64(0x100000001B3)
        hashes[i] = h


@njit
def number_pieces(
    eights: Eights, begin: Ints, end: Ints, number: Ints, slots: Ints, keys: NDArray[np.uint64], words: Ints
) -> int:
    """Fill `number`, and `words` from 1 on with the offsets of each distinct piece; returns how many.

    Returns -1 where there are more than `words` has room for. `slots` (a power of two) is a table with open
    addressing by the words' `keys`. That of a short one says what it is: its bytes and how many; long ones
    are compared. Whether a word is new no branch can learn, so there is none: it is found at 0 then, which
    has any key, and a known one is noted once more.
    """
    begins, ends = words[0], words[1]
    mask, last = np.uint64(slots.size - 1), eights.size - 1
    count = 0
    for free in range(slots.size):
        slots[free] = 0
    for i in range(begin.size):
        a, b = int(begin[i]), int(end[i])
        size = b - a
        if size < EIGHT:
            at = min(a, last)
            key = eights[at] >> np.uint64(8 * (a - at)) & _MASKS[size] | np.uint64(size) << _TOP
        else:
            key = _LONG
            for at in range(a, b, EIGHT):
                key = (key ^ key >> _HALF) * _MIX ^ eights[min(at, b - EIGHT)]
            key |= _LONG
        keys[0] = key
        slot = key * _MIX >> _HALF & mask
        w = int(slots[slot])
        while keys[w] != key or (size >= EIGHT and w and not _same(eights, a, b, begins[w], ends[w])):
            slot = (slot + np.uint64(1)) & mask
            w = int(slots[slot])
        fresh = (w == 0) & (size > 0)
        count += fresh
        if count == keys.size:
            return -1
        w |= count * fresh
        slots[slot], keys[w], begins[w], ends[w] = w, key, a, b
        number[i] = w - 1
    return count


@fragment
def _same(eights: Eights, begin: int, end: int, other: int, other_end: int) -> bool:
    """Whether two long words are equal."""
    same = end - begin == other_end - other
    for at in range(begin, end if same else begin, EIGHT):
        offset = min(at, end - EIGHT)
        same &= eights[offset] == eights[offset - begin + other]
    return same


def word_rows(instances: Instances, field: str, table: Table) -> Ints:
    """The row of `table` for each distinct string of a text field; empty for a field of numbers.

    With a vocabulary unknown words have the row `table.unknown`, or -1 where there is none. Without one a
    word's row is its hash modulo `table.rows`, so that a word has the same row in whatever data. The row of a
    number is that modulo `table.rows`. Errors: DataError where a vocabulary is for a field of numbers that
    are no rows.
    Cost: linear in distinct strings.
    """
    if field not in instances.vocabulary and (table.vocab is None or instances.schema.fields[field].rows):
        return np.empty(0, np.int32)
    if table.vocab is None:
        return hashed(instances.vocabulary[field], table.rows)
    if field not in instances.vocabulary:
        message = f"table '{table.name}' has a vocabulary, but the field '{field}' is a number, not a word"
        raise DataError([Problem(message, table.span, "leave out 'vocab'")])
    known, unknown = table.vocab.rows, -1 if table.unknown is None else table.unknown
    words = instances.vocabulary[field]
    if isinstance(words, Words):
        return words.rows(known, unknown)
    return np.array([known.get(word, unknown) for word in words], np.int32)


def trained_ids(instances: Instances, field: str, ids: Ints, table: Table) -> Ints:
    """A field's ids (V,) for a table with weights: -1 also where the table has no such row.

    Errors: DataError where the ids stand for words, and no vocabulary says which row is whose.
    """
    if table.vocab is not None:
        return ids
    if field in instances.vocabulary:
        message = f"table '{table.name}' has weights, but no vocabulary that gives words their rows"
        raise DataError(
            [Problem(message, table.span, "name the words it was trained with: vocab: words.txt")]
        )
    return np.where(ids < table.rows, ids, np.int32(-1))


def hashed(words: Sequence[str], rows: int) -> Ints:
    """Each word's row where there is no vocabulary: its hash modulo the rows."""
    if isinstance(words, Words):
        hashes = words.hashes()
    else:
        pieces = [word.encode() for word in words]
        ends = np.cumsum([0] + [len(piece) for piece in pieces])
        hashes = np.empty(len(pieces), np.uint64)
        hash_pieces(np.frombuffer(b"".join(pieces), np.uint8), ends[:-1], ends[1:], hashes)
    # the remainder: NumPy divides several times faster than it takes remainders
    return (hashes - hashes // np.uint64(rows) * np.uint64(rows)).astype(np.int32)
