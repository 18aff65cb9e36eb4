"""Instances as automata, whose states are sets of executed nodes, made when they are first reached.

The graph of a mini-batch is many small graphs side by side. Executing a type takes each instance from one
state to the next, whatever the others do; what is known of a state (what is ready, and what that is worth) is
found out once, however many executions pass through it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.bounds import chains
from abw.core.graph.dag import Dag, components
from abw.core.jit.decorators import inner, njit
from abw.core.policy.reverse import reversed_dag

Ints = NDArray[np.int32]
Floats = NDArray[np.float64]
Keys = NDArray[np.uint64]

# Where a state could not be made for want of room.
FULL = -2


class Instances(NamedTuple):
    """The arrays that automata need of a dag of n nodes and K instances.

    `type`, `ptr` and `succ`, `above_ptr` and `above`: nodes' types, consumers, producers. `position` (n,): a
    node's number in its instance. The nodes of one type in one instance are a column,
    `by_height[column[c]:column[c + 1]]`, the highest first; node v lies in column `column_of[v]`, the
    `rank[v]`-th of its instance. `mass` and `key` (n,): what executing a node adds to a state's. `stamp`
    (n,), `fresh` (n,) and `mark` (T,) are working space.
    """

    type: Ints
    ptr: Ints
    succ: Ints
    above_ptr: Ints
    above: Ints
    position: Ints
    height: Ints
    by_height: Ints
    column: Ints
    column_of: Ints
    rank: Ints
    mass: Floats
    key: Keys
    stamp: Ints
    fresh: Ints
    mark: Ints


class States(NamedTuple):
    """The states made so far, S = `size[0]`, with `size[1]` entries and `size[2]` ready nodes in all of them.

    State s has executed the nodes whose bits are set in `done[s]`, and of the c-th column of its instance
    those before `rest[s, c]` (and others, perhaps); its entries `first[s]` to `first[s + 1] - 1` are the
    types that are ready. Entry e: of type `type[e]` the nodes `ready[begin[e]:begin[e + 1]]` are, which add
    `mass[e]` and `key[e]`; `top[e]` is the largest height of a remaining node of the type, and `free[e]`
    whether executing the entry lowers it; it leads to state `next[e]`, -1 if that is not made yet. `slots` is
    a hash table over `identity[s]`.
    """

    size: NDArray[np.int64]
    done: Keys
    rest: Ints
    identity: Keys
    first: Ints
    type: Ints
    begin: Ints
    top: Ints
    free: Ints
    next: Ints
    mass: Floats
    key: Keys
    ready: Ints
    slots: Ints


class Automata(NamedTuple):
    """The automata of a dag: K instances, of which `start` (K,) are the first states, and the states so far.

    `first` (T,) and `number` (H,): of type t, `number[first[t] + h]` instances have a longest chain of h
    nodes.
    """

    instances: Instances
    states: States
    start: Ints
    first: Ints
    number: Ints


def automata(dag: Dag) -> Automata:
    """The automata before anything is executed: a state an instance. O(n + m + n * types / 32)."""
    n, types = len(dag), len(dag.types)
    (length, height), component, turned = chains(dag), components(dag), reversed_dag(dag)
    count = int(component.max(initial=-1)) + 1
    size = np.bincount(component, minlength=count)
    order = _sorted(dag, height, component)
    head = np.concatenate([[True], np.diff(component[order] * types + dag.type[order]) != 0])[:n]
    column = np.append(np.flatnonzero(head), n).astype(np.int32)
    column_of, position = np.empty(n, np.int32), np.empty(n, np.int32)
    column_of[order] = np.cumsum(head) - 1
    by_component = np.argsort(component, kind="stable")
    of_column = component[order[column[:-1]]]
    columns = np.bincount(of_column, minlength=count)
    rank = (np.arange(len(of_column)) - (np.cumsum(columns) - columns)[of_column]).astype(np.int32)[column_of]
    position[by_component] = np.arange(n) - np.repeat(np.cumsum(size) - size, size)
    random = np.random.default_rng(0).integers(0, 2**63, n + count, np.int64).astype(np.uint64)
    instances = Instances(
        dag.type, dag.succ_ptr, dag.succ, turned.succ_ptr, turned.succ, position, height,
        order, column, column_of, rank, length.astype(np.float64) ** 8, random[:n].copy(),
        np.full(n, -1, np.int32), np.empty(n, np.int32), np.full(types, -1, np.int32),
    )  # fmt: skip
    tops = height[order[column[:-1]]]
    top = np.zeros(types, np.int32)
    np.maximum.at(top, dag.type[order[column[:-1]]], tops)
    first = (np.cumsum(top + 1) - (top + 1)).astype(np.int32)
    number = np.bincount(first[dag.type[order[column[:-1]]]] + tops, minlength=int((top + 1).sum()))
    words = (int(size.max(initial=0)) + 63) // 64
    room = 64 + 4 * max(n, count)
    states = _room(room, 2 * room + types, 8 * room, words, int(columns.max(initial=0)))
    states.first[0] = states.begin[0] = 0
    start = np.empty(count, np.int32)
    sources = by_component[dag.indegree[by_component] == 0].astype(np.int32)
    ptr = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(component[sources], minlength=count), out=ptr[1:])
    _start(instances, states, sources, ptr, random[n:], start)
    return Automata(instances, states, start, first, number.astype(np.int32))


def _sorted(dag: Dag, height: Ints, component: Ints) -> Ints:
    """The nodes by instance, type, and height, the highest first."""
    order = np.arange(len(dag), dtype=np.int32)
    for values in (height.max(initial=0) - height, dag.type, component):
        ends = np.cumsum(np.bincount(values))
        after = np.empty_like(order)
        _place(order, values, ends, after)
        order = after
    return order


@njit
def _place(order: Ints, values: Ints, ends: NDArray[np.int64], after: Ints) -> None:
    """Sort by values, and leave the order of equal ones as it is."""
    for i in range(len(order) - 1, -1, -1):
        v = order[i]
        ends[values[v]] -= 1
        after[ends[values[v]]] = v


def _room(states: int, entries: int, ready: int, words: int, columns: int) -> States:
    return States(
        np.zeros(3, np.int64),
        np.zeros((states, words), np.uint64),
        np.zeros((states, columns), np.int32),
        np.empty(states, np.uint64),
        np.empty(states + 1, np.int32),
        np.empty(entries, np.int32),
        np.empty(entries + 1, np.int32),
        np.empty(entries, np.int32),
        np.empty(entries, np.int32),
        np.empty(entries, np.int32),
        np.empty(entries),
        np.empty(entries, np.uint64),
        np.empty(ready, np.int32),
        np.full(2 << states.bit_length(), -1, np.int32),
    )


def grown(found: Automata) -> Automata:
    """Copy the states into arrays for twice as many."""
    old = found.states
    new = _room(
        2 * len(old.identity), 2 * len(old.type), 2 * len(old.ready), old.done.shape[1], old.rest.shape[1]
    )
    for name in States._fields[:-1]:  # `slots` are filled anew
        before: NDArray[Any] = getattr(old, name)
        getattr(new, name)[: len(before)] = before
    _rehash(new)
    return found._replace(states=new)


def forget(found: Automata) -> None:
    """Keep only the instances' first states, and the room for others."""
    instances, states, count = found.instances, found.states, len(found.start)
    entries = states.first[count]
    states.size[:] = count, entries, states.begin[entries]
    states.next[:entries] = -1
    states.slots[:] = -1
    instances.stamp[:] = -1
    instances.mark[:] = -1
    _rehash(states)


def bytes_of(found: Automata) -> int:
    """Return the bytes that the states take."""
    return sum(array.nbytes for array in found.states)


@njit
def _rehash(states: States) -> None:
    for s in range(states.size[0]):
        states.slots[_slot(states, states.identity[s])] = s


@inner
def _slot(states: States, identity: int) -> int:
    """Where the state with that identity is, or would be, in `slots`."""
    mask = np.uint64(len(states.slots) - 1)
    position = np.uint64(identity) & mask
    while states.slots[position] >= 0 and states.identity[states.slots[position]] != identity:
        position = (position + np.uint64(1)) & mask
    return int(position)


@njit
def _start(
    instances: Instances, states: States, sources: Ints, ptr: Ints, identity: Keys, start: Ints
) -> None:
    for k in range(len(start)):
        count = 0
        for i in range(ptr[k], ptr[k + 1]):
            instances.fresh[count] = sources[i]
            count += 1
        s = states.size[0]
        _finish(instances, states, identity[k], count)
        start[k] = s


@njit
def step(instances: Instances, states: States, s: int, e: int) -> int:
    """The state that executing entry e of state s leads to, or FULL."""
    if states.next[e] >= 0:
        return int(states.next[e])
    identity = states.identity[s] ^ states.key[e]
    slot = _slot(states, identity)
    if states.slots[slot] >= 0:
        states.next[e] = states.slots[slot]
        return int(states.next[e])
    new = states.size[0]
    entries, kept = states.first[s + 1] - states.first[s], states.begin[states.first[s + 1]]
    kept -= states.begin[states.first[s]]
    if new + 1 >= len(states.identity):
        return FULL
    done = states.done[new]
    for i in range(len(done)):
        done[i] = states.done[s, i]
    for i in range(states.rest.shape[1]):
        states.rest[new, i] = states.rest[s, i]
    first, last = states.begin[e], states.begin[e + 1]
    for i in range(first, last):
        p = instances.position[states.ready[i]]
        done[p >> 6] |= np.uint64(1) << np.uint64(p & 63)
    count = 0
    for i in range(first, last):
        v = states.ready[i]
        for c in range(instances.ptr[v], instances.ptr[v + 1]):
            w = instances.succ[c]
            if instances.stamp[w] != new and _all_done(instances, done, w):
                instances.stamp[w] = new
                instances.fresh[count] = w
                count += 1
    if states.size[1] + entries + min(count, len(instances.mark)) > len(states.type) or states.size[
        2
    ] + kept + count > len(states.ready):
        for i in range(count):
            instances.stamp[instances.fresh[i]] = -1
        return FULL
    states.next[e] = new
    _carry_over(instances, states, s, e, count)
    _finish(instances, states, identity, count)
    return int(new)


@inner
def _all_done(instances: Instances, done: Keys, w: int) -> bool:
    for i in range(instances.above_ptr[w], instances.above_ptr[w + 1]):
        p = instances.position[instances.above[i]]
        if (done[p >> 6] >> np.uint64(p & 63)) & np.uint64(1) == 0:
            return False
    return True


@inner
def _carry_over(instances: Instances, states: States, s: int, executed: int, count: int) -> None:
    """Write the entries of s, but the executed one, as those of the next state, with its fresh nodes."""
    new = states.size[0]
    for f in range(states.first[s], states.first[s + 1]):
        if f == executed:
            continue
        t = states.type[f]
        instances.mark[t] = new
        e, end = states.size[1], states.size[2]
        states.type[e], states.begin[e], states.next[e] = t, end, -1
        for i in range(states.begin[f], states.begin[f + 1]):
            states.ready[end] = states.ready[i]
            end += 1
        carried = end
        for i in range(count):
            if instances.type[instances.fresh[i]] == t:
                states.ready[end] = instances.fresh[i]
                end += 1
        states.size[1], states.size[2], states.begin[e + 1] = e + 1, end, end
        if end == carried:
            states.mass[e], states.key[e] = states.mass[f], states.key[f]
            states.top[e], states.free[e] = states.top[f], states.free[f]
        else:
            _judge(instances, states, new, e)


@inner
def _finish(instances: Instances, states: States, identity: int, count: int) -> None:
    """Write the entries of types that only fresh nodes are of, and enter the new state."""
    new = states.size[0]
    for k in range(count):
        t = instances.type[instances.fresh[k]]
        if instances.mark[t] == new:
            continue
        instances.mark[t] = new
        e, end = states.size[1], states.size[2]
        states.type[e], states.begin[e], states.next[e] = t, end, -1
        for i in range(k, count):
            if instances.type[instances.fresh[i]] == t:
                states.ready[end] = instances.fresh[i]
                end += 1
        states.size[1], states.size[2], states.begin[e + 1] = e + 1, end, end
        _judge(instances, states, new, e)
    states.identity[new] = identity
    states.first[new + 1] = states.size[1]
    slot = _slot(states, identity)
    states.slots[slot] = new
    states.size[0] = new + 1


@inner
def _judge(instances: Instances, states: States, s: int, e: int) -> None:
    """Fill in what entry e of state s is worth."""
    done = states.done[s]
    mass, key = 0.0, np.uint64(0)
    first, last = states.begin[e], states.begin[e + 1]
    for i in range(first, last):
        mass += instances.mass[states.ready[i]]
        key ^= instances.key[states.ready[i]]
    states.mass[e], states.key[e] = mass, key
    column, rank = instances.column_of[states.ready[first]], instances.rank[states.ready[first]]
    i = instances.column[column] + states.rest[s, rank]
    while True:  # the first of the column that is not done: a ready one is there at the latest
        v = instances.by_height[i]
        p = instances.position[v]
        if (done[p >> 6] >> np.uint64(p & 63)) & np.uint64(1) == 0:
            break
        i += 1
    states.rest[s, rank] = i - instances.column[column]
    top, critical = instances.height[v], 0
    while i < instances.column[column + 1] and instances.height[instances.by_height[i]] == top:
        p = instances.position[instances.by_height[i]]
        critical += (done[p >> 6] >> np.uint64(p & 63)) & np.uint64(1) == 0
        i += 1
    ready = 0
    for i in range(first, last):
        ready += instances.height[states.ready[i]] == top
    states.top[e], states.free[e] = top, ready == critical
