"""What plain kernels are made of: loops over one lane's values, rows of single precision, in order.

An operand is an array and where it begins in there; a matrix is its rows one after the other. What is not a
number stays so, as with NumPy.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.lower.rows import BLOCK
from abw.core.ir.model import SLOPE
from abw.core.jit.decorators import allocating, njit

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]

HALF, ROOT_HALF, LEAST = 0.5, math.sqrt(0.5), np.float32(-39)
LOW = np.float32(SLOPE)
ONE, ZERO, WIDE_ZERO = np.float32(1.0), np.float32(0.0), np.float64(0.0)


@njit
def sigmoid(x: np.float32) -> Any:  # noqa: ANN401
    """1 / (1 + e^-x)."""
    return ONE / (ONE + np.exp(-x))


@njit
def gelu(x: np.float32) -> Any:  # noqa: ANN401
    """x times the normal distribution up to x, in double precision on the way."""
    return np.float32(x * (HALF * math.erfc(-ROOT_HALF * x))) if x > LEAST or x != x else -ZERO


@njit
def larger(a: np.float32, b: np.float32) -> np.float32:
    """The larger one; not a number where either is none."""
    return a if a > b or a != a else b


@njit
def copy(out: Floats, at: int, x: Floats, start: int, count: int) -> None:
    """Copy `count` floats."""
    out, x = out[at : at + count], x[start : start + count]
    for i in range(count):
        out[i] = x[i]


@njit
def accumulate(
    out: Floats, at: int, size: int, x: Floats, start: int, count: int, weights: Floats, first: int, step: int
) -> None:
    """Add x[k] times the `size` floats of `weights` from `first + k * step` on to `out`, for `count` k."""
    out, x = out[at : at + size], x[start : start + count]
    whole = count // 4 * 4
    for k in range(0, whole, 4):
        # four columns at once: a quarter of the loads and stores of the sums
        w0 = weights[first + k * step : first + k * step + size]
        w1 = weights[first + (k + 1) * step : first + (k + 1) * step + size]
        w2 = weights[first + (k + 2) * step : first + (k + 2) * step + size]
        w3 = weights[first + (k + 3) * step : first + (k + 3) * step + size]
        for j in range(size):
            out[j] += x[k] * w0[j] + x[k + 1] * w1[j] + (x[k + 2] * w2[j] + x[k + 3] * w3[j])
    for k in range(whole, count):
        w0 = weights[first + k * step : first + k * step + size]
        for j in range(size):
            out[j] += x[k] * w0[j]


@njit
def by_vector(
    out: Floats, at: int, rows: int, matrix: Floats, first: int, x: Floats, start: int, count: int
) -> None:
    """Matrix of `rows` by `count` times vector."""
    out, x = out[at : at + rows], x[start : start + count]
    for r in range(rows):
        row = matrix[first + r * count : first + (r + 1) * count]
        total = ZERO
        for k in range(count):
            total += row[k] * x[k]
        out[r] = total


@njit
def by_matrix(
    out: Floats, at: int, rows: int, columns: int, left: Floats, start: int, pitch: int,
    right: Floats, first: int, count: int,
) -> None:  # fmt: skip
    """Add a product of `rows` by `count` and `count` by `columns`; `left` has a row every `pitch` floats."""
    for r in range(rows):
        accumulate(out, at + r * columns, columns, left, start + r * pitch, count, right, first, columns)


@njit
def transpose(out: Floats, at: int, x: Floats, start: int, rows: int, columns: int) -> None:
    """A matrix of `rows` by `columns`, turned."""
    for i in range(rows):
        for j in range(columns):
            out[at + j * rows + i] = x[start + i * columns + j]


@njit
def softmax(out: Floats, at: int, x: Floats, start: int, rows: int, columns: int) -> None:
    """Row by row: the largest element, the exponentials' sum, the quotients."""
    for r in range(rows):
        row = x[start + r * columns : start + (r + 1) * columns]
        result = out[at + r * columns : at + (r + 1) * columns]
        best = row[0]
        for j in range(1, columns):
            best = larger(best, row[j])
        total = ZERO
        for j in range(columns):
            result[j] = np.exp(row[j] - best)
            total += result[j]
        for j in range(columns):
            result[j] /= total


@allocating
def attend(
    out: Floats, size: int, heads: int, factor: float,
    values: Floats, of_values: Ints, keys: Floats, of_keys: Ints, queries: Floats, of_queries: Ints,
) -> None:  # fmt: skip
    """Attention to `out`: of the rows of `values` and `keys` (`size` floats each) that the indices name.

    Scores are products times `factor`, or where that is 0 sums (see `Attention.added`).
    """
    part, share, wide = size // heads, len(out) // heads, len(out)
    weights, totals = np.empty(len(of_keys), np.float32), np.empty(share, np.float64)
    query = queries[size * of_queries[0] : size * (of_queries[0] + 1)]
    for h in range(heads):
        best = np.float32(-np.inf)
        for k in range(len(weights)):
            key = keys[size * of_keys[k] + h * part : size * of_keys[k] + (h + 1) * part]
            product = ZERO
            if factor:
                for j in range(part):
                    product += key[j] * query[h * part + j]
                product *= np.float32(factor)
            else:
                for j in range(part):
                    together = key[j] + query[h * part + j]
                    product += together if together > ZERO else LOW * together
            weights[k] = product
            best = larger(best, weights[k])
        total = WIDE_ZERO
        totals[:] = WIDE_ZERO
        for k in range(len(weights)):
            weight = np.exp(weights[k] - best)
            total += weight
            value = values[wide * of_values[k] + h * share : wide * of_values[k] + (h + 1) * share]
            for j in range(share):
                totals[j] += weight * value[j]
        for j in range(share):
            out[h * share + j] = totals[j] / total


@njit
def sum_along(
    out: Floats, at: int, x: Floats, start: int, count: int, pitch: int, each: int, step: int
) -> None:
    """Sums of `each` numbers, `step` floats apart; `count` of them, that begin every `pitch` floats."""
    for r in range(count):
        total = WIDE_ZERO
        for k in range(each):
            total += x[start + r * pitch + k * step]
        out[at + r] = total


@njit
def max_along(
    out: Floats, at: int, x: Floats, start: int, count: int, pitch: int, each: int, step: int
) -> None:
    """The largest of `each` numbers, as `sum_along` has them."""
    for r in range(count):
        best = x[start + r * pitch]
        for k in range(1, each):
            best = larger(best, x[start + r * pitch + k * step])
        out[at + r] = best


@njit
def sum_rows(out: Floats, at: int, size: int, memory: Floats, index: Ints, first: int, last: int) -> None:
    """The sum of the rows of `memory` that `index` names from `first` to before `last`."""
    if last - first <= BLOCK:
        copy(out, at, memory, size * index[first], size)
        for k in range(first + 1, last):
            row = memory[size * index[k] : size * (index[k] + 1)]
            for j in range(size):
                out[at + j] += row[j]
    else:
        for j in range(size):
            total = WIDE_ZERO
            for begin in range(first, last, BLOCK):
                part = ZERO
                for k in range(begin, min(begin + BLOCK, last)):
                    part += memory[size * index[k] + j]
                total += part
            out[at + j] = total


@njit
def mean_rows(out: Floats, at: int, size: int, memory: Floats, index: Ints, first: int, last: int) -> None:
    """The mean of several rows."""
    sum_rows(out, at, size, memory, index, first, last)
    count = np.float32(last - first)
    for j in range(at, at + size):
        out[j] /= count


@njit
def var_rows(out: Floats, at: int, size: int, memory: Floats, index: Ints, first: int, last: int) -> None:
    """The variance of several rows."""
    mean_rows(out, at, size, memory, index, first, last)
    for j in range(size):
        total, center = WIDE_ZERO, out[at + j]
        for begin in range(first, last, BLOCK):
            part = ZERO
            for k in range(begin, min(begin + BLOCK, last)):
                apart = memory[size * index[k] + j] - center
                part += apart * apart
            total += part
        out[at + j] = total / (last - first)


@njit
def std_rows(out: Floats, at: int, size: int, memory: Floats, index: Ints, first: int, last: int) -> None:
    """The root of the variance of several rows."""
    var_rows(out, at, size, memory, index, first, last)
    for j in range(at, at + size):
        out[j] = np.sqrt(out[j])


@njit
def max_rows(out: Floats, at: int, size: int, memory: Floats, index: Ints, first: int, last: int) -> None:
    """Element by element the largest."""
    copy(out, at, memory, size * index[first], size)
    out = out[at : at + size]
    for k in range(first + 1, last):
        row = memory[size * index[k] : size * (index[k] + 1)]
        for j in range(size):
            out[j] = larger(out[j], row[j])
