"""Arrays and functions by their addresses: what compiled code reads, writes and calls is what lies there."""

from __future__ import annotations

import ctypes
import os
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.jit.addresses import (
    address_of,
    bytes_at,
    call,
    doubles_at,
    floats_at,
    ints_at,
    ints_in,
    longs_at,
    longs_in,
)
from abw.core.jit.decorators import njit

pytestmark = pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"), reason="numba compiles nothing"
)


@njit
def _double_all(words: Any) -> None:  # noqa: ANN401
    bytes, ints, longs = bytes_at(words[0], 3), ints_at(words[1], 3), longs_at(words[2], 3)
    floats, doubles = floats_at(words[3], 3), doubles_at(words[4], 3)
    for i in range(3):
        bytes[i] *= 2
        ints[i] *= 2
        longs[i] *= 2
        floats[i] *= 2
        doubles[i] *= 2


@given(st.lists(st.integers(0, 100), min_size=3, max_size=3))
def test_arrays_of_all_kinds_are_where_their_address_says(numbers: list[int]) -> None:
    kinds: tuple[Any, ...] = (np.uint8, np.int32, np.int64, np.float32, np.float64)
    arrays = [np.array([*numbers, 1], kind) for kind in kinds]
    _double_all(np.array([array.ctypes.data for array in arrays], np.int64))
    for array in arrays:
        assert array.tolist() == [*(2 * number for number in numbers), 1]


@njit
def _sums(words: Any) -> int:  # noqa: ANN401
    total = 0
    for number in ints_in(words, 1):
        total += number
    for number in longs_in(words, 3):
        total += number
    return total


@given(st.lists(st.integers(-9, 9)), st.lists(st.integers(-(2**40), 2**40)))
def test_words_name_arrays_and_their_lengths(short: list[int], long: list[int]) -> None:
    ints, longs = np.array(short, np.int32), np.array(long, np.int64)
    words = np.array([-1, ints.ctypes.data, len(ints), longs.ctypes.data, len(longs)], np.int64)
    assert _sums(words) == sum(short) + sum(long)


@njit
def _where(values: Any) -> int:  # noqa: ANN401
    return int(address_of(values))


def test_an_array_s_address_is_where_it_lies() -> None:
    values = np.zeros(4, np.float32)
    assert _where(values[1:]) == values.ctypes.data + 4


@njit
def _calling(function: int, times: int) -> None:
    for n in range(times):
        call(function, (n, -1))


def test_functions_are_called_with_all_that_they_are_given() -> None:
    heard: list[tuple[int, int]] = []
    hear = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(lambda a, b: heard.append((a, b)))
    address = ctypes.cast(hear, ctypes.c_void_p).value
    assert address is not None
    _calling(address, 3)
    assert heard == [(0, -1), (1, -1), (2, -1)]
