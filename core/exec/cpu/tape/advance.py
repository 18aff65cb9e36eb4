"""Appended nodes: read from the words that say them, scheduled by the critical rule, run batch by batch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.cpu.llvm.kernel import SLOT_WORDS
from abw.core.exec.cpu.tape import state as at
from abw.core.graph.equal.consing import sort_pairs, stands_for
from abw.core.graph.growing.launch import read_slot, run_kernel
from abw.core.graph.growing.state import DONE, FAILED, FULL, PAUSED
from abw.core.jit.addresses import bytes_in, ints_at, ints_in, longs_at, longs_in
from abw.core.jit.decorators import inner, njit
from abw.core.policy.rules.critical import Paths, critical_type

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

# The bits of a node's first word that are its type's number.
NUMBER = 2**32 - 1
# The end of a list of words.
NONE = 2**31 - 1


class Nodes(NamedTuple):
    """Arrays over the new nodes: see `abw.core.exec.cpu.tape.state`."""

    type: Ints
    begin: Ints
    missing: Ints
    head: Ints
    path: Ints
    queue: Ints


class Reads(NamedTuple):
    """Arrays over the words: who reads what."""

    operand: Ints
    next: Ints
    owner: Ints


class Ready(NamedTuple):
    """The frontier, by types."""

    begin: Ints
    end: Ints
    longest: Ints
    number: Ints


@njit
def advance(state: Longs, words: int, length: int) -> int:
    """Execute what `length` words at an address say, behind the nodes that the run has already.

    A node is its type's number, in a word's low bits (`NUMBER`), then a handle for each slot; of a reduction
    how long its lists are, then these. The order is that of `abw.core.policy.rules.critical`. Returns DONE;
    or, with nothing run, FAILED where a node reads a value of an earlier run, a later node or another shape;
    PAUSED where the arithmetic is the limit or more, FULL where there is no room for
    the rows (`ROWS` says how many).
    """
    begin, first = ints_in(state, at.BEGIN), state[at.COUNT]
    nodes = Nodes(
        ints_at(state[at.TYPE] + 4 * first, state[at.TYPE + 1] - first),
        begin,
        ints_in(state, at.MISSING),
        ints_in(state, at.HEAD),
        ints_in(state, at.PATH),
        ints_in(state, at.QUEUE),
    )
    reads = Reads(ints_in(state, at.OPERAND), ints_in(state, at.NEXT), ints_in(state, at.OWNER))
    types = state[at.TYPE_SLOTS + 1]
    by_type = state[at.READY]
    ready = Ready(
        ints_at(by_type, types),
        ints_at(by_type + 4 * types, types),
        ints_at(by_type + 8 * types, types),
        ints_at(by_type + 12 * types, types),
    )
    count, work, used = _read(state, longs_at(words, length), first, nodes, reads, ready.end)
    if count < 0:
        return FAILED
    if work >= state[at.LIMIT]:
        return PAUSED
    if not _fits(state, ready.end):
        return FULL
    left = _begin(state, first, count, nodes, reads, ready)
    done = 0
    while done < left:
        t = critical_type(Paths(nodes.path, ready.longest, ready.number, ready.end))
        done += _run(state, t, first, nodes, reads, ready)
    if state[at.LOOKS] != 0:
        longs_in(state, at.USED)[0] = used
        if left < count:
            _refer(state, first, count, nodes)
    state[at.COUNT] += count
    return DONE


@inner
def _read(
    state: Longs, words: Longs, first: int, nodes: Nodes, reads: Reads, sizes: Ints
) -> tuple[int, int, int]:
    """What the words say: how many nodes there are, -1 where one reads what is gone, their arithmetic, and
    how many keys are used then.

    `sizes`: of each type, becomes how many there are, without those that equal others: they miss -1 nodes.
    """
    slots, flops, reduces = (
        ints_in(state, at.TYPE_SLOTS),
        longs_in(state, at.FLOPS),
        bytes_in(state, at.REDUCES),
    )
    slot_arena, output_arena = ints_in(state, at.SLOT_ARENA), ints_in(state, at.OUTPUT_ARENA)
    type_of, width = ints_in(state, at.TYPE), state[at.WIDTH]
    base, bits, shift = state[at.BASE], state[at.BITS], state[at.SHIFT]
    operand, following, owner = reads
    looks, used = state[at.LOOKS] != 0, 0
    # without `LOOKS` these are not read
    same, known_at, keys, table = (
        ints_in(state, at.SAME),
        ints_in(state, at.AT),
        ints_in(state, at.KEYS),
        ints_in(state, at.TABLE),
    )
    pairs = bytes_in(state, at.PAIRS)
    if looks:
        used = longs_in(state, at.USED)[0]
    sizes[:] = 0
    place, n, work = 0, 0, 0
    while place < len(words):
        t = words[place] & NUMBER
        if t >= len(slots):
            return -1, 0, 0
        begin, length = place + 1, 1
        if reduces[t]:
            length = words[begin] if begin < len(words) else 0
            operand[begin] = length
            begin += 1
        end = begin + length * slots[t]
        if length < 1 or end > len(words):
            return -1, 0, 0
        nodes.type[n], nodes.begin[n], nodes.path[n] = t, begin, 1
        nodes.missing[n], nodes.head[n] = 0, NONE
        sizes[t] += 1
        work += flops[t]
        k = begin
        for s in range(slots[t]):
            arena = slot_arena[t * state[at.SLOTS] + s]
            for _ in range(length):
                reference = words[k] >> bits
                if reference < 0:
                    row = _constant_row(state, arena, reference)
                    if row < 0:
                        return -1, 0, 0
                    operand[k] = -1 - row
                    if looks:
                        keys[used + 2 + k - begin] = reference
                else:
                    reference -= base
                    node = reference >> shift
                    if reference < 0 or node >= first + n:
                        return -1, 0, 0
                    if output_arena[type_of[node] * width + (reference & width - 1)] != arena:
                        return -1, 0, 0
                    if looks:
                        node = same[node]
                        reference = node << shift | (reference & width - 1)
                        keys[used + 2 + k - begin] = reference
                    if node >= first:
                        following[k], owner[k] = nodes.head[node - first], n
                        nodes.head[node - first] = k
                        nodes.missing[n] += 1
                    operand[k] = reference
                k += 1
        if looks:
            keys[used], keys[used + 1] = t, end - begin
            sort_pairs(keys, used, pairs[t])
            node = stands_for(first + n, keys, used, known_at, table)
            same[first + n] = node
            if node == first + n:
                used += 2 + end - begin
            else:
                sizes[t] -= 1
                work -= flops[t]
                nodes.missing[n] = -1
                for k in range(end - 1, begin - 1, -1):
                    producer = (operand[k] >> shift) - first
                    if producer >= 0:
                        nodes.head[producer] = following[k]
        place = end
        n += 1
    return n, work, used


@inner
def _fits(state: Longs, sizes: Ints) -> bool:
    """Whether there is room for so many nodes of each type; how many rows they need is noted."""
    outputs, output_arena = ints_in(state, at.TYPE_OUTPUTS), ints_in(state, at.OUTPUT_ARENA)
    rows, width = longs_in(state, at.ROWS), state[at.WIDTH]
    arenas = len(rows) // 3
    rows[2 * arenas :] = 0
    for t in range(len(sizes)):
        for o in range(outputs[t]):
            rows[2 * arenas + output_arena[t * width + o]] += sizes[t]
    fits = True
    for a in range(arenas):
        fits &= rows[a] + rows[2 * arenas + a] <= rows[arenas + a]
    return fits


@inner
def _begin(state: Longs, first: int, count: int, nodes: Nodes, reads: Reads, ready: Ready) -> int:
    """The paths from all new nodes, and the frontier before the first batch; how many nodes are to run."""
    slots, shift, path = ints_in(state, at.TYPE_SLOTS), state[at.SHIFT], nodes.path
    left = 0
    for node in range(count - 1, -1, -1):
        if nodes.missing[node] < 0:
            continue
        left += 1
        begin = nodes.begin[node]
        for k in range(begin, begin + slots[nodes.type[node]] * _length(state, node, nodes, reads)):
            producer = (reads.operand[k] >> shift) - first
            if producer >= 0:
                path[producer] = max(path[producer], path[node] + 1)
    start = 0
    for t in range(len(slots)):
        size = ready.end[t]
        ready.begin[t] = ready.end[t] = start
        ready.longest[t] = ready.number[t] = 0
        start += size
    for node in range(count):
        if nodes.missing[node] == 0:
            _enter(node, nodes, ready)
    return left


@inner
def _refer(state: Longs, first: int, count: int, nodes: Nodes) -> None:
    """Give nodes that equal others the rows of these."""
    row, same, shift = ints_in(state, at.ROW), ints_in(state, at.SAME), state[at.SHIFT]
    outputs = ints_in(state, at.TYPE_OUTPUTS)
    for node in range(count):
        if nodes.missing[node] < 0:
            here, there = first + node << shift, same[first + node] << shift
            for o in range(outputs[nodes.type[node]]):
                row[here + o] = row[there + o]


@inner
def _length(state: Longs, node: int, nodes: Nodes, reads: Reads) -> int:
    """How many values a node has in each slot."""
    return int(reads.operand[nodes.begin[node] - 1]) if bytes_in(state, at.REDUCES)[nodes.type[node]] else 1


@inner
def _enter(node: int, nodes: Nodes, ready: Ready) -> None:
    """Put a node on the frontier."""
    t, path = nodes.type[node], nodes.path[node]
    nodes.queue[ready.end[t]] = node
    ready.end[t] += 1
    if path > ready.longest[t]:
        ready.longest[t], ready.number[t] = path, 1
    elif path == ready.longest[t]:
        ready.number[t] += 1


@inner
def _run(state: Longs, t: int, first: int, nodes: Nodes, reads: Reads, ready: Ready) -> int:
    """Run the ready nodes of a type; then others may be ready. How many it were."""
    low, high = ready.begin[t], ready.end[t]
    ready.begin[t], ready.longest[t] = high, 0
    row, rows = ints_in(state, at.ROW), longs_in(state, at.ROWS)
    arena, pitch = longs_in(state, at.ARENA), longs_in(state, at.PITCH)
    slot_arena, output_arena = ints_in(state, at.SLOT_ARENA), ints_in(state, at.OUTPUT_ARENA)
    slots, outputs = ints_in(state, at.TYPE_SLOTS)[t], ints_in(state, at.TYPE_OUTPUTS)[t]
    frame, index = longs_in(state, at.FRAME), ints_in(state, at.INDEX)
    operand, queue = reads.operand, nodes.queue
    count, lists = high - low, ints_in(state, at.LISTS)
    listed = 0
    if bytes_in(state, at.REDUCES)[t]:
        lists[0], listed = 0, state[at.LISTS]
        for i in range(low, high):
            lists[i - low + 1] = lists[i - low] + operand[nodes.begin[queue[i]] - 1]
        count = lists[high - low]
    for s in range(slots):
        a = slot_arena[t * state[at.SLOTS] + s]
        place = begin = count * s
        for i in range(low, high):
            length = 1 if listed == 0 else lists[i - low + 1] - lists[i - low]
            first_read = nodes.begin[queue[i]] + length * s
            for k in range(first_read, first_read + length):
                reference = operand[k]
                index[place] = row[reference] if reference >= 0 else -1 - reference
                place += 1
        read_slot(frame, SLOT_WORDS * s, arena[a], state[at.INDEX] + 4 * begin, listed)
    for o in range(outputs):
        a = output_arena[t * state[at.WIDTH] + o]
        frame[SLOT_WORDS * slots + o] = arena[a] + rows[a] * pitch[a]
        for i in range(low, high):
            row[(first + queue[i] << state[at.SHIFT]) + o] = rows[a] + i - low
        rows[a] += high - low
    kernel, constants = longs_in(state, at.KERNEL)[t], longs_in(state, at.CONSTANTS)[t]
    run_kernel(kernel, state[at.FRAME], state[at.SCRATCH], constants, high - low)
    state[at.BATCHES] += 1
    for i in range(low, high):
        k = nodes.head[queue[i]]
        while k != NONE:
            node = reads.owner[k]
            nodes.missing[node] -= 1
            if nodes.missing[node] == 0:
                _enter(node, nodes, ready)
            k = reads.next[k]
    return int(high - low)


@inner
def _constant_row(state: Longs, arena: int, reference: int) -> int:
    """Where a constant lies in an arena; -1 if it does not, or is a row that was brought in another run."""
    number = -1 - reference
    ptr, known = ints_in(state, at.KNOWN_PTR), ints_in(state, at.KNOWN)
    for c in range(3 * ptr[arena], 3 * ptr[arena + 1], 3):
        if known[c] <= number < known[c + 1]:
            return int(number - known[c] + known[c + 2])
    fields = longs_in(state, at.FIELDS)
    for f in range(0, len(fields), at.OF_FIELD):
        place, count = number - fields[f + at.FIELD_FIRST], fields[f + at.FIELD_COUNT]
        if 0 <= place < count and fields[f + at.FIELD_ARENA] == arena:
            own = place - fields[f + at.SINCE] & count - 1
            if own < fields[f + at.BROUGHT]:
                return int(ints_at(fields[f + at.GIVEN], fields[f + at.BROUGHT])[own])
    return -1
