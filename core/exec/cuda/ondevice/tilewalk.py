"""How a block of the plan's kernel finds its tiles, and what it lays ready for one before it may begin.

Of an item whose step is not held block b takes the tiles b, b + blocks, …, counted from the first tile of the
phase. Of a held one it takes tiles of its own column alone: the blocks of a column take the tiles of lanes in
turn. Items of a phase begin where the one before ended, so that all blocks have work.

While a block waits for the phases before it already looks up the frame and the rows that its tile reads,
which are words of the image and do not change: `staging` is their copy in shared memory. So after the wait
its first loads are the rows themselves.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda as _cuda
from numba import uint32

from abw.core.exec.cuda.image import FRAME, ITEM, SLOT
from abw.core.exec.cuda.ondevice.functions import row

cuda: Any = _cuda

# Words of a staging buffer before its frame: where the step's weights begin, and where the held ones do.
STAGING = 2

_ITEM, _FRAME, _SLOT, _STAGING = np.uint32(ITEM), np.uint32(FRAME), np.uint32(SLOT), np.uint32(STAGING)
_ZERO, _ONE = np.uint32(0), np.uint32(1)
_AT_FRAME, _FIRST, _TILES, _WEIGHTS, _HELD = (np.uint32(k) for k in (1, 2, 3, 4, 5))
_COLUMNS, _LANES, _SLOTS, _LENGTH = (np.uint32(k) for k in (6, 7, 8, 9))


@cuda.jit(device=True)
def own_tile(words: Any, at: Any, end: Any, block: Any, blocks: Any) -> Any:
    """(item, tile): the block's first tile of the items from the one at `at` on; `end` where it has none."""
    while at < end:
        columns = words[at + _COLUMNS]
        turns, turn = uint32(blocks // columns), uint32(block // columns)
        begin = uint32(words[at + _FIRST] // columns % turns)
        tile = uint32(turn - begin) if turn >= begin else uint32(turn + turns - begin)
        if turn < turns and tile * columns < words[at + _TILES]:
            return at, tile
        at = uint32(at + _ITEM)
    return end, _ZERO


@cuda.jit(device=True)
def next_tile(words: Any, at: Any, tile: Any, end: Any, block: Any, blocks: Any) -> Any:
    """The one after it."""
    columns = words[at + _COLUMNS]
    tile = uint32(tile + blocks // columns)
    if tile * columns < words[at + _TILES]:
        return at, tile
    return own_tile(words, uint32(at + _ITEM), end, block, blocks)


@cuda.jit(device=True)
def lay_ready(words: Any, at: Any, tile: Any, staging: Any) -> None:
    """For a tile of a held step: its item, its frame, and for each of the tile's lanes the rows of all slots.

    Rows beyond the last lane are the last one's. All threads of the block must meet before the staging buffer
    is read, and before the next one is filled.
    """
    thread, threads = uint32(cuda.threadIdx.x), uint32(cuda.blockDim.x)
    rows = words[at + _LANES]
    if rows != _ZERO:
        frame, length = words[at + _AT_FRAME], words[at + _LENGTH]
        if thread == _ZERO:
            staging[_ZERO] = words[at + _WEIGHTS]
            staging[_ONE] = words[at + _HELD]
        k = thread
        while k < length:
            staging[_STAGING + k] = words[frame + k]
            k = uint32(k + threads)
        last = uint32(words[frame] - _ONE)
        k = thread
        slots = words[at + _SLOTS]
        while k < slots * rows:
            lane = uint32(tile * rows + k // slots)
            lane = lane if lane < last else last
            slot = uint32(frame + _FRAME + k % slots * _SLOT)
            staging[_STAGING + length + k] = row(words, slot, lane)
            k = uint32(k + threads)
