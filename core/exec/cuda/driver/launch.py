"""Kernels launched from compiled code: what lies between two launches is a few nanoseconds, no Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types
from numba.core.extending import intrinsic
from numpy.typing import NDArray

from abw.core.exec.cuda.image import FIRST, HEADER, ITEM, TILES
from abw.core.jit.decorators import njit
from abw.core.jit.pointers import Table

Words = NDArray[np.uint32]
Longs = NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class OnDevice:
    """A one-dimensional array in device memory: where, and how many elements of 4 bytes."""

    pointer: int
    items: int


class Arguments:
    """A kernel's arguments as the driver takes them (`kernelParams`): a table of pointers to values.

    numba passes an array as seven values: two that only its host code knows, elements, bytes of one, where it
    lies, its shape, its strides.
    """

    def __init__(self, values: Sequence[OnDevice | int]) -> None:
        flat: list[int] = []
        self.first: list[int] = []
        for value in values:
            self.first.append(len(flat))
            if isinstance(value, OnDevice):
                flat += [0, 0, value.items, 4, value.pointer, value.items, 4]
            else:
                flat.append(value)
        self.values: Longs = np.array(flat, np.uint64)
        every = np.arange(len(flat))
        self.table = Table(np.zeros(len(flat), np.int64))
        self.table.spread(every, self.values, 8 * every)


@njit
def widest_phase(words: Words) -> int:
    """The most tiles that a phase of a packed plan (`image.py`) has: more blocks have nothing to do."""
    most = np.int64(0)
    for p in range(words[0]):
        end = words[HEADER + p + 1]
        if end > words[HEADER + p]:
            item = words[2] + ITEM * (end - 1)
            most = max(most, np.int64(words[item + FIRST]) + np.int64(words[item + TILES]))
    return int(most)


def launch_items(
    function: int, stream: int, handles: Longs, threads: int, words: Words, arguments: Arguments
) -> int:
    """Launch the kernel of each item of a packed plan in order; the first status that is not 0, or 0.

    `function`: address of `cuLaunchKernel`. `handles`: the kernels by number. The second argument is the word
    where the item begins. Cost: 10 ns a launch beside the driver's own.
    """
    place = arguments.values[arguments.first[1] :][:1]
    status: int = _launch_items(function, stream, handles, threads, words, place, arguments.table.at)
    return status


def _make(typingctx: Any, function: Any, kernel: Any, blocks: Any, threads: Any, stream: Any, table: Any):
    """Call a function at an address as `cuLaunchKernel`, with grid and block along x; its status."""
    long, integer = ir.IntType(64), ir.IntType(32)
    # pointers are passed as integers of their size: the same registers
    signature = types.int32(types.int64, types.uint64, types.uint32, types.uint32, types.int64, types.int64)

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        address, kernel, blocks, threads, stream, table = args
        one, none = ir.Constant(integer, 1), ir.Constant(integer, 0)
        sizes = [blocks, one, one, threads, one, one, none]
        made = ir.FunctionType(integer, [long, *[integer] * 7, long, long, long])
        called = builder.inttoptr(address, made.as_pointer())
        return builder.call(called, [kernel, *sizes, stream, table, ir.Constant(long, 0)])

    return signature, generate


_cu_launch_kernel: Any = intrinsic(_make)


@njit
def _launch_items(
    function: int, stream: int, handles: Longs, threads: int, words: Words, place: Longs, table: int
) -> int:
    status = 0
    first, count = np.int64(words[2]), np.int64(words[1])
    for i in range(count):
        item = first + ITEM * i
        place[0] = item
        status = _cu_launch_kernel(
            np.int64(function), handles[words[item]], words[item + TILES], np.uint32(threads), stream, table
        )
        if status != 0:
            break
    return status
