"""Appended nodes: read from the words that say them, scheduled by the critical rule, run batch by batch."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abw.core.exec.cpu.llvm.kernel import SLOT_WORDS
from abw.core.exec.cpu.tape import state as at
from abw.core.graph.equal.consing import list_at, sort_pairs, stands_for
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
# The rows that nodes read are counted in 32 bits.
MOST_ITEMS = 2**31


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

    A node is its type's number, in a word's low bits (`NUMBER`), then a handle for each slot. Of a reduction
    these are lists, and before them is how long they are. Attention's query is no list: there may be several,
    each a node; how many more than one is in the high bits of the lists' length.

    The order is that of `abw.core.policy.rules.critical`. Returns DONE; or, with nothing run,
    FAILED where a node reads a value of an earlier run, a later node or another shape; PAUSED where the
    arithmetic is the limit or more, FULL where there is no room for the rows (`ROWS`, `ITEMS`).
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
    if work >= state[at.LIMIT] or state[at.ITEMS] >= MOST_ITEMS:
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
    slots, listed, flops = (
        ints_in(state, at.TYPE_SLOTS), ints_in(state, at.LISTED), longs_in(state, at.FLOPS),
    )  # fmt: skip
    slot_arena, pairs = ints_in(state, at.SLOT_ARENA), bytes_in(state, at.PAIRS)
    operand, following, owner = reads
    # without `LOOKS` these are not read
    same, keys, table = ints_in(state, at.SAME), ints_in(state, at.KEYS), ints_in(state, at.TABLE)
    values = words, ints_in(state, at.TYPE), ints_in(state, at.OUTPUT_ARENA), same, keys
    looks = state[at.LOOKS] != 0
    used = longs_in(state, at.USED)[0] if looks else 0
    sizes[:] = 0
    k, n, work, items = 0, 0, 0, 0
    while k < len(words):
        t = words[k] & NUMBER
        if t >= len(slots):
            return -1, 0, 0
        length, count, lists, arenas = 1, 1, int(listed[t]), t * state[at.SLOTS]
        own, leader, behind = slots[t] - lists, n, used + 2
        k += 1
        if lists:
            head = words[k] if k < len(words) else -1
            length, count = head & NUMBER, (head >> 32) + 1
            k += 1
        begin = k
        low = begin + length * lists
        if length < 1 or count < 1 or low + count * own > len(words) or (count > 1 and own == 0):
            return -1, 0, 0
        items += count * length * slots[t]
        kept, waiting, of_list = 0, 0, -1
        for s in range(lists):
            reader = n if count == 1 else -1 - n
            run = slot_arena[arenas + s], k, length, behind
            found = _take(state, values, run, (first, leader, reader), nodes.head, reads)
            if found < 0:
                return -1, 0, 0
            waiting, k, behind = waiting + found, k + length, behind + length
        if lists:
            operand[begin - 2], following[begin - 2] = count, 0
            operand[begin - 1], following[begin - 1], owner[begin - 1] = length, waiting, n
            waiting = waiting if count == 1 else min(waiting, 1)
            if looks and own:
                keys[used], keys[used + 1] = -1 - t, length * lists
                of_list = list_at(keys, used, table)
                used = behind if of_list == used else used
        for _ in range(count):
            nodes.type[n], nodes.begin[n], nodes.path[n] = t, begin, 1
            nodes.missing[n], nodes.head[n] = waiting, NONE
            sizes[t] += 1
            work += flops[t]
            behind = used + 3 if of_list >= 0 else behind
            for s in range(lists, slots[t]):
                run = slot_arena[arenas + s], k, 1, behind
                found = _take(state, values, run, (first, leader, n), nodes.head, reads)
                if found < 0:
                    return -1, 0, 0
                nodes.missing[n], k, behind = nodes.missing[n] + found, k + 1, behind + 1
            if looks:
                keys[used], keys[used + 1] = t, behind - used - 2
                if of_list >= 0:
                    keys[used], keys[used + 2] = -1 - t, of_list
                sort_pairs(keys, used, pairs[t])
                node = stands_for(first + n, keys, used, ints_in(state, at.AT), table)
                same[first + n] = node
                if node == first + n:
                    used, kept = behind, kept + 1
                else:
                    sizes[t] -= 1
                    work -= flops[t]
                    nodes.missing[n] = -1
                    _unread(k - own, k, first, state[at.SHIFT], nodes.head, reads)
            n += 1
        if looks and kept == 0:
            _unread(begin, low, first, state[at.SHIFT], nodes.head, reads)
    state[at.ITEMS] = items
    return n, work, used


@inner
def _take(
    state: Longs, values: tuple[Longs, Ints, Ints, Ints, Ints], run: tuple[int, int, int, int],
    who: tuple[int, int, int], heads: Ints, reads: Reads,
) -> int:  # fmt: skip
    """Take words as operands of an arena: how many are values of new nodes.

    `run`: the arena, the first word, how many there are, the first of the keys that they become; `who`: how
    many nodes the run had, how many new ones may be read, by which node. Returns -1 where one may not be.
    """
    words, type_of, output_arena, same, keys = values
    arena, begin, length, key = run
    first, below, reader = who
    looks, shift, width = state[at.LOOKS] != 0, state[at.SHIFT], state[at.WIDTH]
    bits, base, found = state[at.BITS], state[at.BASE], 0
    for k in range(begin, begin + length):
        reference = words[k] >> bits
        if reference < 0:
            row = _constant_row(state, arena, reference)
            if row < 0:
                return -1
            reads.operand[k] = -1 - row
        else:
            reference -= base
            node = reference >> shift
            if reference < 0 or node >= first + below:
                return -1
            if output_arena[type_of[node] * width + (reference & width - 1)] != arena:
                return -1
            if looks:
                node = same[node]
                reference = node << shift | (reference & width - 1)
            if node >= first:
                reads.next[k], reads.owner[k] = heads[node - first], reader
                heads[node - first] = k
                found += 1
            reads.operand[k] = reference
        if looks:
            keys[key + k - begin] = reference
    return found


@inner
def _unread(begin: int, end: int, first: int, shift: int, heads: Ints, reads: Reads) -> None:
    """Take back that the last words so far read nodes: of a node that equals another."""
    for k in range(end - 1, begin - 1, -1):
        producer = (reads.operand[k] >> shift) - first
        if producer >= 0:
            heads[producer] = reads.next[k]


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
    fits = bool(state[at.ITEMS] <= state[at.INDEX + 1])
    for a in range(arenas):
        fits &= rows[a] + rows[2 * arenas + a] <= rows[arenas + a]
    return fits


@inner
def _begin(state: Longs, first: int, count: int, nodes: Nodes, reads: Reads, ready: Ready) -> int:
    """The paths from all new nodes, and the frontier before the first batch; how many nodes are to run."""
    slots, listed, path = ints_in(state, at.TYPE_SLOTS), ints_in(state, at.LISTED), nodes.path
    left = 0
    for node in range(count - 1, -1, -1):
        t, begin, before = nodes.type[node], nodes.begin[node], path[node] + 1
        lists, leader, low = int(listed[t]), node, begin
        own = slots[t] - lists
        if lists:
            leader = reads.owner[begin - 1]
            low = begin + lists * reads.operand[begin - 1] + (node - leader) * own
        if nodes.missing[node] >= 0:
            left += 1
            _lengthen(low, low + own, before, first, state[at.SHIFT], path, reads)
            if lists:
                reads.next[begin - 2] = max(reads.next[begin - 2], before)
        if lists and node == leader:
            _lengthen(begin, low, reads.next[begin - 2], first, state[at.SHIFT], path, reads)
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
def _lengthen(begin: int, end: int, path: int, first: int, shift: int, paths: Ints, reads: Reads) -> None:
    """Note a path from the new nodes that some words read."""
    for k in range(begin, end):
        producer = (reads.operand[k] >> shift) - first
        if producer >= 0:
            paths[producer] = max(paths[producer], path)


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
    count, ends = high - low, ints_in(state, at.LISTS)
    lists, listed = int(ints_in(state, at.LISTED)[t]), 0
    if lists:
        ends[0], listed = 0, state[at.LISTS]
        for i in range(low, high):
            ends[i - low + 1] = ends[i - low] + operand[nodes.begin[queue[i]] - 1]
        count = ends[high - low]
    for s in range(slots):
        a = slot_arena[t * state[at.SLOTS] + s]
        begin = count * s
        if lists:
            _index_lists(low, high, s, slots, lists, nodes, reads, row, index[begin:])
        else:
            for i in range(low, high):
                reference = operand[nodes.begin[queue[i]] + s]
                index[begin + i - low] = row[reference] if reference >= 0 else -1 - reference
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
            node, many = int(reads.owner[k]), 1
            if node < 0:  # of a list that several nodes share
                node = -1 - node
                begin = nodes.begin[node]
                reads.next[begin - 1] -= 1
                many = reads.operand[begin - 2] if reads.next[begin - 1] == 0 else 0
            for each in range(node, node + many):
                nodes.missing[each] -= 1
                if nodes.missing[each] == 0:
                    _enter(each, nodes, ready)
            k = reads.next[k]
    return int(high - low)


@inner
def _index_lists(
    low: int, high: int, s: int, slots: int, lists: int, nodes: Nodes, reads: Reads, row: Ints, index: Ints
) -> None:
    """Write the rows of a slot of reductions: of a list, or as often a query's."""
    place, before = 0, -1
    for i in range(low, high):
        node = nodes.queue[i]
        begin = nodes.begin[node]
        length, k = int(reads.operand[begin - 1]), begin
        if s < lists and begin == before:  # the same list again
            for j in range(place, place + length):
                index[j] = index[j - length]
        elif s < lists:
            k += length * s
            for j in range(length):
                reference = reads.operand[k + j]
                index[place + j] = row[reference] if reference >= 0 else -1 - reference
        else:
            k += length * lists + (node - reads.owner[begin - 1]) * (slots - lists) + s - lists
            reference = reads.operand[k]
            index[place : place + length] = row[reference] if reference >= 0 else -1 - reference
        before = begin
        place += length


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
