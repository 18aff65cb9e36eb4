"""What becomes of a round's nodes of one type: their kernel is called, or what they read is written down.

Of equal nodes, where these are looked for, one alone: the vertices of the others have its values.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.equal.consing import sort_pairs, stands_for
from abw.core.graph.growing import state as at
from abw.core.graph.growing.state import column, entries, register
from abw.core.jit.addresses import ask, bytes_in, call, ints_in, longs_at, longs_in
from abw.core.jit.decorators import entry, fragment, within

Longs = NDArray[np.int64]

# The arguments of LAUNCH: the type, the register of its nodes' vertices, the one of where their lists end
# (-1: it is no reduction), the column of a reduction's nodes (-1), which of the round's launches it is. What
# slots read is in the first registers.
TYPE, VERTICES, ENDS, NODE, NUMBER = range(1, 6)


@within
def launch(words: int, a: int) -> None:
    """Do a step LAUNCH."""
    state = longs_at(words, at.WORDS)
    steps = ints_in(state, at.STEPS)
    vertices = steps[a + VERTICES]
    if entries(state, vertices) == 0:
        return
    if state[at.LOOKS] != 0:
        state[at.STEP] = a
        ask(state[at.BY_EQUAL], words)
        vertices = state[at.LOOKS]
    if entries(state, vertices) > 0:
        bytes_in(state, at.LAUNCHED)[state[at.ROUND] * state[at.STEPS_EACH] + steps[a + NUMBER]] = 1
        if state[at.KERNEL] != 0:
            _run(words, a, vertices)
        else:
            state[at.STEP] = a
            ask(state[at.BY_NUMBERS], words)
    if state[at.LOOKS] != 0:
        _refer(words, a)


@entry
def leave_out_equal(words: int) -> int:
    """Leave distinct nodes alone in the registers of what slots read and of where lists end; how many.

    A node is known by the rows, or references, that it reads, which are those of distinct nodes. The register
    LOOKS gets the vertices of distinct nodes, and the next one, for each node, the vertex of the one that
    stands for it, -1 for itself.
    """
    state = longs_at(words, at.WORDS)
    a = state[at.STEP]
    steps, sizes = ints_in(state, at.STEPS), longs_in(state, at.SIZES)
    t, ends, vertices = steps[a + TYPE], steps[a + ENDS], register(state, steps[a + VERTICES])
    kept, stands = register(state, state[at.LOOKS]), register(state, state[at.LOOKS] + 1)
    keys, begins, table = ints_in(state, at.KEYS), ints_in(state, at.AT), ints_in(state, at.TABLE)
    slots, end = ints_in(state, at.TYPE_SLOTS)[t], register(state, max(ends, 0))
    used, node = longs_in(state, at.USED)[0], state[at.DISTINCT]
    k, low, filled = 0, 0, 0
    for i in range(entries(state, steps[a + VERTICES])):
        high = end[i + 1] if ends >= 0 else i + 1
        behind = used + 2
        for s in range(slots):
            read = register(state, s)
            for m in range(low, high):
                keys[behind] = read[m]
                behind += 1
        keys[used], keys[used + 1] = t, behind - used - 2
        sort_pairs(keys, used, bytes_in(state, at.PAIRS)[t])
        found = stands_for(node, keys, used, begins, table)
        if found == node:
            keys[behind], stands[i], kept[k] = vertices[i], -1, vertices[i]
            for s in range(slots if filled < low else 0):
                read = register(state, s)
                for m in range(high - low):
                    read[filled + m] = read[low + m]
            node, used, k, filled = node + 1, behind + 1, k + 1, filled + high - low
            if ends >= 0:
                end[k] = filled
        else:
            begin = begins[found]
            stands[i] = keys[begin + 2 + keys[begin + 1]]
        low = high
    n = entries(state, steps[a + VERTICES])
    longs_in(state, at.SPARED)[t] += n - k
    sizes[state[at.LOOKS]], sizes[state[at.LOOKS] + 1] = k, n
    longs_in(state, at.USED)[0], state[at.DISTINCT] = used, node
    return k


@fragment
def _refer(words: int, a: int) -> None:
    """Note at the vertices of nodes that were left out the values of those that stand for them."""
    state = longs_at(words, at.WORDS)
    steps, values = ints_in(state, at.STEPS), longs_in(state, at.VALUES)
    t, vertices = steps[a + TYPE], register(state, steps[a + VERTICES])
    stands, outputs = register(state, state[at.LOOKS] + 1), ints_in(state, at.TYPE_OUTPUTS)[t]
    for o in range(outputs + 1):
        noted = steps[a + NODE] if o == outputs else values[t * state[at.WIDTH] + o]
        if noted < 0:
            continue
        found = column(state, noted)
        for i in range(entries(state, state[at.LOOKS] + 1)):
            if stands[i] >= 0:
                found[vertices[i] + 1] = found[stands[i] + 1]


@within
def _run(words: int, a: int, nodes: int) -> None:
    """Run nodes at the vertices in a register. Their values are the next rows of their arenas: ROWS (A, 3)
    has the next one, the end, and how many a vertex takes.
    """
    state = longs_at(words, at.WORDS)
    steps = ints_in(state, at.STEPS)
    t, ends, vertices = steps[a + TYPE], steps[a + ENDS], register(state, nodes)
    n, slots = entries(state, nodes), ints_in(state, at.TYPE_SLOTS)[t]
    frame = longs_in(state, at.FRAME)
    arena, pitch, rows = longs_in(state, at.ARENA), longs_in(state, at.PITCH), longs_in(state, at.ROWS)
    slot_arena, output_arena = ints_in(state, at.SLOT_ARENA), ints_in(state, at.OUTPUT_ARENA)
    values, bytes_of_register = longs_in(state, at.VALUES), 4 * state[at.ENTRIES]
    lists_end = state[at.SPACE] + ends * bytes_of_register if ends >= 0 else 0
    for s in range(slots):
        base = arena[slot_arena[t * state[at.SLOTS] + s]]
        read_slot(frame, state[at.SLOT_WORDS] * s, base, state[at.SPACE] + s * bytes_of_register, lists_end)
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
    run_kernel(kernel, state[at.FRAME], state[at.SCRATCH], constants, n)


@within
def read_slot(frame: Longs, word: int, base: int, rows: int, ends: int) -> None:
    """Let a slot read rows of an arena; addresses of the arena, of the rows' numbers, and of where lists end
    among these (0: each node reads one).
    """
    frame[word], frame[word + 1], frame[word + 4] = base, rows, ends


@within
def run_kernel(kernel: int, frame: int, scratch: int, constants: int, nodes: int) -> None:
    """Run so many nodes on this thread, by what a frame says; all are addresses but the number."""
    call(kernel, (frame, scratch, constants, 0, nodes, 0, 1))


@entry
def number_nodes(words: int) -> int:
    """Number the nodes of a step LAUNCH, and write them down; how many there are by now."""
    state = longs_at(words, at.WORDS)
    steps, a = ints_in(state, at.STEPS), state[at.STEP]
    nodes = state[at.LOOKS] if state[at.LOOKS] != 0 else steps[a + VERTICES]
    t, ends, vertices = steps[a + TYPE], steps[a + ENDS], register(state, nodes)
    slots, end = ints_in(state, at.TYPE_SLOTS)[t], register(state, max(ends, 0))
    types, whose = ints_in(state, at.NODE_TYPE), ints_in(state, at.NODE_VERTEX)
    operand_end, operand = ints_in(state, at.OPERAND_END), ints_in(state, at.OPERAND)
    values = longs_in(state, at.VALUES)
    n, k, width = state[at.NODE_COUNT], state[at.OPERANDS], state[at.WIDTH]
    for i in range(entries(state, nodes)):
        vertex, node = vertices[i], state[at.TAKEN] + n
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
        n += 1
    state[at.NODE_COUNT], state[at.OPERANDS] = n, k
    return n  # type: ignore[no-any-return]
