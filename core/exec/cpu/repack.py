"""Weights packed again after each step: as a gather from all parameters in one vector, found once.

What a kernel reads of its cell's parameters is their numbers in another order, some of them added up (two
biases of one gate) and some that no parameter changes (zeros between, constants of the cell). Where it is
not, as where a cell multiplies two matrices of weights, nothing of this is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.cpu.tiling import CellTiling, packed_constants
from abw.core.jit.decorators import njit

Floats = NDArray[np.float32]
Ints = NDArray[np.int32]

# Whole numbers up to here are themselves in single precision: so many floats a parameter may have.
EXACT = 1 << 24


# Floats that mostly lie evenly in the parameters: a vector of a column of a matrix, or of a row.
BLOCK = 16


@dataclass(frozen=True, slots=True)
class Packing:
    """Where each packed float comes from.

    Of BLOCK floats from `BLOCK * b` on, float j is `theta[start[b] + j * step[b]]`, or 0 where `start[b]` is
    -1. Then the floats at `odd_at` are those of `odd_from`, 0 at -1; `theta[more_from]` is added at
    `more_at`, and the `fixed` floats at `fixed_at`.
    """

    start: Ints
    step: Ints
    odd_at: Ints
    odd_from: Ints
    more_at: Ints
    more_from: Ints
    fixed_at: Ints
    fixed: Floats

    def write(self, theta: Floats, memory: Floats) -> None:
        """Pack. Cost: some 0.3 ns a float, or what it takes to read and write it."""
        self.gather(theta, memory, 0, 1)
        self.finish(theta, memory)

    def gather(self, theta: Floats, memory: Floats, part: int, parts: int) -> None:
        """A part of what lies evenly; when all parts are there, `finish` does the rest."""
        first, last = (len(self.start) * i // parts for i in (part, part + 1))
        _gather(theta, self.start[first:last], self.step[first:last], memory[first * BLOCK :])

    def finish(self, theta: Floats, memory: Floats) -> None:
        """What does not lie evenly, is added or fixed."""
        if len(self.odd_at):
            _set(theta, self.odd_from, self.odd_at, memory)
        if len(self.more_at):
            _add(theta, self.more_from, self.more_at, memory)
        if len(self.fixed_at):
            memory[self.fixed_at] += self.fixed


def packing_of(layout: CellTiling, params: Sequence[Floats], begin: Sequence[int]) -> Packing | None:
    """How a cell's constants are gathered; None where they are not.

    `params`: the cell's, of which the i-th lies in the vector from `begin[i]` on. Cost: packing once for each
    parameter.
    """
    if any(param.size >= EXACT for param in params):
        return None

    def packed(values: Sequence[Floats]) -> Floats:
        with np.errstate(all="ignore"):
            return packed_constants(layout, values)

    zeros = [np.zeros_like(param) for param in params]
    fixed = packed(zeros)
    source = np.full(len(fixed), -1, np.int32)
    more_at, more_from = [], []
    for number, (param, first) in enumerate(zip(params, begin, strict=True)):
        numbers = list(zeros)
        numbers[number] = np.arange(1, param.size + 1, dtype=np.float32).reshape(param.shape)
        found = packed(numbers) - fixed
        with np.errstate(invalid="ignore"):
            at = np.flatnonzero((found >= 1) & (found <= param.size))
        origin = (first + found[at].astype(np.int64) - 1).astype(np.int32)
        taken = source[at] >= 0
        source[at[~taken]] = origin[~taken]
        more_at.append(at[taken])
        more_from.append(origin[taken])
    places = np.flatnonzero(fixed)
    packing = Packing(
        *_even(source),
        np.concatenate([*more_at, []]).astype(np.int32),
        np.concatenate([*more_from, []]).astype(np.int32),
        places.astype(np.int32),
        fixed[places],
    )
    return packing if _holds(packing, packed, params, begin, len(source)) else None


def _even(source: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """`start`, `step`, `odd_at` and `odd_from` of a packing."""
    whole = source[: len(source) // BLOCK * BLOCK].reshape(-1, BLOCK)
    start, step = whole[:, 0].copy(), whole[:, 1] - whole[:, 0]
    expected = np.where(start[:, None] < 0, -1, start[:, None] + np.arange(BLOCK) * step[:, None])
    odd = (whole != expected).any(axis=1)
    start[odd] = -1
    at = np.flatnonzero(np.append(np.repeat(odd, BLOCK), np.ones(len(source) - whole.size, np.bool_)))
    return start, step.astype(np.int32), at.astype(np.int32), source[at]


def _holds(
    packing: Packing,
    packed: Callable[[Sequence[Floats]], Floats],
    params: Sequence[Floats],
    begin: Sequence[int],
    size: int,
) -> bool:
    """Whether random parameters are packed to the same bits."""
    theta = np.zeros(max((b + p.size for b, p in zip(begin, params, strict=True)), default=0), np.float32)
    drawn = []
    random = np.random.default_rng(0)
    for param, first in zip(params, begin, strict=True):
        view = theta[first : first + param.size].reshape(param.shape)
        view[...] = random.standard_normal(param.shape, np.float32)
        drawn.append(view)
    memory = np.empty(size, np.float32)
    packing.write(theta, memory)
    return np.array_equal(memory, packed(drawn))


@njit
def _gather(theta: Floats, start: Ints, step: Ints, memory: Floats) -> None:
    for b in range(len(start)):
        to, first, each = memory[b * BLOCK : (b + 1) * BLOCK], start[b], step[b]
        if first < 0:
            for j in range(BLOCK):
                to[j] = np.float32(0)
        elif each == 1:
            for j in range(BLOCK):
                to[j] = theta[first + j]
        else:
            for j in range(BLOCK):
                to[j] = theta[first + j * each]


@njit
def _set(theta: Floats, source: Ints, at: Ints, memory: Floats) -> None:
    for i in range(len(source)):
        memory[at[i]] = theta[source[i]] if source[i] >= 0 else np.float32(0)


@njit
def _add(theta: Floats, source: Ints, at: Ints, memory: Floats) -> None:
    for i in range(len(source)):
        memory[at[i]] += theta[source[i]]
