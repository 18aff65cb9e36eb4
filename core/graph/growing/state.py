"""What growth knows, as one array of words that its compiled functions are called with and that is kept."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from abw.core.jit.addresses import int_rows, longs_in
from abw.core.jit.decorators import fragment

Longs = NDArray[np.int64]

# How rounds end: growth is not over; nothing came to be; it did for long enough; there is no room for the
# next round; a score is not a number, or nothing feeds an input.
RUNNING, DONE, PAUSED, FULL, FAILED = range(5)

_NUMBERS = 57
# Words that are numbers.
#
# - Four that functions for long vectors use: how a call ended, the number of the largest element; what a
#   score begins with, and the number that goes with what is found.
# - Rounds: how many vertices are `LEFT` until the next pause, the number of the round, the vertices that it
#   computes, and given ones that decide in the first; the `NEXT` vertex to come, the `END` of those there is
#   room for. `ENTRIES`: how many a register has room for. Of the next round how many vertices it computes
#   (`NOW`), may add (`ADDING`), and the most members of lists (`MEMBERS`).
# - What failed: which step, at which vertex.
# - The columns' length; the mini-batch's first vertex among all, and its number of instances; whether rows
#   of constants count up or down (1, -1); the columns that all models have; the beam's width, 0 without.
# - Picks so far (`PICK_NEXT`), the round's own from `PICK_FIRST` on; how often one was kept, how often one
#   may be; the instances whose hypotheses are compared.
# - Where each section of the steps begins, and where the last one ends.
# - Of executors that run kernels by address: where kernels have their scratch, the most slots and outputs of
#   a type, the words of a slot in a kernel's frame. Of others: the number of the round's first node, how many
#   nodes and operands it has, how many scores were taken so far.
# - Where equal nodes are looked for, the first of the two registers that this takes (`LOOKS`, else 0), and
#   how many distinct nodes there are so far. How many steps a round has that compute nodes, and the most
#   operands that it has for each entry of a register.
# - What `walk.run` is to do. Where machine code lies that many models do not need (`lists.lists`,
#   `choices.choose_best`, `choices.choose_by_chance`, `launch.leave_out_equal`,
#   `launch.number_nodes`), 0 for those, and the step that it is to do.
(
    STATUS, LARGEST, PLUS, LANE,
    LEFT, ROUND, FIRST, LAST, GIVEN_FIRST, GIVEN_LAST, NEXT, END, NOW, ADDING, MEMBERS,
    FAILED_STEP, FAILED_VERTEX,
    PICK_FIRST, PICK_NEXT, KEPT_NEXT, KEPT_END, INSTANCE_FIRST, INSTANCE_LAST,
    TAKEN, NODE_COUNT, OPERANDS, SCORED, TASK, LOOKS, DISTINCT,
    ENTRIES, STRIDE, BEGIN, INSTANCES, KINDS_OF, SIGN, MOST_ADDED,
    KIND, INSTANCE, INDEX, HOME, IN_ROUND, ORIGIN, PICK, BEAM,
    SCRATCH, SLOTS, SLOT_WORDS, WIDTH, STEPS_EACH, OPERANDS_EACH,
    BY_LISTS, BY_BEST, BY_CHANCE, BY_EQUAL, BY_NUMBERS, STEP,
) = range(_NUMBERS)  # fmt: skip

# The sections of the steps: vertices that instances begin with, lists and room, nodes, decisions, clauses.
_SECTIONS = 6
START, ROOM, FEED, DECIDE, GROW, STOP = range(_NUMBERS, _NUMBERS + _SECTIONS)

_ARRAYS = 51
# Words that name arrays: the address, and in the next word how many elements there are.
#
# - The model's: `STEPS` (n, `walk.FIELDS`); `BASES`, the value of row 0 of each constant; the columns of
#   values (T, W); of decisions the limit, and the salt of chance; by growing kind the `MOST` vertices.
# - The mini-batch's: columns (`BLOCK`); by growing kind its `KINDS` number; which kinds are in each group
#   (`GROUPS`), and which origins (`ORIGINS`); lists of given vertices (`LISTS`: where offsets and members
#   begin in `DATA`); instances' numbers; vertices by kind and instance, and the round in which there were too
#   many.
# - Registers (n, ENTRIES), and how many entries each has.
# - Beams, by pick: vertex, number, log-probability, whether it has ended; what was kept, and in which round;
#   by instance: the last round, the picks kept (n, width), and candidates (n, width).
# - `SCORES` of vertices, in double precision.
# - Executors that run kernels by address: as in `abw.core.exec.cpu.tape.state`; by decision the arena of
#   scores, and the function that finds the largest, or the best.
# - Others: of the round each node's type, vertex, where its operands end, and these.
# - Which types were `LAUNCHED` in each round (rounds, STEPS_EACH). Where equal nodes are looked for, of a
#   `Consing` the arrays `AT`, `KEYS` (behind the operands of each node also its vertex), `USED`, `TABLE` and
#   `PAIRS`; how many nodes of each type were `SPARED` (T,).
(
    STEPS, BASES, VALUES, LIMITS, SALTS, MOST,
    BLOCK, KINDS, GROUPS, ORIGINS, DATA, LISTS, NUMBERS, COUNT, CUT,
    SPACE, SIZES,
    PICK_VERTEX, PICK_NUMBER, PICK_TOTAL, PICK_ENDED, KEPT_PICK, KEPT_ROUND,
    BEAM_ROUND, BEAM_KEPT, BEAM_TOTAL, BEAM_VERTEX, BEAM_NUMBER,
    SCORES,
    TYPE_SLOTS, TYPE_OUTPUTS, SLOT_ARENA, OUTPUT_ARENA, KERNEL, CONSTANTS, ARENA, PITCH, ROWS, FRAME,
    FUNCTION,
    NODE_TYPE, NODE_VERTEX, OPERAND_END, OPERAND,
    LAUNCHED, AT, KEYS, USED, TABLE, PAIRS, SPARED,
) = range(_NUMBERS + _SECTIONS, _NUMBERS + _SECTIONS + 2 * _ARRAYS, 2)  # fmt: skip

WORDS = _NUMBERS + _SECTIONS + 2 * _ARRAYS

# `register(state, number)`: the entries of a register, with its room; `column(state, number)`: what a column
# says, that of vertex v at v + 1.
register: Any = int_rows(SPACE, ENTRIES)
column: Any = int_rows(BLOCK, STRIDE)


@fragment
def entries(state: Longs, number: int) -> int:
    """How many entries a register has."""
    return longs_in(state, SIZES)[number]  # type: ignore[no-any-return]
