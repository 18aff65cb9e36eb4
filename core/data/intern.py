"""Words as numbers: equal pieces of a text get the same one, in the order of first appearance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import overload

import numpy as np
from numpy.typing import NDArray

from abw.core.base.jit import njit

Ints = NDArray[np.int32]


def intern(data: bytes, text: NDArray[np.uint8], begin: Ints, end: Ints) -> tuple[Ints, Words]:
    """The number of each piece `text[begin[i]:end[i]]` (-1 for an empty one), and the distinct pieces.

    Cost: 15 to 30 ns a piece.
    """
    number = np.empty(len(begin), np.int32)
    room = min(4096, 1 << len(begin).bit_length())  # of a single instance its table is no longer than that
    while True:
        # starting anew where there are more words than room is cheap: most words appear early
        slots, words = np.empty(4 * room, np.int32), np.empty((room, 2), np.int32)
        hashes = np.empty(room, np.uint64)
        count = number_pieces(text, begin, end, number, slots, hashes, words)
        if count >= 0:
            return number, Words(data, words[:count], hashes[:count])
        room *= 8


class Words(Sequence[str]):
    """Distinct words by their offsets (words, 2), decoded only where they are asked for.

    `hashes` (words,): see `hash_piece`.
    """

    def __init__(self, data: bytes, pieces: Ints, hashes: NDArray[np.uint64]) -> None:
        self._data = data
        self._pieces = pieces
        self.hashes = hashes
        self._found: tuple[Mapping[str, int], int, Ints] | None = None

    def rows(self, known: Mapping[str, int], unknown: int) -> Ints:
        """The number of each word, or `unknown`; those of the mapping asked for last are kept."""
        if self._found is None or self._found[0] is not known or self._found[1] != unknown:
            self._found = known, unknown, np.array([known.get(word, unknown) for word in self], np.int32)
        return self._found[2]

    def __len__(self) -> int:
        return len(self._pieces)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        begin, end = self._pieces[index]
        return self._data[begin:end].decode()

    def __iter__(self) -> Iterator[str]:
        data = self._data
        return (data[begin:end].decode() for begin, end in self._pieces.tolist())


@njit
def hash_piece(text: NDArray[np.uint8], begin: int, end: int) -> np.uint64:
    """The 64-bit FNV-1a hash of `text[begin:end]` (Fowler, Noll and Vo)."""
    h = np.uint64(0xCBF29CE484222325)
    for j in range(begin, end):
        h = (h ^ np.uint64(text[j])) * np.uint64(0x100000001B3)
    return h


@njit
def hash_pieces(
    text: NDArray[np.uint8], begin: NDArray[np.integer], end: NDArray[np.integer], hashes: NDArray[np.uint64]
) -> None:
    """The hashes of n pieces `text[begin[i]:end[i]]` (n,)."""
    for i in range(len(begin)):
        hashes[i] = hash_piece(text, begin[i], end[i])


@njit
def number_pieces(
    text: NDArray[np.uint8],
    begin: Ints,
    end: Ints,
    number: Ints,
    slots: Ints,
    hashes: NDArray[np.uint64],
    words: Ints,
) -> int:
    """Fill `number`, and `words` with the offsets of each distinct piece; returns how many those are.

    Returns -1 where there are more than `words` has room for. `slots` (a power of two) is a table
    with open addressing by the 64-bit FNV-1a hash, which `hashes` (as long as `words`) keeps of each. Words
    of equal hash are compared byte by byte.
    """
    mask = slots.size - 1
    count = 0
    for free in range(slots.size):
        slots[free] = -1
    for i in range(begin.size):
        a, length = begin[i], end[i] - begin[i]
        if length == 0:
            number[i] = -1
            continue
        h = hash_piece(text, a, end[i])
        slot = np.int64(h >> np.uint64(32)) & mask
        while slots[slot] >= 0:
            w = slots[slot]
            if hashes[w] == h and words[w, 1] - words[w, 0] == length:
                j = 0
                while j < length and text[words[w, 0] + j] == text[a + j]:
                    j += 1
                if j == length:
                    break
            slot = (slot + 1) & mask
        if slots[slot] < 0:
            if count == hashes.size:
                return -1
            slots[slot] = count
            hashes[count] = h
            words[count, 0], words[count, 1] = a, end[i]
            count += 1
        number[i] = slots[slot]
    return count
