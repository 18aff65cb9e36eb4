"""Value numbering: which nodes of a graph are equal, by what they read.

Nodes are equal that have one type and read equal values. A node is known by its operands, of which each is
renamed first to the node that stands for what it names.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.edges import EdgeSlots
from abw.core.graph.equal.leaves import LeafTypes, leaf_types
from abw.core.ir.network import Network, reach_of
from abw.core.jit.decorators import fragment, njit, within

Ints = NDArray[np.int32]

# Odd multipliers that spread the bits of a hash (Knuth's golden ratio; a prime of xxHash).
SPREAD, MIX = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93
# Scratch memory of a graph of n nodes has n numbers for each of these, and a table of hashes for each type,
# which begins behind `PLACES` for each node of those before it: the most that it has for each of its own.
STANDS, NUMBER, STACK, AT, TABLE = range(5)
PLACES = 4
OF_NODE = TABLE + PLACES


@dataclass(frozen=True, slots=True)
class Keys:
    """What makes nodes of a network equal, for T types with up to S slots.

    `order` (T,): the types, each after all that feed it where they form no loop. `keys` (T, S): the slots
    whose operands tell nodes of the type apart, then -1. `alone` (T,): whether the type feeds itself and is
    in a loop with no other. `edges`: where edges are looked for, if the network is a model's at granularity
    `cell`. `leaves`: the types whose outputs are kept.

    `facts` (T, 7): what `number_nodes` knows of each type: the number of operands of a cell's node, 0 for a
    reduction, which may have any number; the number of keys, and the first two of them, or the first twice;
    the slots of a sum, whose two operands may change places, else 0; where `Leaves.row_of` has its leaves,
    else -1, and the slot that they are known by.
    """

    network: Network
    order: Ints
    keys: Ints
    alone: NDArray[np.bool_]
    facts: NDArray[np.int64]
    edges: EdgeSlots | None
    leaves: LeafTypes


def keys_of(network: Network, edges: EdgeSlots | None = None) -> Keys:
    """What makes nodes of a network equal. Cost: linear in types and slots, and T^3 bit operations."""
    types, reach = network.types, reach_of(network)
    order = np.argsort(reach.sum(axis=1), kind="stable").astype(np.int32)
    slots = [0 if t.reduction else len(t.slots) for t in types]
    pairs = [len(t.slots) if t.reduction == "sum" else 0 for t in types]
    keys = np.full((len(types), max([1, *slots])), -1, np.int32)
    for t, several in enumerate(slots):
        apart = [s for s in range(several) if not _follows(network, edges, t, s)]
        keys[t, : len(apart)] = apart
    both = reach & reach.T
    alone = both.diagonal() & (both.sum(axis=1) == 1)
    leaves, count = leaf_types(network), (keys >= 0).sum(axis=1)
    s0 = np.maximum(keys[:, 0], 0)
    s1 = np.where(count >= 2, keys[:, min(1, keys.shape[1] - 1)], s0)
    facts = np.stack([slots, count, s0, s1, pairs, leaves.at, leaves.slot], axis=1).astype(np.int64)
    return Keys(network, order, keys, alone, facts, edges, leaves)


def _follows(network: Network, edges: EdgeSlots | None, t: int, s: int) -> bool:
    """Whether an earlier slot determines what slot s reads: the same node, or the only constant."""
    slot = network.types[t].slots[s]
    if edges is None or not slot.producers or edges.distinct[t, s] >= 0:
        return False
    # what is kept is read in the other slot, too
    constants = [network.constants[c] for c in slot.constants if network.constants[c].kind != "kept"]
    return len(constants) <= 1 and all(constant.rows == 1 for constant in constants)


@within
def spread(h: np.uint64, size: int) -> int:
    """The place of a hash in a table of a power of two entries."""
    h ^= h >> np.uint64(32)
    return int((h * np.uint64(MIX)) >> np.uint64(33)) & (size - 1)


@fragment
def order_pairs(operand: Ints, low: int, slots: int) -> None:
    """Sort the two operands of each slot of a sum: a + b and b + a have the same bits."""
    for s in range(slots):
        a, b = low + 2 * s, low + 2 * s + 1
        if operand[a] > operand[b]:
            operand[a], operand[b] = operand[b], operand[a]


@within
def places_of(count: int) -> int:
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

    See `number_nodes`. Returns how many nodes were looked at, and how many of them stand for themselves.
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
        p = spread(np.uint64(np.uint32(a)) * np.uint64(SPREAD) + np.uint64(np.uint32(b)), full + 1)
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
def number_nodes(
    keys: tuple[Ints, Ints, NDArray[np.bool_], NDArray[np.int64]],
    leaves: tuple[Ints, Ints],
    graph: tuple[Ints, Ints, Ints, Ints, Ints],
    parts: Ints,
    apart: NDArray[np.bool_],
    shift: int,
    scratch: Ints,
) -> tuple[int, int]:
    """Write the node that stands for each, or -2 - row for a leaf that is kept in that row.

    They are the first n numbers of the `scratch` memory (OF_NODE * n,). `keys`: `order`, `keys`, `alone` and
    `facts` of `Keys`. `leaves`: `Leaves.row_of`, empty where none are looked up, and `LeafTypes.kept`.
    `parts`, `apart`: see `dedup.dedup`. Returns how many nodes stand for themselves, and how many are kept
    leaves.

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
            places = table[PLACES * begin : PLACES * begin + places_of(behind - begin)]
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
                    room, full = PLACES * first, places_of(last - first) - 1
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
                    p = spread(h, full + 1)
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
