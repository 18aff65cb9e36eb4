"""Every distinct node of a mini-batch once: value numbering across its instances.

Two nodes are equal if they have one type and read equal values: the same row of a table, the same
parameter, rows of a field with the same bits, the same outputs of equal nodes. Equal nodes have equal
outputs, since the bits of an output do not depend on what else is in its batch; so one of them is enough.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from threading import local

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.dag import Dag, Reads, Successors, build_dag
from abw.core.graph.edges import EdgeSlots, consumers
from abw.core.graph.equal.leaves import LeafTypes, Leaves, leaf_types
from abw.core.graph.fuse import edges
from abw.core.graph.graph import Distinct, Graph, ResultRefs
from abw.core.ir.network import Network, reach_of
from abw.core.jit.decorators import inner, njit, within

Ints = NDArray[np.int32]

# Scratch memory that a thread keeps though a smaller graph needs less: 16 MB.
MOST_SCRATCH = 1 << 22
# Odd multipliers that spread the bits of a hash (Knuth's golden ratio; a prime of xxHash).
SPREAD, MIX = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93


@dataclass(frozen=True, slots=True)
class Keys:
    """What makes nodes of a network equal, for T types with up to S slots.

    `order` (T,): the types, each after all that feed it where they form no loop. `slots` (T,): the number of
    operands of a cell's node; 0 for reductions, which may have any number. `keys` (T, S): the slots whose
    operands tell nodes of the type apart, then -1. `pairs` (T,): the number of slots of a sum, whose two
    operands may change places; 0 for other types. `alone` (T,): whether the type feeds itself and is in a
    loop with no other. `edges`: where edges are looked for, if the network is a model's at granularity
    `cell`. `leaves`: the types whose outputs are kept.

    `facts` (T, 7): what `_number` knows of each type: the slots; the number of keys, and the first two of
    them, or the first twice; the slots of a sum; where `Leaves.row_of` has its leaves, else -1, and the slot
    that they are known by. `none` (T,): no type.
    """

    network: Network
    order: Ints
    slots: Ints
    keys: Ints
    pairs: Ints
    alone: NDArray[np.bool_]
    edges: EdgeSlots | None
    leaves: LeafTypes
    facts: NDArray[np.int64]
    none: NDArray[np.bool_]


def keys_of(network: Network, edges: EdgeSlots | None = None) -> Keys:
    """What makes nodes of a network equal. Cost: linear in types and slots, and T^3 bit operations."""
    types, reach = network.types, reach_of(network)
    order = np.argsort(reach.sum(axis=1), kind="stable").astype(np.int32)
    slots = np.array([0 if t.reduction else len(t.slots) for t in types], np.int32)
    pairs = np.array([len(t.slots) if t.reduction == "sum" else 0 for t in types], np.int32)
    keys = np.full((len(types), max([1, *slots.tolist()])), -1, np.int32)
    for t, net_type in enumerate(types):
        slots_here = () if net_type.reduction else net_type.slots
        apart = [s for s in range(len(slots_here)) if not _follows(network, edges, t, s)]
        keys[t, : len(apart)] = apart
    both = reach & reach.T
    alone = both.diagonal() & (both.sum(axis=1) == 1)
    leaves, count = leaf_types(network), (keys >= 0).sum(axis=1)
    s0 = np.maximum(keys[:, 0], 0)
    s1 = np.where(count >= 2, keys[:, min(1, keys.shape[1] - 1)], s0)
    facts = np.stack([slots, count, s0, s1, pairs, leaves.at, leaves.slot], axis=1).astype(np.int64)
    none = np.zeros(len(types), np.bool_)
    return Keys(network, order, slots, keys, pairs, alone, edges, leaves, facts, none)


def _follows(network: Network, edges: EdgeSlots | None, t: int, s: int) -> bool:
    """Whether an earlier slot determines what slot s reads: the same node, or the only constant."""
    slot = network.types[t].slots[s]
    if edges is None or not slot.producers or edges.distinct[t, s] >= 0:
        return False
    # what is kept is read in the other slot, too
    constants = [network.constants[c] for c in slot.constants if network.constants[c].kind != "kept"]
    return len(constants) <= 1 and all(constant.rows == 1 for constant in constants)


def dedup(
    graph: Graph,
    keys: Keys,
    apart: NDArray[np.bool_] | None = None,
    part: Ints | None = None,
    leaves: Leaves | None = None,
) -> Graph:
    """The graph with one of each set of equal nodes; `Graph.distinct` says which stands for each.

    `apart` (T,): types whose nodes stay apart, as those that draw a mask each. `part` (instances,): nodes of
    instances in different parts stay apart, so that threads need not wait for each other. `leaves`: what the
    executor keeps of earlier mini-batches; nodes with outputs there are left out.

    The first of equal nodes stays, with its `vertex` and `instance`, in the same order; results refer to the
    nodes that stand for theirs. The graph must have no lists (`fuse` comes after this). Cost: linear; some
    12 ns a node, 30 in loops of several types. Source: value numbering (Cocke and Schwartz, 1970), here over
    all instances of a mini-batch.
    """
    network, n = graph.network, len(graph)
    shift = network.width.bit_length() - 1
    operand = _first_rows(graph, apart)
    scratch = _scratch(n)
    nothing = np.empty(0, np.int32)
    kept, found = _number(
        (keys.order, keys.keys, keys.alone, keys.facts),
        (nothing if leaves is None else leaves.row_of, keys.leaves.kept),
        (graph.type_ptr, graph.operand_ptr, operand, graph.instance, graph.dag.type),
        nothing if part is None else part,
        keys.none if apart is None else apart,
        shift, scratch,
    )  # fmt: skip
    type_ptr, operand_ptr = np.zeros_like(graph.type_ptr), np.empty(kept + 1, np.int32)
    nodes, place = np.empty((3, kept + 1), np.int32), np.empty(n, np.int32)
    filled = _compact(
        (graph.type_ptr, graph.operand_ptr, operand, graph.vertex, graph.instance),
        shift, scratch, place, (type_ptr, operand_ptr, nodes[0], nodes[1], nodes[2]),
    )  # fmt: skip
    operand, nodes = operand[:filled], nodes[:, :kept]
    number = scratch[NUMBER * n : (NUMBER + 1) * n]
    epoch = None if leaves is None else leaves.epoch
    return replace(
        graph,
        type_ptr=type_ptr,
        vertex=nodes[1],
        instance=nodes[2],
        results=tuple(_renamed(r, number, shift) for r in graph.results),
        dag=_dag(graph.dag, keys, nodes[0], type_ptr, operand_ptr, operand, shift),
        operand_ptr=operand_ptr,
        operand=operand,
        distinct=Distinct(graph.type_ptr, graph.instance, place, part, epoch, found),
    )


# Scratch memory of a graph of n nodes: n numbers for each of these, and tables of hashes.
STANDS, NUMBER, STACK, AT, TABLE = range(5)
# The most places of a type's table for each of its nodes.
PLACES = 4
_THREAD = local()


def _scratch(n: int) -> Ints:
    """Scratch memory of this thread for a graph of n nodes, which `_number` and `_compact` share.

    Each type has a table of its own, which begins behind `PLACES` for each node of those before it.
    """
    wanted = (TABLE + PLACES) * n
    memory: Ints | None = getattr(_THREAD, "memory", None)
    if memory is None or not wanted <= len(memory) <= max(wanted, MOST_SCRATCH):
        memory = _THREAD.memory = np.empty(wanted, np.int32)
    return memory[:wanted]


def _dag(
    before: Dag, keys: Keys, type_of: Ints, type_ptr: Ints, operand_ptr: Ints, operand: Ints, shift: int
) -> Dag:
    """The dag of these operands, whose edges are looked for when they are asked for."""

    def find() -> Successors:
        if (slots := keys.edges) is not None:
            of = type_ptr, slots.slots, slots.lists, slots.distinct
            return consumers(*of, operand_ptr, operand, shift)
        none = np.zeros(1, np.int32)
        source, target = edges(operand_ptr, operand, none, none, 1 << shift)
        return build_dag(before.types, type_of, source, target).edges

    return Dag(before.types, type_of, find, before.order, Reads(operand_ptr, operand, shift))


def _renamed(refs: ResultRefs, stands: Ints, shift: int) -> ResultRefs:
    reference = refs.reference.copy()
    _rename(reference, stands, shift)
    return replace(refs, reference=reference)


def _first_rows(graph: Graph, apart: NDArray[np.bool_] | None) -> Ints:
    """The operands, a copy, with each row of a field replaced by the first that has the same bits.

    Fields that only types which stay `apart` read are left as they are.
    """
    operand, network = graph.operand.copy(), graph.network
    if not network.given:
        return operand
    readers = [t for i, t in enumerate(network.types) if apart is None or not apart[i]]
    read = {number for t in readers for slot in t.slots for number in slot.constants}
    for number, rows in zip(network.given, graph.given, strict=True):
        if len(rows) and number in read:
            constant = network.constants[number]
            _replace_rows(operand, constant.first, len(rows), first_rows(rows))
    return operand


def first_rows(rows: NDArray[np.float32]) -> Ints:
    """For each of the rows (n, *shape) the number of the first that has the same bits."""
    words = np.ascontiguousarray(rows.reshape(len(rows), -1)).view(np.int32)
    table, first = (
        np.full(1 << max(4, (2 * len(rows) - 1).bit_length()), -1, np.int32),
        np.empty(len(rows), np.int32),
    )
    _equal_rows(words, table, first)
    return first


@inner
def _spread(h: np.uint64, size: int) -> int:
    """The place of a hash in a table of a power of two entries."""
    h ^= h >> np.uint64(32)
    return int((h * np.uint64(MIX)) >> np.uint64(33)) & (size - 1)


@inner
def order_pairs(operand: Ints, low: int, slots: int) -> None:
    """Sort the two operands of each slot of a sum: a + b and b + a have the same bits."""
    for s in range(slots):
        a, b = operand[low + 2 * s], operand[low + 2 * s + 1]
        operand[low + 2 * s], operand[low + 2 * s + 1] = min(a, b), max(a, b)


@within
def _size(count: int) -> int:
    """How many places the table of a type with so many nodes has: a power of two, two or more for each."""
    size = 1
    while size < PLACES // 2 * count:
        size *= 2
    return size


@within
def _number_plain(
    operand: Ints,
    stands: Ints,
    table: Ints,
    begin: int,
    behind: int,
    upward: bool,
    first: int,
    facts: NDArray[np.int64],
    shift: int,
) -> tuple[int, int]:
    """Number nodes of a type that one or two operands tell apart, up to one that reads what has none yet.

    See `_number`. Returns how many nodes were looked at, and how many of them stand for themselves.
    """
    width, s0, s1, kept = facts[0], facts[2], facts[3], 0
    base, full, mask = first - begin * width, len(table) - 1, (1 << shift) - 1
    for i in range(behind - begin):
        v = begin + i if upward else behind - 1 - i
        if stands[v] != -1:
            continue
        low = base + v * width
        for e in range(low, low + width):
            r = operand[e]
            if r >= 0:
                u = stands[r >> shift]
                if u < 0:
                    return i, kept
                operand[e] = (u << shift) | (r & mask)
        a, b = operand[low + s0], operand[low + s1]
        h = np.uint64(np.uint32(a)) * np.uint64(SPREAD) + np.uint64(np.uint32(b))
        h ^= h >> np.uint64(32)
        p = int((h * np.uint64(MIX)) >> np.uint64(33)) & full
        while True:
            # whether a node is new no branch can learn: at a free place there is an equal one, itself
            found = int(table[p])
            found = found if found >= 0 else v
            there = base + found * width
            if (operand[there + s0] == a) & (operand[there + s1] == b):
                break
            p = (p + 1) & full
        table[p] = stands[v] = found
        kept += found == v
    return behind - begin, kept


@njit
def _number(
    keys: tuple[Ints, Ints, NDArray[np.bool_], NDArray[np.int64]],
    leaves: tuple[Ints, Ints],
    graph: tuple[Ints, Ints, Ints, Ints, Ints],
    parts: Ints,
    apart: NDArray[np.bool_],
    shift: int,
    scratch: Ints,
) -> tuple[int, int]:
    """Write the node that stands for each, or -2 - row for a leaf that is kept in that row.

    They are the first n numbers of the `scratch` memory. The result: how many nodes stand for themselves, and
    how many are kept leaves.

    Types are taken in an order in which nearly all nodes come after those that they read; where one does not,
    those are numbered first, by way of a stack. `operand` is rewritten to the nodes that stand for those it
    names, and to the rows of kept leaves.
    """
    order, slots, alone, facts = keys
    row_of, held = leaves
    type_ptr, ptr, operand, instance, type_of = graph
    n = len(type_of)
    stands, stack = scratch[:n], scratch[STACK * n : (STACK + 1) * n]
    at, table = scratch[AT * n : (AT + 1) * n], scratch[TABLE * n :]
    stands[:] = -1
    table[:] = -1
    divided, mask, kept, found_kept = len(parts) > 0, (1 << shift) - 1, 0, 0
    first, last, width, base, count, s0, s1, several, at_leaf, by = 0, 0, 0, 0, 0, 0, 0, 0, -1, 0
    free, room, full, here = False, 0, 0, slots[0]
    for k in range(len(order)):
        begin, behind, upward = int(type_ptr[order[k]]), int(type_ptr[order[k] + 1]), True
        if alone[order[k]]:  # the first read from the type itself says which way to go
            for e in range(ptr[begin], ptr[behind]):
                u = operand[e] >> shift
                if begin <= u < behind:
                    upward = ptr[u] < e
                    break
        now, done = facts[order[k]], 0
        if behind > begin and 1 <= now[1] <= 2 and now[5] < 0 and not divided and not apart[order[k]]:
            places = table[PLACES * begin : PLACES * begin + _size(behind - begin)]
            done, new = _number_plain(
                operand, stands, places, begin, behind, upward, int(ptr[begin]), now, shift
            )
            kept += new
        for i in range(done, behind - begin):
            v = begin + i if upward else behind - 1 - i
            if stands[v] != -1:
                continue
            top, e = -1, int(ptr[v])
            while True:
                if not first <= v < last:
                    t = int(type_of[v])
                    now, here = facts[t], slots[t]
                    width, count, s0, s1, several = now[0], now[1], now[2], now[3], now[4]
                    first, last, free = int(type_ptr[t]), int(type_ptr[t + 1]), apart[t]
                    at_leaf, by = now[5] if len(row_of) else -1, now[6]
                    base = ptr[first] - first * width
                    room, full = PLACES * first, _size(last - first) - 1
                end = int(ptr[v + 1])
                while e < end:
                    r = operand[e]
                    if r >= 0:
                        u = stands[r >> shift]
                        if u >= 0:
                            operand[e] = (u << shift) | (r & mask)
                        elif u == -1:
                            break
                        else:
                            operand[e] = held[type_of[r >> shift], r & mask] + u + 2
                    e += 1
                if e < end:  # what this operand names comes first
                    top += 1
                    stack[top], at[top] = v, e
                    v = int(operand[e] >> shift)
                    e = int(ptr[v])
                    continue
                low, found = int(ptr[v]), v
                row = row_of[at_leaf - 1 - operand[low + by]] if at_leaf >= 0 else -1
                if row >= 0:
                    found = -2 - int(row)
                    found_kept += 1
                elif not free:
                    if several > 0 and end - low == 2 * several:
                        order_pairs(operand, low, several)
                    part = parts[instance[v]] if divided else 0
                    h = np.uint64(part)
                    if count == 0:
                        for j in range(low, end):
                            h = h * np.uint64(SPREAD) + np.uint64(np.uint32(operand[j]))
                    else:
                        h = (h + np.uint64(np.uint32(operand[low + s0]))) * np.uint64(SPREAD)
                        h += np.uint64(np.uint32(operand[low + s1]))
                        for s in range(2, count):
                            h = h * np.uint64(SPREAD) + np.uint64(np.uint32(operand[low + here[s]]))
                    h ^= h >> np.uint64(32)
                    p = int((h * np.uint64(MIX)) >> np.uint64(33)) & full
                    while True:
                        found = int(table[room + p])
                        found = found if found >= 0 else v
                        if count > 0:
                            there = base + found * width
                            same = operand[there + s0] == operand[low + s0]
                            same &= operand[there + s1] == operand[low + s1]
                            for s in range(2, count):
                                same &= operand[there + here[s]] == operand[low + here[s]]
                        else:
                            there = int(ptr[found])
                            same = ptr[found + 1] - there == end - low
                            for j in range(end - low if same else 0):
                                same &= operand[there + j] == operand[low + j]
                        if divided:
                            same &= parts[instance[found]] == part
                        if same:
                            break
                        p = (p + 1) & full
                    table[room + p] = found
                stands[v] = found
                kept += found == v
                if top < 0:
                    break
                v, e = int(stack[top]), int(at[top])
                top -= 1
    return kept, found_kept


@njit
def _compact(
    graph: tuple[Ints, Ints, Ints, Ints, Ints],
    shift: int,
    scratch: Ints,
    place: Ints,
    made: tuple[Ints, Ints, Ints, Ints, Ints],
) -> int:
    """Number the first of each set of equal nodes anew, in their order; how many operands they have.

    In the `scratch` memory is written the new number of the node that stands for each, or what `_number` says
    of kept leaves; `place` (n,): see `Distinct`. `operand` is compacted in place.
    """
    type_ptr, ptr, operand, vertex, instance = graph
    new_type_ptr, new_ptr, new_type, new_vertex, new_instance = made
    n = len(place)
    stands, number = scratch[:n], scratch[NUMBER * n : (NUMBER + 1) * n]
    number[:] = -1
    mask, kept, filled = (1 << shift) - 1, 0, 0
    for t in range(len(type_ptr) - 1):
        for v in range(type_ptr[t], type_ptr[t + 1]):
            # the first of equal nodes stays; what is written for another is written over
            w = max(stands[v], 0)
            first = (stands[v] >= 0) & (number[w] < 0)
            new_type[kept], new_vertex[kept] = t, v
            number[w] = kept if first else number[w]
            kept += first
        new_type_ptr[t + 1] = kept
    for t in range(len(type_ptr) - 1):
        first_new = new_type_ptr[t]
        for v in range(type_ptr[t], type_ptr[t + 1]):
            number[v] = number[stands[v]] if stands[v] >= 0 else stands[v]
            place[v] = number[v] - first_new if number[v] >= 0 else number[v] + 1
    new_ptr[0] = 0
    for i in range(kept):
        v = int(new_vertex[i])
        for e in range(ptr[v], ptr[v + 1]):
            r = operand[e]
            operand[filled] = (number[max(r, 0) >> shift] << shift) | (r & mask) if r >= 0 else r
            filled += 1
        new_ptr[i + 1] = filled
        new_vertex[i], new_instance[i] = vertex[v], instance[v]
    return filled


@njit
def _rename(references: Ints, stands: Ints, shift: int) -> None:
    """Replace the nodes of references by those that stand for them."""
    mask = (1 << shift) - 1
    for i in range(len(references)):
        r = references[i]
        if r >= 0:
            references[i] = (stands[r >> shift] << shift) | (r & mask)


@njit
def _equal_rows(rows: Ints, table: Ints, first: Ints) -> None:
    """For each of the rows (n, words) the number of the first that has the same bits."""
    last = rows.shape[1] - 1
    for i in range(len(rows)):
        h = np.uint64(MIX) + np.uint64(np.uint32(rows[i, last]))
        for j in range(0, last, 2):
            pair = np.uint64(np.uint32(rows[i, j])) << np.uint64(32) | np.uint64(np.uint32(rows[i, j + 1]))
            h = h * np.uint64(SPREAD) + pair
        p = _spread(h, len(table))
        while True:
            found = int(table[p])
            found = found if found >= 0 else i
            same = True
            for j in range(last + 1):
                same &= rows[i, j] == rows[found, j]
            if same:
                break
            p = (p + 1) & (len(table) - 1)
        table[p] = first[i] = found


@njit
def _replace_rows(operand: Ints, base: int, count: int, first: Ints) -> None:
    """Replace the references of `count` rows, of which the first is -1 - `base`, by those of `first`."""
    for e in range(len(operand)):
        row = -1 - operand[e] - base
        if 0 <= row < count:
            operand[e] = -1 - base - first[row]
