"""What becomes of a round's nodes of one type: their kernel is called, or what they read is written down."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.growing import state as at
from abw.core.graph.growing.state import column, entries, register
from abw.core.jit.addresses import call, ints_in, longs_at, longs_in
from abw.core.jit.decorators import fragment

Longs = NDArray[np.int64]

# The arguments of LAUNCH: the type, the register of its nodes' vertices, the one of where their lists end
# (-1: it is no reduction), the column of a reduction's nodes. What slots read is in the first registers.
TYPE, VERTICES, ENDS, NODE = range(1, 5)


@fragment
def launch(words: int, a: int) -> None:
    """Do a step LAUNCH."""
    state = longs_at(words, at.WORDS)
    if entries(state, longs_in(state, at.STEPS)[a + VERTICES]) > 0:
        if state[at.KERNEL] != 0:
            _run(words, a)
        else:
            _number(words, a)


@fragment
def _run(words: int, a: int) -> None:
    """Run nodes. Their values are the next rows of their arenas: ROWS (A, 3) has the next one, the end, and
    how many a vertex takes.
    """
    state = longs_at(words, at.WORDS)
    steps = longs_in(state, at.STEPS)
    t, ends, vertices = steps[a + TYPE], steps[a + ENDS], register(state, steps[a + VERTICES])
    n, slots = entries(state, steps[a + VERTICES]), ints_in(state, at.TYPE_SLOTS)[t]
    frame = longs_in(state, at.FRAME)
    arena, pitch, rows = longs_in(state, at.ARENA), longs_in(state, at.PITCH), longs_in(state, at.ROWS)
    slot_arena, output_arena = ints_in(state, at.SLOT_ARENA), ints_in(state, at.OUTPUT_ARENA)
    values, bytes_of_register = longs_in(state, at.VALUES), 4 * state[at.ENTRIES]
    for s in range(slots):
        word = state[at.SLOT_WORDS] * s
        frame[word] = arena[slot_arena[t * state[at.SLOTS] + s]]
        frame[word + 1] = state[at.SPACE] + s * bytes_of_register
        frame[word + 4] = state[at.SPACE] + ends * bytes_of_register if ends >= 0 else 0
    for o in range(ints_in(state, at.TYPE_OUTPUTS)[t]):
        b = output_arena[t * state[at.WIDTH] + o]
        row = rows[3 * b]
        rows[3 * b] = row + n
        frame[state[at.SLOT_WORDS] * slots + o] = arena[b] + row * pitch[b]
        value = column(state, values[t * state[at.WIDTH] + o])
        for i in range(n):
            value[vertices[i] + 1] = row + i
    if steps[a + NODE] >= 0:
        node = column(state, steps[a + NODE])
        for i in range(n):
            node[vertices[i] + 1] = 0
    kernel, constants = longs_in(state, at.KERNEL)[t], longs_in(state, at.CONSTANTS)[t]
    call(kernel, (state[at.FRAME], state[at.SCRATCH], constants, 0, n, 0, 1))
    state[at.BATCHES] += 1


@fragment
def _number(words: int, a: int) -> None:
    """Number nodes, and write down their types, vertices and operands."""
    state = longs_at(words, at.WORDS)
    steps = longs_in(state, at.STEPS)
    t, ends, vertices = steps[a + TYPE], steps[a + ENDS], register(state, steps[a + VERTICES])
    slots, end = ints_in(state, at.TYPE_SLOTS)[t], register(state, max(ends, 0))
    types, whose = ints_in(state, at.NODE_TYPE), ints_in(state, at.NODE_VERTEX)
    operand_end, operand = ints_in(state, at.OPERAND_END), ints_in(state, at.OPERAND)
    nodes, values = longs_in(state, at.NODES), longs_in(state, at.VALUES)
    n, k, width = state[at.NODE_COUNT], state[at.OPERANDS], state[at.WIDTH]
    for i in range(entries(state, steps[a + VERTICES])):
        vertex, node = vertices[i], nodes[t]
        for s in range(slots):
            read = register(state, s)
            for m in range(end[i] if ends >= 0 else i, end[i + 1] if ends >= 0 else i + 1):
                operand[k] = read[m] if read[m] >= 0 else read[m] + 1
                k += 1
        for o in range(ints_in(state, at.TYPE_OUTPUTS)[t]):
            column(state, values[t * width + o])[vertex + 1] = node * width + o
        if steps[a + NODE] >= 0:
            column(state, steps[a + NODE])[vertex + 1] = node
        types[n], whose[n], operand_end[n] = t, vertex, k
        nodes[t] += 1
        n += 1
    state[at.NODE_COUNT], state[at.OPERANDS] = n, k
