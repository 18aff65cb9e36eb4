"""How long the results of batches are needed, and an order of their lanes in which they end one by one."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.graph import Graph
from abw.core.ir.network import LISTED
from abw.core.jit.decorators import inner, njit
from abw.core.plan.arenas import Arenas
from abw.core.policy.schedule import Schedule

Ints = NDArray[np.int32]
Bools = NDArray[np.bool_]

# (ptr, block, first, last): when batch b is done, for j of `ptr[b]:ptr[b + 1]` (B + 1,) the lanes
# `first[j]:last[j]`, counted through all batches, of block `block[j]` are free. A block is `unit * width +
# output`.
Free = tuple[Ints, Ints, Ints, Ints]


def order_lanes(
    schedule: Schedule, unit_ptr: Ints, graph: Graph, arenas: Arenas, keep: Ints, loose: Bools
) -> tuple[Ints, Free]:
    """Order the lanes of every batch, and say when their rows are free.

    A unit is a range of lanes that stay together: a batch, or one part of it, `unit_ptr` (units + 1,). Going
    back from the last batch, a node takes the next lane of its unit when its result is met for the first
    time: so what is needed longest lies in front, lanes that one operand reads lie side by side in its order,
    and each output of a unit is needed up to some lane, fewer and fewer as time goes on. Values to keep are
    needed for ever. Lanes of `loose` types (T,) may be ordered otherwise afterwards; types for which that is
    wrong are struck out. The result: the nodes, and what is free when. Cost: linear in nodes and operands.
    """
    width, batches = graph.network.width, len(schedule)
    units, values = len(unit_ptr) - 1, len(graph) * width
    nodes = np.empty_like(schedule.nodes)
    ptr = np.zeros(batches + 1, np.int32)
    block, first, last = (np.empty(values, np.int32) for _ in range(3))
    begin = _order(
        (schedule.type, schedule.ptr, schedule.nodes),
        unit_ptr,
        (graph.operand_ptr, graph.operand, graph.list_ptr, graph.list_operand),
        (arenas.outputs, arenas.slots, arenas.reduces, arenas.read),
        keep,
        loose,
        width.bit_length() - 1,
        (np.empty((3, len(graph)), np.int32), unit_ptr.copy(), nodes),
        np.empty(len(graph.operand) + len(graph.list_operand), np.int32),
        (np.repeat(unit_ptr[:-1], width), np.zeros(units * width, np.int32)),
        np.zeros(values, np.bool_),
        (ptr, np.full(units * width, values, np.int32), block, first, last),
    )
    return nodes, (ptr, block[begin:], first[begin:], last[begin:])


@njit
def _order(
    schedule: tuple[Ints, Ints, Ints],
    unit_ptr: Ints,
    graph: tuple[Ints, Ints, Ints, Ints],
    types: tuple[Ints, Ints, Bools, Bools],
    keep: Ints,
    loose: Bools,
    shift: int,
    lanes: tuple[Ints, Ints, Ints],
    read: Ints,
    blocks: tuple[Ints, Ints],
    met: Bools,
    free: tuple[Ints, Ints, Ints, Ints, Ints],
) -> int:
    """The loop behind `order_lanes`. Events are written from the end; the result is where they begin.

    `lanes`: of each node its place in the schedule as given; of each place there its unit, and its lane among
    all once that is known (else -1); of each unit its next lane; the nodes. `blocks`: the lane up to which
    each is needed from here on, and how many of its values are known to be needed. `met` (values,) goes by
    places: those of a batch lie together, and so in the cache. Allocated outside, because it would take long
    to compile; and a call for each node would take as long as the rest.
    """
    batch_type, batch_ptr, given = schedule
    outputs, slots, reduces, is_read = types
    of_nodes, lane, nodes = lanes
    place, unit, own = of_nodes[0], of_nodes[1], of_nodes[2]
    reach, needed = blocks
    free_ptr, event, block, first, last = free
    batches, units = len(batch_type), len(unit_ptr) - 1
    parts = units // batches
    width = 1 << shift
    mask = width - 1
    for u in range(units):
        for i in range(unit_ptr[u], unit_ptr[u + 1]):
            place[given[i]], unit[i], own[i] = i, u, -1

    for reference in keep:
        if reference >= 0:
            p, o = place[reference >> shift], reference & mask
            met[(p << shift) + o] = True
            needed[(unit[p] << shift) + o] += 1
    some = False
    for u in range(units):
        for k in range(u << shift, (u + 1) << shift):
            if needed[k] >= unit_ptr[u + 1] - unit_ptr[u]:
                reach[k] = unit_ptr[u + 1]
            elif needed[k] > 0:
                loose[batch_type[u // parts]] = False
                some = True
    # where some of a unit's values are kept, they come first
    for i in range(len(keep) if some else 0):
        if keep[i] >= 0:
            p = place[keep[i] >> shift]
            u = unit[p]
            k = (u << shift) + (keep[i] & mask)
            if reach[k] < unit_ptr[u + 1]:
                if own[p] < 0:
                    own[p] = lane[u]
                    nodes[lane[u]] = given[p]
                    lane[u] += 1
                reach[k] = max(reach[k], own[p] + 1)

    # the last batches are often of types that nobody reads. A unit of which they read all values is not
    # ordered by that
    tail = batches
    while tail > 0 and not is_read[batch_type[tail - 1]]:
        tail -= 1
    for b in range(tail, batches):
        t = batch_type[b]
        for s in range(slots[t]):
            those = given[batch_ptr[b] : batch_ptr[b + 1]]
            for j in range(_values(those, s, slots[t], reduces[t], graph, place, shift, read)):
                if not met[read[j]]:
                    met[read[j]] = True
                    needed[(unit[read[j] >> shift] << shift) + (read[j] & mask)] += 1

    at = len(block)
    for b in range(batches - 1, -1, -1):
        t = batch_type[b]
        after = at
        for u in range(b * parts, b * parts + parts):
            for i in range(unit_ptr[u], unit_ptr[u + 1]):
                if own[i] < 0:
                    own[i] = lane[u]
                    nodes[lane[u]] = given[i]
                    lane[u] += 1
            for k in range(u << shift, (u << shift) + outputs[t]):
                if reach[k] < unit_ptr[u + 1]:
                    at -= 1
                    block[at] = k
                    first[at] = reach[k]
                    last[at] = unit_ptr[u + 1]
        for s in range(slots[t]):
            those = nodes[batch_ptr[b] : batch_ptr[b + 1]]
            for j in range(_values(those, s, slots[t], reduces[t], graph, place, shift, read)):
                if b < tail and met[read[j]]:
                    continue
                met[read[j]] = True
                p, o = read[j] >> shift, read[j] & mask
                u, mine = unit[p], own[p]
                k = (u << shift) + o
                if mine < 0 and (b < tail or needed[k] < unit_ptr[u + 1] - unit_ptr[u]):
                    mine = lane[u]
                    own[p] = mine
                    nodes[mine] = given[p]
                    lane[u] += 1
                # a value whose lane is not known yet may come last
                up_to = mine + 1 if mine >= 0 else unit_ptr[u + 1]
                if up_to > reach[k]:
                    if event[k] >= after:
                        at -= 1
                        event[k] = at
                        block[at] = k
                        first[at] = reach[k]
                    last[event[k]] = up_to
                    reach[k] = up_to
        free_ptr[b] = at
    free_ptr[batches] = len(block)
    for b in range(batches + 1):
        free_ptr[b] -= at
    return at


@inner
def _values(
    nodes: Ints,
    s: int,
    slots: int,
    reduces: bool,
    graph: tuple[Ints, Ints, Ints, Ints],
    place: Ints,
    shift: int,
    read: Ints,
) -> int:
    """Write which values nodes of a type read in a slot, by their nodes' places; how many these are.

    Apart, since what is looked up here lies far apart: a short loop waits for many of them at once.
    """
    ptr, references, member_ptr, members = graph
    mask = (1 << shift) - 1
    count = 0
    # a type's cells are numbered one after the other, and have as many operands each
    low = ptr[nodes[0]] - nodes[0] * np.int64(slots) + s
    for v in nodes:
        begin, links, inside = low + v * np.int64(slots), np.int64(1), False
        if reduces:
            # unsigned: the machine's division of those is several times faster
            links = np.int64(np.uint32(ptr[v + 1] - ptr[v]) // np.uint32(slots))
            begin = ptr[v] + s * links
        elif references[begin] <= LISTED:
            number = LISTED - references[begin]
            begin, links = member_ptr[number], np.int64(member_ptr[number + 1] - member_ptr[number])
            inside = True
        for j in range(begin, begin + links):
            reference = members[j] if inside else references[j]
            # written over where it is a constant
            read[count] = (place[max(reference, 0) >> shift] << shift) + (reference & mask)
            count += reference >= 0
    return count


def pack_rows(
    schedule: Schedule, sections: Ints, free: Free, arenas: Arenas, head: Ints, width: int
) -> tuple[Ints, Ints]:
    """Give the results of all batches rows from `head` (A,) on: `rows` (A,) and `base` (B, W) of a `Plan`.

    A block goes to the smallest hole that holds it, else behind all others (best fit; Knuth, The Art of
    Computer Programming 1, section 2.5). Rows that are `free` become holes when their section ends: the
    batches `sections[i]` to `sections[i + 1] - 1`. Cost: linear in blocks and events, times the holes.
    """
    rows = head.copy()
    base = np.full((len(schedule), width), -1, np.int32)
    holes = np.empty((3, len(free[1])), np.int32)
    _pack(
        (schedule.type, schedule.ptr),
        1 if schedule.split is None else schedule.split.shape[1] - 1,
        (arenas.output_arena, arenas.outputs),
        sections,
        free,
        (np.full(len(rows), -1, np.int32), holes[0], holes[1], holes[2]),
        rows,
        base,
    )
    return rows, base


@njit
def _pack(
    schedule: tuple[Ints, Ints],
    parts: int,
    types: tuple[Ints, Ints],
    sections: Ints,
    free: Free,
    holes: tuple[Ints, Ints, Ints, Ints],
    rows: Ints,
    base: Ints,
) -> None:
    """The loop behind `pack_rows`. `holes`: each arena's first; where each begins, its rows, the next one."""
    batch_type, batch_ptr = schedule
    output_arena, outputs = types
    free_ptr, block, first, last = free
    head, start, length, after = holes
    width = base.shape[1]
    count = 0
    for section in range(len(sections) - 1):
        for b in range(sections[section], sections[section + 1]):
            t = batch_type[b]
            size = batch_ptr[b + 1] - batch_ptr[b]
            for o in range(outputs[t]):
                a = output_arena[t, o]
                best, before_best, before, hole = -1, -1, -1, head[a]
                while hole >= 0:
                    if length[hole] >= size and (best < 0 or length[hole] < length[best]):
                        best, before_best = hole, before
                    if after[hole] < 0 and best < 0 and start[hole] + length[hole] == rows[a]:
                        # the last hole ends where the arena does: the block goes there and beyond
                        best, before_best = hole, before
                        length[hole] = size
                        rows[a] = start[hole] + size
                    before, hole = hole, after[hole]
                if best < 0:
                    base[b, o] = rows[a]
                    rows[a] += size
                    continue
                base[b, o] = start[best]
                start[best] += size
                length[best] -= size
                if length[best] == 0:
                    if before_best < 0:
                        head[a] = after[best]
                    else:
                        after[before_best] = after[best]
        for j in range(free_ptr[sections[section]], free_ptr[sections[section + 1]]):
            b, o = block[j] // width // parts, block[j] % width
            a = output_arena[batch_type[b], o]
            begin = base[b, o] + first[j] - batch_ptr[b]
            size = last[j] - first[j]
            before, hole = -1, head[a]
            while hole >= 0 and start[hole] < begin:
                before, hole = hole, after[hole]
            if before >= 0 and start[before] + length[before] == begin:
                length[before] += size
            else:
                start[count], length[count], after[count] = begin, size, hole
                if before < 0:
                    head[a] = count
                else:
                    after[before] = count
                before = count
                count += 1
            if hole >= 0 and start[before] + length[before] == start[hole]:
                length[before] += length[hole]
                after[before] = after[hole]
