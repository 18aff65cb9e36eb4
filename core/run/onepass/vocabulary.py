"""Vocabularies for compiled code: a hash table with open addressing, at most half full."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from abw.core.data.intern import hash_pieces
from abw.core.jit.addresses import bytes_at, ints_at, longs_at
from abw.core.jit.decorators import fragment, njit
from abw.core.jit.pointers import Table
from abw.core.run.onepass import state as at

# What a vocabulary's words say: where its slots lie (-1 where empty, else a word's number), how many they are
# (a power of two), where each word ends among the bytes of all, these, and the words' rows.
SLOTS, SLOT_COUNT, ENDS, BYTES, ROWS, OF_VOCABULARY = range(6)


def vocabulary_of(rows: Mapping[str, int]) -> Table:
    """The vocabulary of words with these rows."""
    pieces = [word.encode() for word in rows]
    ends = np.cumsum([0, *map(len, pieces)], dtype=np.int32)
    known = np.frombuffer(b"".join(pieces) + b"\0", np.uint8)
    hashes = np.empty(len(pieces), np.uint64)
    hash_pieces(known, ends[:-1], ends[1:], hashes)
    slots = np.full(2 << len(pieces).bit_length(), -1, np.int32)
    fill_slots(hashes, slots)
    found = Table(np.zeros(OF_VOCABULARY, np.int64))
    found.words[SLOT_COUNT] = len(slots)
    arrays = (SLOTS, slots), (ENDS, ends), (BYTES, known)
    for word, array in (*arrays, (ROWS, np.fromiter(rows.values(), np.int32, len(rows)))):
        found.point(word, array)
    return found


@njit
def fill_slots(hashes: NDArray[np.uint64], slots: NDArray[np.int32]) -> None:
    """Write words' numbers into the slots that their hashes lead to, -1 at first."""
    mask = np.uint64(len(slots) - 1)
    for w in range(len(hashes)):
        slot = hashes[w] & mask
        while slots[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = w


@fragment
def row_of(vocabulary: int, text: int, size: int, hashed: np.uint64, unknown: int) -> int:
    """Return the row of the word of so many bytes at an address, which has this hash."""
    words = longs_at(vocabulary, OF_VOCABULARY)
    slots, ends = ints_at(words[SLOTS], words[SLOT_COUNT]), ints_at(words[ENDS], at.ENDLESS)
    known, given = bytes_at(words[BYTES], at.ENDLESS), bytes_at(text, size)
    mask = np.uint64(len(slots) - 1)
    slot = hashed & mask
    while slots[slot] >= 0:
        w = slots[slot] + at.ZERO
        low = ends[w]
        if ends[w + 1] - low == size:
            j = 0
            while j < size and known[low + j] == given[j]:
                j += 1
            if j == size:
                return ints_at(words[ROWS], at.ENDLESS)[w] + at.ZERO  # type: ignore[no-any-return]
        slot = (slot + np.uint64(1)) & mask
    return unknown
