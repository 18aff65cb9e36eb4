"""Numbers as JSON text."""

from __future__ import annotations

import json
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.store.digits import LONGEST, rendered


def bits(x: float) -> bytes:
    return struct.pack("<f", x)


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=20))
def test_every_number_is_read_as_itself(numbers: list[float]) -> None:
    for text, x in zip(rendered(np.array(numbers, np.float32)), numbers, strict=True):
        found = json.loads(text)
        assert isinstance(found, float) and bits(found) == bits(x)
        assert len(text) <= LONGEST


def test_random_bits_are_read_as_themselves_in_at_most_nine_digits() -> None:
    x = np.random.default_rng(0).integers(0, 2**32, 20_000, dtype=np.uint32).view(np.float32)
    for text, number in zip(rendered(x), x.tolist(), strict=True):
        found = json.loads(text)
        if np.isfinite(number):
            assert bits(found) == bits(number), text
            assert len(text.split(b"e")[0].strip(b"-0.").replace(b".", b"")) <= 9
        else:
            assert found is None


@pytest.mark.parametrize(
    ("x", "text"),
    [
        (0.0, "0.0"), (-0.0, "-0.0"), (1.0, "1.0"), (-0.1, "-0.1"), (100.0, "100.0"), (1e9, "1000000000.0"),
        (1e10, "1.0e10"), (1e-5, "0.00001"), (1e-6, "1.0e-6"), (16777216.0, "16777216.0"),
        (3.4028235e38, "3.4028235e38"), (float("inf"), "null"), (float("nan"), "null"),
    ],
)  # fmt: skip
def test_as_people_write_them(x: float, text: str) -> None:
    assert rendered(np.array([x], np.float32)) == [text.encode()]


@given(st.lists(st.integers(0, 4), max_size=3), st.integers(0, 4))
def test_nested_lists_are_those_of_the_array(shape: list[int], count: int) -> None:
    values = np.arange(count * np.prod(shape, dtype=int), dtype=np.float32).reshape(count, *shape)
    if values.size or not count:
        assert [json.loads(text) for text in rendered(values)] == values.tolist()
