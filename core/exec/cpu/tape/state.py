"""What a tape knows, as one array of words that its compiled functions are called with and that is kept."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.growing.state import LANE
from abw.core.plan.arenas import Arenas

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

_NUMBERS = 22
# Words that are numbers: four that `abw.core.exec.cpu.llvm.best` explains; the run's first reference, and
# how many nodes it has; the arithmetic from which on plans are better; where kernels have their scratch.
# Handles are references shifted to the left by `BITS`, these are nodes shifted by `SHIFT`. The most slots and
# outputs of a type, and how many batches ran; whether equal nodes are looked for. Where the C library's
# `clock_gettime` is (0: nowhere), what it writes, and how many nanoseconds rounds took. The length of vectors
# of which so many best are asked for, where no function finds them yet. How many rows all nodes' slots have.
(
    BASE, COUNT, LIMIT, SCRATCH, BITS, SHIFT, SLOTS, WIDTH, BATCHES, LOOKS,
    CLOCK, CLOCK_NUMBER, TIME_SECONDS, TIME_REST, NANOSECONDS, LENGTH, WANTED, ITEMS,
) = range(LANE + 1, _NUMBERS)  # fmt: skip

_ARRAYS = 37
# Words that name arrays: the address, and in the next word how many elements there are.
#
# - Over the run's nodes and references: `TYPE`, `ROW`; where equal nodes are looked for, of a `Consing` the
#   arrays `SAME`, `AT`, `KEYS`, `USED`, `TABLE` and `PAIRS`.
# - Over new nodes: where the operands `BEGIN` among the words, how many producers are `MISSING`, the `HEAD`
#   of a list of words that read the node, the longest `PATH` from it, the `QUEUE` of ready ones.
# - Over words: the reference of an `OPERAND`, or -1 less a constant's row. The `NEXT` word that reads the
#   same node, the node that is the word's `OWNER`, or -1 less the first of several nodes that share a list.
#   The two words before a reduction's lists have there: how many nodes share them, the longest path from
#   these, nothing; how long the lists are, how many of their words are still missing, the first node.
# - Over types: how many slots and outputs, the arenas of these (T, S) and (T, W), how many slots are
#   `LISTED`, the arithmetic of a node, the addresses of kernels and of their weights.
# - Over arenas: the address, the bytes of a row; `ROWS` (3, A): the next free row, the end of those there
#   is room for, how many more are needed. `KNOWN` (n, 3), by arena as `KNOWN_PTR` says: a constant's first
#   number, its end, its first row. `FIELDS` (n, 6): see below.
# - `READY` (4, T): where the ready nodes of a type begin and end in the queue, the longest path from them,
#   how many have it. What a kernel is called with: `FRAME`, the `INDEX` of rows, slot after slot, where the
#   lists of a reduction end among those of a slot (`LISTS`, from 0 on).
# - Over outputs (T, W): the `SIZE` of a vector, 0 for what is none, and the address of the function that
#   finds its largest element (`ARGMAX`). `BESTS` (n, 3): the length of vectors, how
#   many of their best are found, and the function that does.
(
    TYPE, ROW,
    BEGIN, MISSING, HEAD, PATH, QUEUE,
    OPERAND, NEXT, OWNER,
    TYPE_SLOTS, TYPE_OUTPUTS, SLOT_ARENA, OUTPUT_ARENA, LISTED, FLOPS, KERNEL, CONSTANTS,
    ARENA, PITCH, ROWS, KNOWN_PTR, KNOWN, FIELDS,
    READY, FRAME, INDEX, LISTS,
    SIZE, ARGMAX, BESTS,
    SAME, AT, KEYS, USED, TABLE, PAIRS,
) = range(_NUMBERS, _NUMBERS + 2 * _ARRAYS, 2)  # fmt: skip

WORDS = _NUMBERS + 2 * _ARRAYS

# Of a constant whose rows instances bring along: its first number; how many numbers it has, a power of two;
# its arena; how many rows the run has, from which number on they are counted, modulo as many as there are;
# the address of an array with their rows in the arena.
FIELD_FIRST, FIELD_COUNT, FIELD_ARENA, BROUGHT, SINCE, GIVEN, OF_FIELD = range(7)


def known_of(arenas: Arenas) -> tuple[Ints, Ints]:
    """`KNOWN_PTR` and `KNOWN`."""
    here = arenas.constant_row >= 0
    arena, c = np.nonzero(here)
    known = np.stack(
        [arenas.constant_first[c], arenas.constant_end[c], arenas.constant_row[arena, c]], axis=1
    )
    return np.append(0, np.cumsum(here.sum(axis=1))).astype(np.int32), known.astype(np.int32)


def fields_of(arenas: Arenas) -> tuple[list[int], Longs]:
    """The constants whose rows instances bring along, and some slot reads; and `FIELDS`."""
    constants = np.flatnonzero(arenas.field_arena >= 0)
    first = arenas.constant_first[constants]
    fields = np.zeros((len(constants), OF_FIELD), np.int64)
    fields[:, FIELD_FIRST], fields[:, FIELD_COUNT] = first, arenas.constant_end[constants] - first
    fields[:, FIELD_ARENA] = arenas.field_arena[constants]
    return constants.tolist(), fields


def sizes_of(arenas: Arenas) -> Ints:
    """The length of each type's outputs (T * W,), 0 for what is no vector, and where a type has fewer."""
    shapes = [arenas.shape[a] if a >= 0 else () for a in arenas.output_arena.ravel().tolist()]
    return np.array([shape[0] if len(shape) == 1 else 0 for shape in shapes], np.int32)
