"""A plan as one block of 32-bit words that the kernels read: one copy to the device, nothing else to look up.

The words, all unsigned:

- header (`HEADER`): phases P, items I, where the items begin, words in all;
- `phase` (P + 1): phase p has the items `phase[p]:phase[p + 1]`;
- items (I, ITEM): `kernel` (a number of the generated module), `frame` (where its frame begins), `first`
  (tiles of the phase before its own), `tiles`, `weights` (float where its weights begin). What a phase reads
  was written in earlier ones: all tiles of a phase may run at once, and between phases all blocks must meet.
  A launch for each item in order is right as well;
- frames, one a batch, one for each type with hoisted products, and one for each operand of a cell that reads
  lists: lanes n, float where the batch's scratch rows begin, float where its hoisted sums begin (`FRAME`);
  for each slot `where`, `first`, `step`, `lists` (`SLOT`): lane j's row begins at float `first + i * step`,
  with i = word `where + j`, or i = j if `where` is 0; a reduction's lane j has the rows from word `lists + j`
  to the next, counted like lanes, or row j alone if `lists` is 0; then for each output the float where lane
  0's row begins;
- the rows of hoisted operands, the plan's `index`, the plan's `lists`.

Floats are counted in the device's one buffer of arenas, scratch rows and hoisted sums.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.interface import TooLargeError
from abw.core.jit.decorators import allocating, njit
from abw.core.plan.kernels import GATHERED
from abw.core.plan.plan import Plan

Words = NDArray[np.uint32]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

HEADER, ITEM, FRAME, SLOT = 4, 5, 3, 4
# Words of an item: tiles of the phase before its own, and its own.
FIRST, TILES = 2, 3


@dataclass(frozen=True, slots=True)
class Work:
    """What a batch of each of T types is for the device: S steps in order, each with V kernels to choose
    from.

    `step_ptr` (T + 1,): the type's steps. `level` (S,): steps of a batch with the same level read nothing of
    each other; a level reads those before. `hoisted` (S,): runs once for all lanes of the type, before all
    batches. `weights` (S,): float where its weights begin. `kernel`, `rows`, `columns` (S, V): a kernel's
    number, the lanes of a tile of it, and the tiles for these lanes. `limit` (S, V): kernel v is right up to
    so many lanes, which are rising.

    `collect` (T, slots): the step, behind those of the types, that reduces a slot's lists before the cell
    reads them, -1 for slots without lists; a batch without any skips it.

    `depth` (T,): levels. `scratch`, `sums` (T,): floats a lane of scratch rows and of hoisted sums. `early`
    (T, slots) bool: slots that hoisted steps read. `pitch` (A,): floats of an arena's rows.
    """

    step_ptr: Ints
    level: Ints
    hoisted: NDArray[np.bool_]
    weights: Longs
    kernel: Ints
    rows: Ints
    columns: Ints
    limit: Longs
    collect: Ints
    depth: Ints
    scratch: Longs
    sums: Longs
    early: NDArray[np.bool_]
    pitch: Longs


@dataclass(frozen=True, slots=True)
class Image:
    """A packed plan: its words, and what a host has to know of them.

    `floats`: what the device's buffer must hold for it. `phase` (P + 1,) and `items` (I, ITEM) are views.
    """

    words: Words
    floats: int

    @property
    def phase(self) -> Words:
        """First item of each phase, and the number of items."""
        return self.words[HEADER : HEADER + 1 + int(self.words[0])]

    @property
    def items(self) -> Words:
        """(I, ITEM): kernel, frame, first tile, tiles, weights."""
        begin, count = int(self.words[2]), int(self.words[1])
        return self.words[begin : begin + ITEM * count].reshape(count, ITEM)


def pack(plan: Plan, work: Work, arena: Longs) -> Image:
    """Pack a plan.

    `arena` (A + 1,): the float where each arena begins, all multiples of 4, and where the last one ends.
    Batches that read nothing of each other share phases: there are as many as the longest chain of batches
    has steps. Errors: TooLargeError for a plan that needs more floats than 32 bits count, ValueError for one
    that gives rows again (a phase does not wait for those who read them before). Cost: 6 us, and 3 to 7 ns
    an operand.
    """
    if plan.reuses:
        raise ValueError("a plan for the device keeps all values")
    schedule, arenas = plan.schedule, plan.arenas
    words, floats = _pack(
        (schedule.type, schedule.ptr),
        (plan.base, plan.operand_ptr, plan.index_ptr, plan.index),
        (plan.status, plan.start, plan.stride, plan.list_ptr, plan.lists),
        (arenas.slot_arena, arenas.output_arena, arenas.slots, arenas.outputs),
        (work.step_ptr, work.level, work.hoisted, work.weights),
        (work.kernel, work.rows, work.columns, work.limit, work.collect),
        (work.depth, work.scratch, work.sums, work.early),
        (arena, work.pitch, plan.rows),
    )
    if not len(words):
        raise TooLargeError(4 * floats, 2**34, "a GPU as far as 32-bit offsets reach")
    return Image(words, floats)


@allocating
def _pack(
    schedule: tuple[Ints, Ints],
    operands: tuple[Ints, Ints, Ints, Ints],
    forms: tuple[Ints, Ints, Ints, Ints, Ints],
    types: tuple[Ints, Ints, Ints, Ints],
    steps: tuple[Ints, Ints, NDArray[np.bool_], Longs],
    kernels: tuple[Ints, Ints, Ints, Longs, Ints],
    cells: tuple[Ints, Longs, Longs, NDArray[np.bool_]],
    memory: tuple[Longs, Longs, Ints],
) -> tuple[Words, int]:
    """The words, none where floats have more than 32 bits; how many floats there are."""
    batch_type, batch_ptr = schedule
    base, operand_ptr, index_ptr, index = operands
    status, start, stride, list_ptr, lists = forms
    collect = kernels[4]
    slot_arena, output_arena, slots, outputs = types
    step_ptr, step_level, hoisted, weights = steps
    depth, scratch, sums, early = cells
    arena, pitch, rows = memory
    batches, type_count = len(batch_type), len(depth)

    level, early_level = np.empty(batches, np.int64), np.empty(batches, np.int64)
    phases = _levels((early_level, level), schedule, operands, list_ptr, types, (depth, sums, collect), rows)

    # how many lanes each type has, and how many items each phase
    lanes_of, end_item = np.zeros(type_count, np.int64), np.zeros(phases + 1, np.int64)
    collected = collected_floats = np.int64(0)
    for b in range(batches):
        t, n = batch_type[b], batch_ptr[b + 1] - batch_ptr[b]
        lanes_of[t] += n
        for s in range(step_ptr[t], step_ptr[t + 1]):
            if not hoisted[s]:
                end_item[1 + level[b] + step_level[s]] += 1
        for s in range(slots[t]):
            if collect[t, s] >= 0 and list_ptr[operand_ptr[b] + s] >= 0:
                end_item[1 + early_level[b]] += 1
                collected += 1
                collected_floats += n * pitch[slot_arena[t, s]]
    for t in range(type_count):
        if lanes_of[t] > 0:
            for s in range(step_ptr[t], step_ptr[t + 1]):
                end_item[1] += hoisted[s]
    for p in range(phases):
        end_item[1 + p] += end_item[p]
    next_item, next_tile = end_item[:phases].copy(), np.zeros(phases, np.int64)

    # where everything begins
    scratch_at, sums_at = arena[-1], np.empty(type_count, np.int64)
    rows_at = np.full(early.shape, -1, np.int64)
    floats = scratch_at
    for t in range(type_count):
        floats += lanes_of[t] * scratch[t]
    for t in range(type_count):
        sums_at[t] = floats
        floats += lanes_of[t] * sums[t]
    collected_at = floats
    floats += collected_floats
    if floats + 4 > 2**32:
        return np.empty(0, np.uint32), int(floats)
    item = HEADER + phases + 1
    frame_at = at = item + ITEM * end_item[-1]
    for t in range(type_count):
        if sums[t] > 0 and lanes_of[t] > 0:
            at += FRAME + SLOT * slots[t] + outputs[t]
    for b in range(batches):
        at += FRAME + SLOT * slots[batch_type[b]] + outputs[batch_type[b]]
    at += (FRAME + SLOT + 1) * collected
    for t in range(type_count):
        for s in range(slots[t]):
            if early[t, s]:
                rows_at[t, s] = at
                at += lanes_of[t]
    index_at = at
    lists_at = index_at + len(index)
    end = lists_at + len(lists)
    words = np.empty(end, np.uint32)
    words[0], words[1], words[2], words[3] = phases, end_item[-1], item, end
    words[HEADER:item] = end_item
    words[index_at:lists_at] = index
    words[lists_at:end] = lists

    for t in range(type_count):
        if sums[t] > 0 and lanes_of[t] > 0:
            words[frame_at], words[frame_at + 1], words[frame_at + 2] = lanes_of[t], 0, sums_at[t]
            place = frame_at + FRAME
            for s in range(slots[t]):
                words[place : place + SLOT] = 0
                if early[t, s]:
                    words[place] = rows_at[t, s]
                    words[place + 1] = arena[slot_arena[t, s]]
                    words[place + 2] = pitch[slot_arena[t, s]]
                place += SLOT
            words[place : place + outputs[t]] = 0
            for s in range(step_ptr[t], step_ptr[t + 1]):
                if hoisted[s]:
                    _put_item(
                        words, item, next_item, next_tile, 0, frame_at, lanes_of[t], s, weights, kernels
                    )
            frame_at = place + outputs[t]

    for b in range(batches):
        t = batch_type[b]
        n = batch_ptr[b + 1] - batch_ptr[b]
        collected_before = collected_at
        for s in range(slots[t]):
            k = operand_ptr[b] + s
            if collect[t, s] >= 0 and list_ptr[k] >= 0:
                a = slot_arena[t, s]
                words[frame_at], words[frame_at + 1], words[frame_at + 2] = n, 0, 0
                words[frame_at + 3], words[frame_at + 4] = index_at + index_ptr[k], arena[a]
                words[frame_at + 5], words[frame_at + 6] = pitch[a], lists_at + list_ptr[k]
                words[frame_at + 7] = collected_at
                collected_at += n * pitch[a]
                p, step = early_level[b], collect[t, s]
                _put_item(words, item, next_item, next_tile, p, frame_at, n, step, weights, kernels)
                frame_at += FRAME + SLOT + 1
        words[frame_at], words[frame_at + 1], words[frame_at + 2] = n, scratch_at, sums_at[t]
        scratch_at += n * scratch[t]
        sums_at[t] += n * sums[t]
        place = frame_at + FRAME
        for s in range(slots[t]):
            k = operand_ptr[b] + s
            a = slot_arena[t, s]
            words[place + 3] = 0
            if collect[t, s] >= 0 and list_ptr[k] >= 0:
                # the rows that the item above wrote
                words[place], words[place + 1], words[place + 2] = 0, collected_before, pitch[a]
                collected_before += n * pitch[a]
            # a list's lanes are found through its index, whatever its rows are; words are not negative
            elif status[k] == GATHERED or list_ptr[k] >= 0 or stride[k] < 0:
                words[place], words[place + 1] = index_at + index_ptr[k], arena[a]
                words[place + 2] = pitch[a]
                if list_ptr[k] >= 0:
                    words[place + 3] = lists_at + list_ptr[k]
            else:
                words[place], words[place + 1] = 0, arena[a] + start[k] * pitch[a]
                words[place + 2] = stride[k] * pitch[a]
            place += SLOT
            if early[t, s]:
                words[rows_at[t, s] : rows_at[t, s] + n] = index[index_ptr[k] : index_ptr[k] + n]
                rows_at[t, s] += n
        for o in range(outputs[t]):
            a = output_arena[t, o]
            words[place] = arena[a] + base[b, o] * pitch[a]
            place += 1
        for s in range(step_ptr[t], step_ptr[t + 1]):
            if not hoisted[s]:
                p = level[b] + step_level[s]
                _put_item(words, item, next_item, next_tile, p, frame_at, n, s, weights, kernels)
        frame_at = place
    return words, int(floats)


@allocating
def _levels(
    level: tuple[Longs, Longs],
    schedule: tuple[Ints, Ints],
    operands: tuple[Ints, Ints, Ints, Ints],
    list_ptr: Ints,
    types: tuple[Ints, Ints, Ints, Ints],
    cells: tuple[Ints, Longs, Ints],
    rows: Ints,
) -> int:
    """The phases in which each batch's lists are reduced and its steps begin: the first in which all that
    they read is there. How many phases there are."""
    batch_type, batch_ptr = schedule
    base, operand_ptr, index_ptr, index = operands
    slot_arena, output_arena, slots, outputs = types
    depth, sums, collect = cells
    early_level, own_level = level
    # the first phase that may read a row; constants are there from the beginning
    row_ptr = np.zeros(len(rows) + 1, np.int64)
    for arena in range(len(rows)):
        row_ptr[arena + 1] = row_ptr[arena] + rows[arena]
    ready = np.zeros(row_ptr[-1], np.int32)
    phases = 0
    for b in range(len(batch_type)):
        t = batch_type[b]
        first = np.int32(1 if sums[t] > 0 else 0)
        lists_first, listed = np.int32(0), False
        for s in range(slots[t]):
            k = operand_ptr[b] + s
            begin = row_ptr[slot_arena[t, s]]
            there = np.int32(0)
            for j in range(index_ptr[k], index_ptr[k + 1]):
                there = max(there, ready[begin + index[j]])
            if collect[t, s] >= 0 and list_ptr[k] >= 0:
                lists_first, listed = max(lists_first, there), True
            else:
                first = max(first, there)
        if listed:
            first = max(first, lists_first + np.int32(1))
        early_level[b], own_level[b] = lists_first, first
        after = first + depth[t]
        phases = max(phases, after)
        for o in range(outputs[t]):
            begin = row_ptr[output_arena[t, o]] + base[b, o]
            ready[begin : begin + batch_ptr[b + 1] - batch_ptr[b]] = after
    return int(phases)


@njit
def _put_item(
    words: Words,
    item: int,
    next_item: Longs,
    next_tile: Longs,
    phase: int,
    frame: int,
    lanes: int,
    step: int,
    weights: Longs,
    kernels: tuple[Ints, Ints, Ints, Longs, Ints],
) -> None:
    """Write one item with the kernel that is right for so many lanes."""
    kernel, rows, columns, limit, _ = kernels
    v = 0
    while limit[step, v] < lanes:
        v += 1
    tiles = (lanes + rows[step, v] - 1) // rows[step, v] * columns[step, v]
    place = item + ITEM * next_item[phase]
    next_item[phase] += 1
    words[place], words[place + 1] = kernel[step, v], frame
    words[place + FIRST], words[place + TILES] = next_tile[phase], tiles
    words[place + 4] = weights[step]
    next_tile[phase] += tiles
