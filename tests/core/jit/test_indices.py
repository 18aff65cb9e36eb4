"""How compiled loops index arrays."""

from __future__ import annotations

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from abw.core.jit.decorators import njit

Ints = NDArray[np.int32]


@njit
def _last(values: Ints) -> int:
    return int(values[-1])


@njit
def _sums(values: Ints, table: NDArray[np.int64], at: Ints, sums: NDArray[np.int64]) -> None:
    for i in range(len(at)):
        sums[i] += values[at[i]] + table[at[i], i]


@njit
def _clear(values: Ints) -> None:
    values[:] = 0


def test_slices_that_are_written_out_are_set() -> None:
    values = np.array([3, 1, 4], np.int32)
    _clear(values)
    assert values.tolist() == [0, 0, 0]


def test_indices_of_signed_integers_find_what_they_name() -> None:
    values, table = np.arange(7, dtype=np.int32), np.arange(28, dtype=np.int64).reshape(7, 4)
    at, sums = np.array([6, 0, 3, 3], np.int32), np.ones(4, np.int64)
    _sums(values, table, at, sums)
    assert sums.tolist() == [1 + 6 + 24, 1 + 0 + 1, 1 + 3 + 14, 1 + 3 + 15]


def test_a_number_below_zero_counts_from_the_end() -> None:
    assert _last(np.array([3, 1, 4], np.int32)) == 4


def test_a_computed_one_counts_from_the_front() -> None:
    around = np.array([10, 20, 30], np.int32)  # of which the loop is given the last two
    table, sums = np.zeros((3, 1), np.int64), np.zeros(1, np.int64)
    before = np.array([-1], np.int32)
    if numba.config.BOUNDSCHECK:  # type: ignore[attr-defined] # as a step of .ci/run sets it
        with pytest.raises(IndexError):
            _sums(around[1:], table[1:], before, sums)
    else:
        _sums(around[1:], table[1:], before, sums)
        assert sums.tolist() == [10]
