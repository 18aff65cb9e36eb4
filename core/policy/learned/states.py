"""The FSM's states: how an execution is encoded, and the table of the states that were met (paper, 2.3)."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.dag import Dag
from abw.core.jit.decorators import njit
from abw.core.policy.rules.critical import Paths, critical_type
from abw.core.policy.rules.frontier import Frontier

Ints = NDArray[np.int32]
Encoding = Literal["base", "max", "sort", "critical"]
ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)
BASE, MAX, SORT, CRITICAL = range(4)


def symbol_names(types: tuple[str, ...], phases: int) -> tuple[str, ...]:
    """What a state's symbols mean: the types, then the phases (`1/4`)."""
    return (*types, *(f"{k + 1}/{phases}" for k in range(phases)))


def new_state(dag: Dag) -> Ints:
    """Room for the state of an execution of the dag (T + 2,)."""
    return np.empty(len(dag.types) + 2, np.int32)


@njit
def observe(encoding: int, phases: int, frontier: Frontier, paths: Paths, state: Ints) -> int:
    """Write the state of an execution into `state` (T + 2,), a sequence of symbols; its length.

    CRITICAL: the types on the frontier, ascending, then that of the ready node before the longest path. The
    others: see `encode`. With `phases` p > 0 the state ends with which p-th of the graph's nodes is being
    executed (paper, A.4).
    """
    length = encode(encoding, frontier, state)
    if encoding == CRITICAL:
        state[length] = critical_type(paths)
        length += 1
    if phases > 0:
        types, done = len(frontier.head), frontier.head[0]
        for t in range(1, types):
            done += frontier.head[t] - frontier.end[t - 1]
        state[length] = types + done * phases // len(frontier.queue)
        length += 1
    return length


@njit
def encode(encoding: int, frontier: Frontier, state: Ints) -> int:
    """Write the frontier's state into `state` (T + 1,), a sequence of types; its length. O(T), SORT O(T^2).

    BASE: the types on the frontier, ascending. MAX: the same, then the one with the most ready nodes. SORT:
    the types by their number of ready nodes, most first. The first type wins where numbers are equal. Any
    other encoding begins as BASE.
    """
    head, tail = frontier.head, frontier.tail
    length, most = 0, 0
    for t in range(len(head)):
        ready = tail[t] - head[t]
        if ready == 0:
            continue
        slot = length
        if encoding == SORT:
            while slot > 0 and tail[state[slot - 1]] - head[state[slot - 1]] < ready:
                state[slot] = state[slot - 1]
                slot -= 1
        state[slot] = t
        length += 1
        if tail[most] - head[most] < ready:
            most = t
    if encoding == MAX:
        state[length] = most
        length += 1
    return length


class Table(NamedTuple):
    """S states, each with what was learned of every type as the next batch's.

    State s is the sequence `symbols[ptr[s]:ptr[s + 1]]`; `value` and `visits` (capacity, T) are the Q-values
    and how often the type was taken. `slots` (a power of two) is a hash table with open addressing: a state's
    number, or -1. `size[0]` is S; the arrays may be longer.
    """

    slots: Ints
    ptr: Ints
    symbols: Ints
    value: NDArray[np.float64]
    visits: Ints
    size: Ints


def new_table(types: int, states: int, symbols: int) -> Table:
    """An empty table with room for so many states, and so many symbols in all of them together."""
    return Table(
        np.full(2 << states.bit_length(), -1, np.int32),
        np.zeros(states + 1, np.int32),
        np.empty(symbols, np.int32),
        np.zeros((states, types), np.float64),
        np.zeros((states, types), np.int32),
        np.zeros(1, np.int32),
    )


def resized(table: Table, states: int, symbols: int) -> Table:
    """A copy with room for so many states and symbols, at least as many as there are."""
    size = int(table.size[0])
    new = new_table(table.value.shape[1], states, symbols)
    ptr = table.ptr.tolist()
    for s in range(size):
        state, length = table.symbols[ptr[s] : ptr[s + 1]], ptr[s + 1] - ptr[s]
        add(new, state, length, -1 - find(new, state, length))
    new.value[:size] = table.value[:size]
    new.visits[:size] = table.visits[:size]
    return new


@njit
def find(table: Table, state: Ints, length: int) -> int:
    """The number of a state, or -1 - p where the state is not in the table and p is the slot for it."""
    slots, ptr, symbols = table.slots, table.ptr, table.symbols
    hash = np.uint64(14695981039346656037)  # FNV-1a, folded so that the low bits depend on all
    for i in range(length):
        hash = (hash ^ np.uint64(state[i])) * np.uint64(1099511628211)
    mask = len(slots) - 1
    slot = np.int64(hash ^ (hash >> np.uint64(32))) & mask
    while slots[slot] >= 0:
        s = slots[slot]
        same = ptr[s + 1] - ptr[s] == length
        for i in range(length if same else 0):
            same = same and symbols[ptr[s] + i] == state[i]
        if same:
            return int(s)
        slot = (slot + 1) & mask
    return -1 - int(slot)


@njit
def add(table: Table, state: Ints, length: int, slot: int) -> int:
    """Add a state in the slot that `find` returned, and return its number. The table must have room."""
    s = int(table.size[0])
    table.size[0] += 1
    table.slots[slot] = s
    table.ptr[s + 1] = table.ptr[s] + length
    for i in range(length):
        table.symbols[table.ptr[s] + i] = state[i]
    return s


def best_actions(table: Table) -> Ints:
    """For each state (S,) the type with the highest Q-value of those tried in it; the first of equals."""
    size = int(table.size[0])
    value = np.where(table.visits[:size] > 0, table.value[:size], -np.inf)
    actions: Ints = np.argmax(value, axis=1).astype(np.int32)
    return actions
