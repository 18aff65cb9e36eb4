"""Beam search over sequences of types, by automata of the instances."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from abw.core.graph.dag import Dag
from abw.core.jit.decorators import inner, njit
from abw.core.policy.cost import Cost, batch_cost, regret, rest
from abw.core.policy.search.automata import (
    FULL,
    Automata,
    Floats,
    Instances,
    Ints,
    Keys,
    States,
    automata,
    bytes_of,
    grown,
    step,
)

LESS = 1.0 - 1e-9  # costs are sums that rounding blurs: what is less than this of another is less than it


class Beam(NamedTuple):
    """W partial executions of K instances, with T types and H heights of all types together.

    `at` (W, K): each instance's state. By type (W, T): `mass` and `key` of what is ready, its `rows`, the
    rows `left` in all, the largest height `top` that remains, and of how many of the instances that have it
    executing the type would lower it (`free`); `who` (W, T, K / 64): the instances in which the type is
    ready. `number` (W, H): see `Automata`. Of the whole (W,): the cost `spent`, `weight` and `name` of what
    is executed.
    """

    at: Ints
    mass: Floats
    key: Keys
    rows: Ints
    left: Ints
    top: Ints
    free: Ints
    who: Keys
    number: Ints
    spent: Floats
    weight: Floats
    name: Keys


class Next(NamedTuple):
    """Room for C next executions: of which they come by which type, and what they would be.

    `slots` is a hash table over `name`; `by_score` and `by_weight` (W,) the best of them, `taken` (C,) and
    `picked` (W,) those that are followed.
    """

    parent: Ints
    action: Ints
    score: Floats
    weight: Floats
    name: Keys
    slots: Ints
    by_score: Ints
    by_weight: Ints
    taken: Ints
    picked: Ints


class Way(NamedTuple):
    """How executions were reached: place w of step b comes from `parent[b, w]` by `action[b, w]`."""

    parent: Ints
    action: Ints


def _beams(width: int, instances: int, types: int, heights: int) -> Beam:
    rows, left, top, free = np.zeros((4, width, types), np.int32)
    return Beam(
        at=np.empty((width, instances), np.int32),
        mass=np.zeros((width, types)),
        key=np.zeros((width, types), np.uint64),
        rows=rows,
        left=left,
        top=top,
        free=free,
        who=np.zeros((width, types, (instances + 63) // 64), np.uint64),
        number=np.empty((width, heights), np.int32),
        spent=np.zeros(width),
        weight=np.zeros(width),
        name=np.zeros(width, np.uint64),
    )


def _choice_room(width: int, types: int) -> Next:
    many = width * types
    parent, action, taken = np.empty((3, many), np.int32)
    by_score, by_weight, picked = np.empty((3, width), np.int32)
    score, weight = np.empty((2, many))
    slots = np.empty(2 << many.bit_length(), np.int32)
    name = np.empty(many, np.uint64)
    return Next(parent, action, score, weight, name, slots, by_score, by_weight, taken, picked)


class Beaten(NamedTuple):
    """The types of the cheapest schedule found (None: none below the limit), and the proven bound.

    No schedule that takes all ready nodes of a type costs less than `at_least`, which is no more than the
    cost of the one found, or the limit.
    `steps`: how many instances were taken to a next state.
    """

    types: Ints | None
    at_least: float
    steps: int


def search(dag: Dag, cost: Cost, width: int, limit: float, most: int, room: int = 1 << 28) -> Beaten:
    """The cheapest sequence of types below a cost of `limit`, in at most `most` batches.

    It gives up, with what it has, where the automata take more than `room` bytes.
    """
    known = automata(dag)
    types, count, heights = len(dag.types), len(known.start), len(known.number)
    follow = _choice_room(width, types)
    here, there = (_beams(width, count, types, heights) for _ in range(2))
    way = Way(np.empty((most, width), np.int32), np.empty((most, width), np.int32))
    sequence, bound = np.empty(most, np.int32), np.empty(2)
    left = np.bincount(dag.type, minlength=types).astype(np.int32)
    while True:
        bound[0], bound[1] = limit, 0.0
        _begin(known, left, here)
        length = _search(
            known.instances, known.states, known.first, cost, here, there, follow, way, sequence, bound
        )
        if length != FULL:
            break
        if 2 * bytes_of(known) > room:
            return Beaten(None, 0.0, 0)
        known = grown(known)
    return Beaten(sequence[:length].copy() if length >= 0 else None, float(bound[0]), int(bound[1]))


def _begin(known: Automata, left: Ints, beam: Beam) -> None:
    """The beam before the first batch: one execution."""
    for array in beam[1:8]:
        array[0] = 0
    beam.at[0], beam.left[0], beam.number[0] = known.start, left, known.number
    for array in beam[9:]:
        array[0] = 0
    _enter(known.states, known.first, beam)


@njit
def _enter(states: States, first: Ints, beam: Beam) -> None:
    for t in range(len(first)):
        top = (first[t + 1] if t + 1 < len(first) else beam.number.shape[1]) - first[t] - 1
        beam.top[0, t] = top
    for k in range(beam.at.shape[1]):
        s = beam.at[0, k]
        for e in range(states.first[s], states.first[s + 1]):
            _add(states, beam, 0, k, e)


@inner
def _add(states: States, beam: Beam, w: int, k: int, e: int) -> None:
    """Count an entry of instance k."""
    t = states.type[e]
    beam.mass[w, t] += states.mass[e]
    beam.key[w, t] ^= states.key[e]
    beam.rows[w, t] += states.begin[e + 1] - states.begin[e]
    beam.free[w, t] += states.free[e] and states.top[e] == beam.top[w, t]
    beam.who[w, t, k >> 6] |= np.uint64(1) << np.uint64(k & 63)


@inner
def _drop(states: States, beam: Beam, w: int, e: int) -> None:
    """Count an entry no more; `who` stays."""
    t = states.type[e]
    beam.mass[w, t] -= states.mass[e]
    beam.key[w, t] ^= states.key[e]
    beam.rows[w, t] -= states.begin[e + 1] - states.begin[e]
    beam.free[w, t] -= states.free[e] and states.top[e] == beam.top[w, t]


@inner
def _is_free(beam: Beam, first: Ints, w: int, t: int) -> bool:
    return bool(beam.free[w, t] == beam.number[w, first[t] + beam.top[w, t]])


@njit
def _search(
    instances: Instances,
    states: States,
    first: Ints,
    cost: Cost,
    here: Beam,
    there: Beam,
    follow: Next,
    way: Way,
    sequence: Ints,
    bound: Floats,
) -> int:
    """Fill in the cheapest sequence found; its length, -1 where none is below the limit, or FULL.

    `bound` holds the limit, then what `Beaten` says: `at_least` and `steps`.
    """
    limit, at_least, length, width, steps = bound[0], np.inf, -1, 1, 0.0
    for b in range(len(way.parent)):
        count = _choices(first, cost, here, width, limit, follow)
        kept = _pick(follow, count)
        for c in range(count):
            if follow.taken[c] == 0:
                at_least = min(at_least, follow.score[c])
        if kept == 0:
            break
        for j in range(kept):
            c = follow.picked[j]
            w, a = follow.parent[c], follow.action[c]
            way.parent[b, j], way.action[b, j] = w, a
            _copy(here, w, there, j)
            taken = _advance(instances, states, first, cost, there, j, a)
            if taken < 0:
                return FULL
            steps += taken
            there.weight[j], there.name[j] = follow.weight[c], follow.name[c]
            if there.spent[j] < limit * LESS and _finished(there, j):
                limit, length = there.spent[j], b + 1
                w = j
                for i in range(b, -1, -1):
                    sequence[i] = way.action[i, w]
                    w = way.parent[i, w]
        here, there, width = there, here, kept
    bound[0], bound[1] = min(at_least, limit), steps
    return length


@inner
def _finished(beam: Beam, w: int) -> bool:
    remain = 0
    for t in range(beam.top.shape[1]):
        remain += beam.top[w, t]
    return remain == 0


@inner
def _choices(first: Ints, cost: Cost, beam: Beam, width: int, limit: float, follow: Next) -> int:
    """Write down what may come next below the limit; of several executions of one set the cheapest."""
    count, types = 0, len(first)
    mask = np.uint64(len(follow.slots) - 1)
    for i in range(len(follow.slots)):
        follow.slots[i] = -1
    for w in range(width):
        before = beam.spent[w]
        for t in range(types):
            before += rest(cost, t, beam.left[w, t], beam.top[w, t])
        for t in range(types):
            rows = beam.rows[w, t]
            if rows == 0:
                continue
            free = _is_free(beam, first, w, t)
            score = before + regret(cost, t, rows, beam.left[w, t], beam.top[w, t], free)
            if score >= limit * LESS:
                continue
            name = beam.name[w] ^ beam.key[w, t]
            slot = name & mask
            while follow.slots[slot] >= 0 and follow.name[follow.slots[slot]] != name:
                slot = (slot + np.uint64(1)) & mask
            c = follow.slots[slot]
            if c < 0:
                c = count
                follow.slots[slot] = c
                count += 1
            elif follow.score[c] <= score:
                continue
            follow.parent[c], follow.action[c], follow.score[c] = w, t, score
            follow.weight[c], follow.name[c] = beam.weight[w] + beam.mass[w, t], name
    return count


@inner
def _pick(follow: Next, count: int) -> int:
    """Take in turn the best by score and the best by weight; how many are taken."""
    width = len(follow.picked)
    for c in range(count):
        follow.taken[c] = 0
    if count <= width:
        for c in range(count):
            follow.taken[c], follow.picked[c] = 1, c
        return count
    _best(follow.score, follow.weight, -1.0, count, follow.by_score)
    _best(follow.weight, follow.score, 1.0, count, follow.by_weight)
    kept = 0
    for i in range(2 * width):
        c = follow.by_weight[i >> 1] if i & 1 else follow.by_score[i >> 1]
        if kept < width and follow.taken[c] == 0:
            follow.taken[c], follow.picked[kept] = 1, c
            kept += 1
    return kept


@inner
def _best(value: Floats, then: Floats, sign: float, count: int, best: Ints) -> None:
    """The best, first to last, by the smallest value (`sign` -1) or the largest, then by the other one."""
    size = 0
    for c in range(count):
        high, low = sign * value[c], -sign * then[c]
        if size == len(best):
            last = best[size - 1]
            worst = sign * value[last]
            if high < worst or (high == worst and low <= -sign * then[last]):
                continue
        else:
            size += 1
        i = size - 1
        while i > 0:
            d = best[i - 1]
            other = sign * value[d]
            if other > high or (other == high and -sign * then[d] >= low):
                break
            best[i] = d
            i -= 1
        best[i] = c


@inner
def _copy(source: Beam, w: int, target: Beam, j: int) -> None:
    for k in range(source.at.shape[1]):
        target.at[j, k] = source.at[w, k]
    for t in range(source.mass.shape[1]):
        target.mass[j, t] = source.mass[w, t]
        target.key[j, t] = source.key[w, t]
        target.rows[j, t] = source.rows[w, t]
        target.left[j, t] = source.left[w, t]
        target.top[j, t] = source.top[w, t]
        target.free[j, t] = source.free[w, t]
        for i in range(source.who.shape[2]):
            target.who[j, t, i] = source.who[w, t, i]
    for h in range(source.number.shape[1]):
        target.number[j, h] = source.number[w, h]
    target.spent[j] = source.spent[w]


DE_BRUIJN = np.uint64(0x03F79D71B4CB0A89)
BIT = np.empty(64, np.int64)
BIT[[(int(DE_BRUIJN) << k & (2**64 - 1)) >> 58 for k in range(64)]] = np.arange(64)


@inner
def _lowest(bits: int) -> int:
    """The number of the lowest bit that is set."""
    lowest = bits & (~bits + np.uint64(1))
    return int(BIT[(lowest * DE_BRUIJN) >> np.uint64(58)])


@inner
def _advance(
    instances: Instances, states: States, first: Ints, cost: Cost, beam: Beam, w: int, a: int
) -> int:
    """Execute type a in execution w; in how many instances, or FULL."""
    taken, number = 0, first[a]
    beam.spent[w] += batch_cost(cost, a, beam.rows[w, a])
    beam.left[w, a] -= beam.rows[w, a]
    words = beam.who.shape[2]
    for i in range(words):
        bits = beam.who[w, a, i]
        while bits != 0:
            k = 64 * i + _lowest(bits)
            s = beam.at[w, k]
            e = states.first[s]
            while states.type[e] != a:
                e += 1
            s2 = step(instances, states, s, e)
            if s2 < 0:
                return FULL
            beam.number[w, number + states.top[e]] -= 1
            beam.number[w, number + states.top[e] - states.free[e]] += 1
            beam.at[w, k] = s2
            for f in range(states.first[s], states.first[s + 1]):
                if f != e:
                    _drop(states, beam, w, f)
            taken += 1
            bits &= bits - np.uint64(1)
    while beam.top[w, a] > 0 and beam.number[w, number + beam.top[w, a]] == 0:
        beam.top[w, a] -= 1
    beam.mass[w, a], beam.key[w, a], beam.rows[w, a], beam.free[w, a] = 0.0, np.uint64(0), 0, 0
    for i in range(words):
        bits = beam.who[w, a, i]
        beam.who[w, a, i] = 0
        while bits != 0:
            k = 64 * i + _lowest(bits)
            s = beam.at[w, k]
            for e in range(states.first[s], states.first[s + 1]):
                _add(states, beam, w, k, e)
            bits &= bits - np.uint64(1)
    return taken
