"""Words as numbers, against a dictionary."""

from __future__ import annotations

from itertools import accumulate

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from abw.core.data.intern import intern

words = st.lists(st.text("ab\0é", max_size=3) | st.text("ab", min_size=6, max_size=26), max_size=60)


@given(words=words, between=st.sampled_from(["", " ", " " * 9]))
def test_equal_pieces_have_equal_numbers_in_the_order_of_their_first_appearance(
    words: list[str], between: str
) -> None:
    pieces = [word.encode() for word in words]
    gap = len(between.encode())
    ends = np.array([*accumulate(len(piece) + gap for piece in pieces)], np.int32) - np.int32(gap)
    sizes = np.array([len(piece) for piece in pieces], np.int32)
    number, found = intern(between.join(words).encode(), ends - sizes, ends)
    known = {word: i for i, word in enumerate(dict.fromkeys(word for word in words if word))}
    assert number.tolist() == [known.get(word, -1) for word in words]
    assert list(found) == [found[i] for i in range(len(found))] == list(known)
    assert found.hashes().tolist() == [_fnv(word.encode()) for word in known]


def _fnv(piece: bytes) -> int:
    hashed = 0xCBF29CE484222325
    for byte in piece:
        hashed = (hashed ^ byte) * 0x100000001B3 % 2**64
    return hashed


def test_more_words_than_the_table_begins_with() -> None:
    data = "".join(f"{i:09}" for i in range(5000)).encode()
    begin = np.arange(0, len(data), 9, dtype=np.int32)
    number, found = intern(data, begin, begin + np.int32(9))
    assert number.tolist() == list(range(5000)) and found[4999] == "000004999"
