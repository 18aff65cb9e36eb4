"""Repair: a local search that shortens a known sequence of types.

An edit moves a type, swaps two, or leaves one out, and is kept if the sequence still finishes the graph.
Edits that keep the length lead on to sequences of which others can be shortened. Only what an edit changes
is followed anew, on the automata of the instances.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.dag import Dag
from abw.core.jit.decorators import inner, njit
from abw.core.jit.splitmix import GOLDEN, mix
from abw.core.policy.search.automata import (
    FULL,
    Instances,
    Ints,
    States,
    automata,
    bytes_of,
    forget,
    grown,
    step,
)

# What `Word.at` counts: types, where the next one is left out (-1: edits are random), how many were since
# the last pass began, and the work.
LENGTH, NEXT, FEWER, WORK = range(4)
# The kinds of random edits. The last two leave a type out: and move or swap others beside it, or move the
# next one of the same type, which takes its place.
MOVE, SWAP, SHORTEN, MERGE = range(4)
# A type is moved by up to 1, 2, 4, ... or 2^7 places, and swapped with one at most so many places away.
SCALES, AWAY = 8, 6
# So many steps of instances take about as long as an edit does beside them.
STEPS = 256
# States are forgotten at so many bytes if that does: more are further from the processor.
NEAR_BY = 1 << 25
# The work between two looks for Ctrl-C: some hundredths of a second.
CHUNK = 10_000


class Word(NamedTuple):
    """A sequence of `at[LENGTH]` types that finishes all K instances, with room for M.

    `path[k, p]` (K, M + 1): the state of instance k after p types. An edit writes `window` (M,) over a
    stretch of the `sequence` (M,); `trial` (K, M + 1) are the states then, as far as `until` (K,). `order`
    (K,): the instances, those first that an edit left unfinished last. `random` (1,): the state of
    SplitMix64.
    """

    sequence: Ints
    path: Ints
    window: Ints
    trial: Ints
    until: Ints
    order: Ints
    at: NDArray[np.int64]
    random: NDArray[np.uint64]


def repair(
    dag: Dag, types: Ints, work: int, seed: int = 0, *, patience: int | None = None, room: int = 1 << 28
) -> Ints:
    """Shorten a sequence of types that finishes the graph; it keeps its length if nothing shorter is found.

    `work` is the number of edits tried, where one that takes many steps counts as several: 1 to 3 us each for
    64 instances. The search ends earlier where the work of `patience` has gained nothing. The same seed gives
    the same sequence. States that take too many bytes are forgotten and made anew; where a single edit takes
    more than `room`, the search ends, too.
    """
    known = automata(dag)
    count, words = len(known.start), known.states.done.shape[1]
    if len(types) < 3 or 16 * count * len(types) > room:
        return types
    word = _word(types, count, seed)
    filled, tried = False, 0
    patience = work if patience is None else patience
    shortest, end = len(types), min(work, patience)
    while word.at[WORK] < end:
        if word.at[LENGTH] < shortest:
            shortest, end = int(word.at[LENGTH]), min(work, int(word.at[WORK]) + patience)
        goal = min(end, int(word.at[WORK]) + CHUNK)
        filled = filled or _fill(known.instances, known.states, known.start, word) != FULL
        if filled and _edit(known.instances, known.states, word, goal) != FULL:
            continue
        idle = word.at[WORK] == tried
        if 2 * bytes_of(known) <= (room if idle else min(room, NEAR_BY)):
            known = grown(known)
        elif idle:
            break
        else:
            forget(known)
            filled = False
            word.at[WORK] += work_of(len(dag), words)
            tried = int(word.at[WORK])
    return word.sequence[: word.at[LENGTH]].copy()


def work_of(steps: int, words: int) -> int:
    """Return the work that steps of instances count for, whose states have so many words."""
    return steps * (8 + words) // (8 * STEPS)


_work = inner(work_of)


def _word(types: Ints, instances: int, seed: int) -> Word:
    """The sequence before any edit; its paths are not filled in yet."""
    path, trial = np.empty((2, instances, len(types) + 1), np.int32)
    return Word(
        sequence=types.astype(np.int32),
        path=path,
        window=np.empty(len(types), np.int32),
        trial=trial,
        until=np.empty(instances, np.int32),
        order=np.arange(instances, dtype=np.int32),
        at=np.array([len(types), len(types) - 1, 0, 0]),
        random=np.array([seed], np.uint64),
    )


@njit
def _fill(instances: Instances, states: States, start: Ints, word: Word) -> int:
    """Fill in the paths; FULL where there is no room for a state, else 0."""
    for k in range(len(start)):
        s = int(start[k])
        word.path[k, 0] = s
        for p in range(word.at[LENGTH]):
            s = _after(instances, states, s, word.sequence[p])
            if s == FULL:
                return FULL
            word.path[k, p + 1] = s
    return 0


@njit
def _edit(instances: Instances, states: States, word: Word, goal: int) -> int:
    """Try edits until the work reaches `goal`; FULL where there is no room for a state, else 0."""
    while word.at[WORK] < goal:
        before, i, length = word.random[0], word.at[NEXT], word.at[LENGTH]
        if length < 3:
            word.at[WORK] = goal
            return 0
        low, high, fewer = (i, i, 1) if i >= 0 else _draw(word)
        if high < 0:
            word.at[WORK] += 1
            continue
        if _try(instances, states, word, low, high, fewer) == FULL:
            word.random[0] = before
            return FULL
        if i >= 0:
            word.at[FEWER] += length - word.at[LENGTH]
            word.at[NEXT] -= 1
            if i == 0 and word.at[FEWER] > 0:  # what could not be left out may be now
                word.at[NEXT], word.at[FEWER] = word.at[LENGTH] - 1, 0
    return 0


@inner
def _draw(word: Word) -> tuple[int, int, int]:
    """Write a random edit into `window`: the stretch it changes, and how many types it leaves out.

    The end of the stretch is -1 where the edit would change nothing.
    """
    kind, i = _below(word, 4), _below(word, word.at[LENGTH])
    fewer = 1 if kind >= SHORTEN else 0
    length = word.at[LENGTH] - fewer
    far = 1 << _below(word, SCALES)
    source, target = i, _near(word, i, AWAY if kind == SWAP else far, length)
    if kind == SHORTEN:
        source, target = target, _near(word, target, AWAY, length)
    elif kind == MERGE:
        source = i
        while source < length and word.sequence[source + 1] != word.sequence[i]:
            source += 1
        if source == length:
            return 0, -1, 0
        target = i + _below(word, source - i + 1)
    elif word.sequence[source] == word.sequence[target]:
        return 0, -1, 0
    low, high = min(source, target), max(source, target) + 1
    if fewer > 0:
        low, high = min(low, i), max(high, i)
    for p in range(low, high):
        word.window[p - low] = word.sequence[p + (fewer > 0 and p >= i)]
    if kind == SWAP or (kind == SHORTEN and _below(word, 2) == 0):
        _swap(word.window, source - low, target - low)
    else:
        _move(word.window, source - low, target - low)
    return low, high, fewer


@inner
def _below(word: Word, end: int) -> int:
    """A random number from 0 to end - 1."""
    word.random[0] += np.uint64(GOLDEN)
    drawn = mix(word.random[0]) >> np.uint64(32)
    return int(np.int64((drawn * np.uint64(end)) >> np.uint64(32)))


@inner
def _near(word: Word, i: int, far: int, length: int) -> int:
    """A random place at most `far` from i."""
    return min(length - 1, max(0, i + _below(word, 2 * far + 1) - far))


@inner
def _swap(types: Ints, i: int, j: int) -> None:
    t = types[i]
    types[i] = types[j]
    types[j] = t


@inner
def _move(types: Ints, i: int, j: int) -> None:
    """Take the i-th out and put it in as the j-th."""
    t = types[i]
    for p in range(i, j):
        types[p] = types[p + 1]
    for p in range(i, j, -1):
        types[p] = types[p - 1]
    types[j] = t


@inner
def _try(instances: Instances, states: States, word: Word, low: int, high: int, fewer: int) -> int:
    """Make an edit if all instances still finish: whether they do, or FULL. Counts the work."""
    length, steps = word.at[LENGTH] - fewer, 0
    for q in range(len(word.order)):
        k = word.order[q]
        s, p = int(word.path[k, low]), low
        # from where all is as before, nothing need be followed
        while not (_finished(states, s) or (p >= high and s == word.path[k, p + fewer])):
            if p >= length:
                for r in range(q, 0, -1):
                    word.order[r] = word.order[r - 1]
                word.order[0] = k
                word.at[WORK] += 1 + _work(steps, states.done.shape[1])
                return 0
            s = _after(instances, states, s, word.window[p - low] if p < high else word.sequence[p + fewer])
            if s == FULL:
                return FULL
            steps, p = steps + 1, p + 1
            word.trial[k, p] = s
        word.until[k] = p
    word.at[WORK] += 1 + _work(steps, states.done.shape[1])
    _keep(states, word, low, high, fewer)
    return 1


@inner
def _keep(states: States, word: Word, low: int, high: int, fewer: int) -> None:
    """Make the edit that was tried the sequence, and the trial its paths."""
    length = word.at[LENGTH] - fewer
    for p in range(low, high):
        word.sequence[p] = word.window[p - low]
    if fewer > 0:
        for p in range(high, length):
            word.sequence[p] = word.sequence[p + 1]
    for k in range(len(word.order)):
        last = word.until[k]
        for p in range(low + 1, last + 1):
            word.path[k, p] = word.trial[k, p]
        s, p = word.path[k, last], last + 1
        if _finished(states, s):
            while p <= length and word.path[k, p] != s:
                word.path[k, p] = s
                p += 1
        elif fewer > 0:
            for p in range(last + 1, length + 1):
                word.path[k, p] = word.path[k, p + 1]
    word.at[LENGTH] = length


@inner
def _after(instances: Instances, states: States, s: int, t: int) -> int:
    """The state after type t: s itself where none of it is ready; FULL where there is no room."""
    for e in range(states.first[s], states.first[s + 1]):
        if states.type[e] == t:
            return int(step(instances, states, s, e))
    return s


@inner
def _finished(states: States, s: int) -> bool:
    return bool(states.first[s] == states.first[s + 1])
