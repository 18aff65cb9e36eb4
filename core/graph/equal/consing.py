"""Equal nodes found as nodes are appended: hash-consing, over all instances of a mini-batch.

What makes nodes equal is as in `abw.core.graph.equal.dedup`, which looks at whole graphs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.equal.numbering import MIX, SPREAD, order_pairs, spread
from abw.core.ir.network import Network
from abw.core.jit.decorators import inner, njit

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Bytes = NDArray[np.uint8]

DedupMode = Literal["auto", "on", "off"]

# Nodes that there is room for at first.
LEAST = 1 << 10
# `auto` does not look at fewer nodes: they take less time than the calls that look.
LEAST_NODES = 1000
# What `auto` reckons with: floating-point operations a second of a core, the seconds that scheduling and
# planning take for a node, and those that looking takes for one.
RATE, SPARED, LOOKED_AT = 60e9, 30e-9, 20e-9
# Where looking has not paid, so many runs are skipped at most.
LONGEST_PAUSE = 64


# The seconds that looking at a node takes which is appended: what it is known by is written down, too.
APPENDED = 40e-9
# The same in rounds of growing models: 50 ns, beside arithmetic that spares less where it leaves batches of
# few rows, whose weights are read all the same.
GROWN = 100e-9
# What the table has where it is empty; and, less where a list is among the keys, for a list.
EMPTY, LIST = -1, -2


def worth(nodes: int, spared: int, flops: float, seconds: float = APPENDED) -> bool:
    """Whether looking at so many nodes, for some seconds each, pays where it spares some, and their
    arithmetic.
    """
    return flops / RATE + spared * SPARED >= nodes * seconds


@dataclass(slots=True)
class Patience:
    """When to look for what is equal: always, never, or (`auto`) less often where that has not paid.

    `pause`: how many runs are still skipped; `next_pause`: how many will be the next time.
    """

    mode: DedupMode
    pause: int = 0
    next_pause: int = 1

    def begin(self) -> bool:
        """Begin a run; whether to look in it."""
        if self.mode == "auto" and self.pause:
            self.pause -= 1
            return False
        return self.mode != "off"

    def learn(self, *, paid: bool) -> None:
        """Say whether looking has paid in the last run."""
        if paid:
            self.next_pause = 1
        else:
            self.pause, self.next_pause = self.next_pause, min(2 * self.next_pause, LONGEST_PAUSE)


class Consing:
    """Which node stands for each of a run's nodes: the first of its type that reads equal values.

    `same` (room,): by the node's number. `begins` (room,): where among `keys` is what a node was known by:
    its type, the number of its operands, and these, as references to nodes that stand for others. The lists
    that several attention nodes may read stand there once: such a node is known by -1 less its type, where
    its lists are, and its query. `used` (1,): how many numbers of `keys` are taken. `table`: an open hash
    table of nodes and lists (see `LIST`). `pairs` (T,): the number of slots of a sum, whose two operands may
    change places; 0 for others.
    """

    def __init__(self, network: Network) -> None:
        sums = [len(t.slots) if t.reduction == "sum" else 0 for t in network.types]
        self.pairs = np.array(sums, np.uint8)
        self._slots = np.array([len(t.slots) for t in network.types], np.int32)
        self._shared = np.array([t.lists % len(t.slots) if t.slots else 0 for t in network.types], np.int32)
        self._per_node = 4 if self._shared.any() else 2  # of the table
        self._shift = network.width.bit_length() - 1
        self.used = np.zeros(1, np.int64)
        self.same, self.begins, self.keys = (np.empty(0, np.int32) for _ in range(3))
        self.table = np.empty(0, np.int32)

    def begin(self) -> None:
        """Begin a run."""
        self.used[0] = 0
        self.table[:] = EMPTY

    def reserve(self, before: int, nodes: int, operands: int) -> bool:
        """Have room for more nodes behind `before` that are there; whether arrays were replaced for that."""
        needed = before + nodes
        keys = int(self.used[0]) + operands + 3 * nodes
        if needed <= len(self.same) and keys <= len(self.keys):
            return False
        if needed > len(self.same):
            room = max(LEAST, 2 * needed)
            same, self.begins = np.arange(room, dtype=np.int32), _longer(self.begins, room)
            same[:before] = self.same[:before]
            self.same = same
            self.table = np.full(1 << (self._per_node * room - 1).bit_length(), EMPTY, np.int32)
            _enter_all(self.same[:before], self.begins, self.keys, self.table)
        if keys > len(self.keys):
            self.keys = _longer(self.keys, max(4 * LEAST, 2 * keys))
        return True

    def number(self, first: int, types: Ints, operand_ptr: Ints, operand: Ints) -> Ints:
        """The nodes (n,) that stand for the next n, of which the run has `first`; references are renamed in
        place. Cost: some 20 ns a node.
        """
        self.reserve(first, len(types), len(operand))
        _number(
            (first, self._shift), (types, operand_ptr, operand), (self.pairs, self._slots, self._shared),
            self.same, self.begins, self.keys, self.used, self.table,
        )  # fmt: skip
        return self.same[first : first + len(types)]

    def stands(self, references: NDArray[np.int64]) -> NDArray[np.int64]:
        """References of nodes, as those of the nodes that stand for them."""
        found = references.copy()
        rename(found, 0, 0, self.same, self._shift)
        return found

    def spared(self, types: Ints, products: Longs, others: Longs) -> tuple[int, int]:
        """For how many of the run's nodes, of these types, others stand; and the arithmetic of those: of a
        type in products and in all else (T,).
        """
        return _spared(self.same, types, products, others)


@njit
def _spared(same: Ints, types: Ints, products: Longs, others: Longs) -> tuple[int, int]:
    nodes, flops = 0, 0
    for v in range(len(types)):
        if same[v] != v:
            nodes, flops = nodes + 1, flops + products[types[v]] + others[types[v]]
    return nodes, flops


@njit
def rename(references: Longs, bits: int, first: int, number: Ints, shift: int) -> int:
    """Rename references, with `bits` more behind them, of nodes that are counted from reference `first` on:
    by their `number` unless `shift` is negative. Returns how many are of constants; -1 where one is of none.
    """
    constants = 0
    for i in range(len(references)):
        reference = references[i] >> bits
        constants += reference < 0
        if reference >= 0:
            reference -= first
            if reference < 0 or (shift >= 0 and reference >> shift >= len(number)):
                return -1
            if shift >= 0:
                reference = (number[reference >> shift] << shift) | (reference & ((1 << shift) - 1))
        references[i] = reference
    return constants


def _longer(array: Ints, room: int) -> Ints:
    made = np.empty(room, np.int32)
    made[: len(array)] = array
    return made


@inner
def place(keys: Ints, begin: int, table: Ints) -> int:
    """Where what begins there among keys is looked for first."""
    h = np.uint64(keys[begin] + 1) * np.uint64(MIX)
    for i in range(begin + 2, begin + 2 + keys[begin + 1]):
        h = (h + np.uint64(np.uint32(keys[i]))) * np.uint64(SPREAD)
    return spread(h, len(table))


@inner
def stands_for(node: int, keys: Ints, begin: int, at: Ints, table: Ints) -> int:
    """The node that stands for one that is known by what begins there among keys: an earlier one, or itself,
    which is entered then.
    """
    full, size = len(table) - 1, keys[begin + 1] + 2
    p = place(keys, begin, table)
    while table[p] != EMPTY:
        other = table[p]
        if other == node:
            break
        if other >= 0 and _alike(keys, at[other], begin, size):
            return int(other)
        p = (p + 1) & full
    table[p], at[node] = node, begin
    return node


@inner
def list_at(keys: Ints, begin: int, table: Ints) -> int:
    """Where among the keys the list stands that stands at `begin`: earlier, or there, and is entered then."""
    full, size = len(table) - 1, keys[begin + 1] + 2
    p = place(keys, begin, table)
    while table[p] != EMPTY:
        there = LIST - table[p]
        if there >= 0 and _alike(keys, there, begin, size):
            return int(there)
        p = (p + 1) & full
    table[p] = LIST - begin
    return begin


@inner
def _alike(keys: Ints, a: int, b: int, size: int) -> bool:
    i = 0
    while i < size and keys[a + i] == keys[b + i]:
        i += 1
    return i == size


@inner
def sort_pairs(keys: Ints, begin: int, slots: int) -> None:
    """Sort the operands in each slot of a sum of two: a + b and b + a have the same bits."""
    if keys[begin + 1] == 2 * slots:
        order_pairs(keys, begin + 2, slots)


@njit
def _number(
    numbers: tuple[int, int],
    nodes: tuple[Ints, Ints, Ints],
    of_types: tuple[Bytes, Ints, Ints],
    same: Ints,
    at: Ints,
    keys: Ints,
    used: Longs,
    table: Ints,
) -> None:
    """Find what stands for each of some nodes, in their order; rename the references to these."""
    first, shift = numbers
    types, ptr, operand = nodes
    pairs, slots, shared = of_types
    end, mask = used[0], (1 << shift) - 1
    for v in range(len(types)):
        low, high, t = ptr[v], ptr[v + 1], types[v]
        for k in range(low, high):
            if operand[k] >= 0:
                operand[k] = same[operand[k] >> shift] << shift | (operand[k] & mask)
        head, size, step, behind = t, high - low, 1, end + 2
        if shared[t]:
            head, step = -1 - t, (high - low) // slots[t]
            size = step * shared[t]
            keys[end], keys[end + 1] = head, size
            for k in range(low, low + size):
                keys[end + 2 + k - low] = operand[k]
            listed = list_at(keys, end, table)
            if listed == end:
                end += 2 + size
            keys[end + 2], behind = listed, end + 3
            low += size
            size = 1 + slots[t] - shared[t]
        keys[end], keys[end + 1] = head, size
        for k in range(low, high, step):
            keys[behind] = operand[k]
            behind += 1
        sort_pairs(keys, end, pairs[t])
        same[first + v] = stands_for(first + v, keys, end, at, table)
        if same[first + v] == first + v:
            end = behind
    used[0] = end


@njit
def _enter_all(same: Ints, at: Ints, keys: Ints, table: Ints) -> None:
    """Enter the nodes that stand for themselves into an empty table."""
    for v in range(len(same)):
        if same[v] != v:
            continue
        if keys[at[v]] < 0:
            list_at(keys, keys[at[v] + 2], table)
        p = place(keys, at[v], table)
        while table[p] != EMPTY:
            p = (p + 1) & (len(table) - 1)
        table[p] = v


def distinct(same: Ints, first: int) -> tuple[NDArray[np.bool_], Ints]:
    """Of nodes from number `first` on: which stand for themselves, and the number of each among these."""
    kept = same == np.arange(first, first + len(same))
    return kept, (np.cumsum(kept) - 1).astype(np.int32)
