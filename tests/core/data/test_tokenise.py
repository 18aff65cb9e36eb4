"""Tokens by compiled code are Python's matches, wherever it takes a pattern at all."""

from __future__ import annotations

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.data.readers.words import pieces_of

TAKEN = [
    *(r"\w+|[^\w\s]", r"\S+", r"\d+|\w+|[^\s]", ".", r"[^\W\d]+|\d|\W+", r"[a-zé]+|[\]\-]|-|x+", "a|b+|汉"),
]
LEFT = [
    r"(?:a|b)+",
    r"\w+?",
    r"\w*x",
    r"\b\w",
    "ab",
    r"[]a]",
    r"\w++",
    "(?i)a",
    "a|",
    r"\w{2}",
    r"a|b|c|d|e|f|g|h|i",
]


@pytest.mark.parametrize("pattern", TAKEN)
@given(
    lines=st.lists(
        st.text(
            st.sampled_from("aab b1_-]x é汉.\u00a0\u0301\ufffd")
            | st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"], exclude_characters="\n"),
            max_size=9,
        ),
        max_size=4,
    )
)
def test_as_python_finds_them(pattern: str, lines: list[str]) -> None:
    data = "\n".join(lines).encode() + b"\n"
    ends = np.cumsum([len(line.encode()) + 1 for line in lines], dtype=np.int32)
    begins = np.append(np.int32(0), ends)[:-1].astype(np.int32)
    found = pieces_of(np.frombuffer(data, np.uint8), begins, ends - np.int32(1), pattern)
    assert found is not None
    (begin, end), ptr = found
    tokens = [data[a:b].decode() for a, b in zip(begin.tolist(), end.tolist(), strict=True)]
    assert [tokens[a:b] for a, b in pairwise(ptr.tolist())] == [re.findall(pattern, x) for x in lines]


@pytest.mark.parametrize("pattern", LEFT)
def test_patterns_that_are_left_to_python(pattern: str) -> None:
    line = np.array([0], np.int32), np.array([3], np.int32)
    assert pieces_of(np.frombuffer(b"a b\n", np.uint8), *line, pattern) is None


def test_signs_beyond_the_first_plane_are_left_to_python() -> None:
    text = "a 😀".encode()
    line = np.array([0], np.int32), np.array([len(text)], np.int32)
    assert pieces_of(np.frombuffer(text, np.uint8), *line, r"\S+") is None
