"""The state of a pass: one array of words, which is kept between calls and passed to its stages.

A stage is a compiled function of the address of these words; it returns FINE, or why the pass ends. What it
makes lies in the block: memory from which each stage takes what it needs, and which begins anew with each
call. So a call allocates nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from abw.core.jit.addresses import ints_at, longs_at
from abw.core.jit.decorators import fragment

Ints = NDArray[np.int32]
# A stage, as `abw.core.jit.decorators.entry` compiles it.
Stage = Callable[[int], int]

# How a pass ends: with outputs; the block or (ROWS) the arenas are too small; the text has a fault, or an
# input has no value; too large for one thread or to keep all values; something
# else that the pass does not know; it goes on from where it is; growth needs more room.
FINE, MORE, ROWS, WRONG, APART, OTHER, AGAIN, LARGER = range(8)

_NUMBERS = 75
# Words that are numbers.
#
# - The block: its address, its bytes, how many of them are taken, or would be (`NEXT`).
# - What is run: the text's address and bytes, how many instances it has (`COUNT`); of those bound the `FIRST`
#   and the one behind the `LAST`; the seed of coins, where instances' numbers lie (0: they count from 0), the
#   most vertices; where the ids of JSON lines lie, for how many there is room.
# - Of the model: its types; the most slots and outputs of one; log2 of these; the rows of `walk.measure`'s
#   space; the first steps, that find what stands for reductions, where these may stand for each other (else
#   0); the arenas and constants; the most reduced slots of a type, floats of values, arithmetic; nodes from
#   which on equal ones are looked for.
# - Of the format: the first register that its reader fills; whether sentences are tagged;
#   how many kinds the data has; which alternatives of the pattern of tokens take several signs.
# - Of the policy: an FSM's encoding and phases; whether agenda's averages are static; of
#   rules that weigh the power of the share, whether heights count.
# - Of the executor: the walker, its table and scratch memory. Of a model that grows what `growing.stages`
#   know. The number of the stage that runs.
# - What was made: addresses of the vertices' kinds, the columns that were read and the lines of instances,
#   of binding's data; how many vertices, nodes, operands, batches, edges; addresses of the space and state of
#   construction (`OWN`), its steps, where each type's nodes begin, nodes (3, n), where operands begin,
#   operands, what stands for reductions; where equal nodes were looked for (else 0) `Distinct.place`, nodes
#   as constructed (3, n), how many these are, and how many of them are kept leaves;
#   of successors, depths, path lengths, heights, recurrent types' numbers; of the rows of values,
#   of arenas' rows, of constants' rows; how many rows lists have, the plan's arithmetic in products and else.
# - How many values have rows already, whose references are behind the nodes', and where these rows lie.
(
    BLOCK, ROOM, NEXT,
    TEXT, SIZE, COUNT, FIRST, LAST, SEED, NUMBERS, MOST_VERTICES, IDS, ID_ROOM,
    TYPES, SLOTS, WIDTH, SHIFT, SPACE_ROWS, ALIASING, ARENAS, CONSTANTS,
    MOST_REDUCED, MOST_FLOATS, MOST_FLOPS, LOOK_FROM,
    COLUMNS, TAGGED, KINDS, TOKENS_MANY,
    ENCODING, PHASES, STATIC, POWER, FREE,
    WALK, TABLE, SCRATCH, GROWTH, STAGE,
    KIND_AT, COLUMNS_AT, LINES_AT, DATA_AT, VERTICES, NODES, OPERANDS, BATCHES, EDGES,
    SPACE, OWN, STEPS_NOW, TYPE_PTR, NODE_AT, OPERAND_PTR, OPERAND, ALIAS, PLACE, MADE_AT, MADE, KEPT,
    SUCC_PTR, SUCC, INDEGREE, DEPTH, LENGTH, HEIGHT, COLUMN, ROW, ROWS_NOW,
    CONSTANT_NOW, LISTED, PRODUCT_FLOPS_NOW, OTHER_FLOPS_NOW, EARLIER, EARLIER_AT,
) = range(_NUMBERS)  # fmt: skip

_ARRAYS = 58
# Words that name arrays: the address, and in the next word how many elements there are.
#
# - The addresses of the stages.
# - Of the model, as `walk.measure` and `walk.fill` take them: `STEPS`, `REDUCTIONS`, `PRODUCERS`,
#   `OWN_STATE`, `TABLES`; of fields that flow in the steps that read them, as (step, field), and `FIELDS`
#   (see `build`).
# - Of binding: steps, registers, the kinds that steps mean, where vocabularies lie (see `bind`), which of a
#   reader's columns the halves of its registers have.
# - Of JSON: powers of ten (see `jsontokens.Json`); of JSON lines where vocabularies of names lie, and what is
#   told of these (see `jsonlines`).
# - Of query plans: known words, and what becomes of fields (see `queryplans`). Of plain text: the masks of
#   `words.find`.
# - Of equal nodes: of `equal.numbering.Keys` the order, keys, which types are alone, facts; types that stay
#   apart, none; of kept leaves `Leaves.row_of`, empty where they are not to be read, and `LeafTypes.kept`.
# - Of edges: as `edges._consumers` takes them. The types in order, where there is one.
# - Of arenas: as `plan.fill_plan` takes them.
# - Of policies: an FSM's table and actions.
# - Of outputs: see `finish`. Of the executor: addresses, rows and pitches of arenas.
# - Of what is run: where instances' vertices begin; their numbers in the file.
# - The schedule as it was made.
(
    STAGES,
    STEPS, REDUCTIONS, PRODUCERS, OWN_STATE, TABLES, GIVEN, FIELDS,
    BINDING, REGISTERS, MEMBERS, VOCABULARY, HALVES,
    JSON_POWERS, JSON_NAMES, JSON_FIELDS, JSON_LINKS,
    PLAN_NAMES, PLAN_FIELDS, TOKENS,
    EQUAL_ORDER, EQUAL_KEYS, EQUAL_ALONE, EQUAL_FACTS, EQUAL_APART, LEAF_ROWS, LEAF_KEPT,
    EDGE_SLOTS, EDGE_LISTS, EDGE_DISTINCT, ORDER,
    SLOT_ARENA, OUTPUT_ARENA, TYPE_SLOTS, REDUCES, REDUCED, CONSTANT_ROW, CONSTANT_FIRST, CONSTANT_END,
    LIST_FLOPS, PRODUCT_FLOPS, OTHER_FLOPS, LOOSE, HEAD,
    FSM_SLOTS, FSM_PTR, FSM_SYMBOLS, FSM_VALUE, FSM_VISITS, FSM_SIZE, FSM_ACTION,
    VALUE_FLOATS, OUTPUTS, PRODUCED, ARENA, PITCH, HELD,
    START,
) = range(_NUMBERS, _NUMBERS + 2 * _ARRAYS, 2)  # fmt: skip

_MORE = _NUMBERS + 2 * _ARRAYS
# The schedule: its batches' types and ends, and the nodes.
BATCH_TYPE, BATCH_PTR, BATCH_NODES = range(_MORE, _MORE + 3)

WORDS = _MORE + 3

# More than there is of anything; no more than nothing, as a number of its own: with a literal numba would
# compile what is called with it once more.
ENDLESS = 1 << 31
ZERO: int = cast(int, np.int64(0))

# What is taken of the block begins at a cache line.
LINE = 64


@fragment
def take(words: int, count: int, size: int) -> int:
    """Reserve so many elements of so many bytes in the block, and return the address; see `full`."""
    state = longs_at(words, WORDS)
    begin = state[NEXT]
    state[NEXT] = begin + ((count * size + LINE - 1) & -LINE)
    return state[BLOCK] + begin  # type: ignore[no-any-return]


@fragment
def full(words: int) -> bool:
    """Whether more was reserved than the block has; then nothing may be written."""
    state = longs_at(words, WORDS)
    return state[NEXT] > state[ROOM]  # type: ignore[no-any-return]


@fragment
def spare(words: int, count: int) -> Ints:
    """Reserve so many 32-bit integers in the block; they may be touched unless it is `full`."""
    return ints_at(take(words, count, 4), count)  # type: ignore[no-any-return]


@fragment
def held(words: int, word: int, count: int) -> Ints:
    """`spare`, with the address in a word."""
    state = longs_at(words, WORDS)
    state[word] = take(words, count, 4)
    return ints_at(state[word], count)  # type: ignore[no-any-return]


@fragment
def clear(numbers: NDArray[Any]) -> None:
    """Fill with zeros."""
    for i in range(len(numbers)):
        numbers[i] = 0
