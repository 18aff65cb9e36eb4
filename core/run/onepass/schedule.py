"""The stages that schedule: facts about the graph, and the loops of each rule (`abw.core.policy`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.bounds import _chains, _deepen
from abw.core.graph.edges import _consumers
from abw.core.jit.addresses import (
    bools_at,
    double_table,
    doubles_at,
    int_table,
    ints_at,
    ints_in,
    longs_at,
)
from abw.core.jit.decorators import entry, fragment
from abw.core.policy.learned.fsm import _run
from abw.core.policy.reverse import _last_to_first, _turn
from abw.core.policy.rules.agenda import DepthSums, _agenda
from abw.core.policy.rules.critical import _critical
from abw.core.policy.rules.depth import _group
from abw.core.policy.rules.frontier import Batches, Edges, Frontier, enqueue
from abw.core.policy.rules.phases import _fill_types
from abw.core.run.onepass import state as at
from abw.core.run.onepass.state import FINE, MORE, OTHER, WRONG, full, take

Ints = NDArray[np.int32]
Graph = tuple[Ints, Ints, Ints, Ints]


@fragment
def room_for_schedule(words: int) -> bool:
    """Reserve room for an empty schedule."""
    state = longs_at(words, at.WORDS)
    n = state[at.NODES]
    state[at.BATCH_TYPE], state[at.BATCH_PTR] = take(words, n, 4), take(words, n + 1, 4)
    state[at.BATCH_NODES] = take(words, n, 4)
    if full(words):
        return False
    ints_at(state[at.BATCH_PTR], 1)[0] = 0
    return True


@fragment
def depths(words: int) -> int:
    """Where the nodes' depths lie; 0 without room, below 0 where nodes wait for each other."""
    state = longs_at(words, at.WORDS)
    n = state[at.NODES]
    found, way, resume = take(words, n, 4), take(words, n, 4), take(words, n, 4)
    if full(words):
        return 0
    depth, ptr = ints_at(found, n), ints_at(state[at.OPERAND_PTR], n + 1)
    for v in range(n):
        depth[v] = 0
    operand = ints_at(state[at.OPERAND], state[at.OPERANDS])
    if _deepen(ptr, operand, state[at.SHIFT], depth, ints_at(way, n), ints_at(resume, n)) < n:
        return -1
    for v in range(n):
        depth[v] -= 1
    return found


@entry
def depth(words: int) -> int:
    """Schedule as `Depth`."""
    state = longs_at(words, at.WORDS)
    n, types, deepest = state[at.NODES], state[at.TYPES], -1
    found = depths(words)
    if found <= 0 or not room_for_schedule(words):
        return MORE if found >= 0 else WRONG
    deep = ints_at(found, n)
    for v in range(n):
        deepest = max(deepest, deep[v])
    count = types * (deepest + 1)
    place = take(words, count, 4)
    if full(words):
        return MORE
    offset = ints_at(place, count)
    for g in range(count):
        offset[g] = 0
    kind, ptr = ints_at(state[at.BATCH_TYPE], n), ints_at(state[at.BATCH_PTR], n + 1)
    own, nodes = ints_at(state[at.NODE_AT], n), ints_at(state[at.BATCH_NODES], n)
    state[at.BATCHES] = _group(deep, own, types, offset, kind, ptr, nodes)
    return FINE


@entry
def ordered(words: int) -> int:
    """Schedule as `Phases` where the types have an order: one batch for each."""
    state = longs_at(words, at.WORDS)
    n, types = state[at.NODES], state[at.TYPES]
    place = take(words, types, 4)
    state[at.BATCH_TYPE], state[at.BATCH_PTR] = take(words, types, 4), take(words, types + 1, 4)
    state[at.BATCH_NODES] = take(words, n, 4)
    if full(words):
        return MORE
    offset, ptr = ints_at(place, types), ints_at(state[at.BATCH_PTR], types + 1)
    for t in range(types):
        offset[t] = ptr[t] = 0
    ptr[types] = 0
    own, kind = ints_at(state[at.NODE_AT], n), ints_at(state[at.BATCH_TYPE], types)
    nodes = ints_at(state[at.BATCH_NODES], n)
    state[at.BATCHES] = _fill_types(own, ints_in(state, at.ORDER), offset, kind, ptr, nodes)
    return FINE


@entry
def successors(words: int) -> int:
    """Find each node's consumers, as `consumers`."""
    state = longs_at(words, at.WORDS)
    n, operands, types = state[at.NODES], state[at.OPERANDS], state[at.TYPES]
    slots = state[at.SLOTS]
    state[at.SUCC_PTR], state[at.SUCC] = take(words, n + 2, 4), take(words, operands, 4)
    state[at.INDEGREE] = take(words, n, 4)
    seen, columns, edges = take(words, n, 4), take(words, slots, 4), take(words, 2 * (operands + 1), 4)
    if full(words):
        return MORE
    ptr = ints_at(state[at.SUCC_PTR], n + 2)
    for v in range(n + 2):
        ptr[v] = 0
    state[at.EDGES] = _consumers(
        (
            ints_at(state[at.TYPE_PTR], types + 1),
            ints_in(state, at.EDGE_SLOTS),
            ints_at(state[at.OPERAND_PTR], n + 1),
            ints_at(state[at.OPERAND], operands),
        ),
        bools_at(state[at.EDGE_LISTS], types),
        int_table(state[at.EDGE_DISTINCT], types, slots),
        state[at.SHIFT],
        (ints_at(seen, n), ints_at(columns, slots), int_table(edges, 2, operands + 1)),
        ptr,
        ints_at(state[at.SUCC], operands),
        ints_at(state[at.INDEGREE], n),
    )
    return FINE


@entry
def turn(words: int) -> int:
    """Reverse every edge, as `reversed_dag`."""
    state = longs_at(words, at.WORDS)
    n, m = state[at.NODES], state[at.EDGES]
    ptr, succ, indegree = take(words, n + 1, 4), take(words, m, 4), take(words, n, 4)
    if full(words):
        return MORE
    new_ptr = ints_at(ptr, n + 1)
    new_ptr[0] = 0
    before = ints_at(state[at.SUCC_PTR], n + 1), ints_at(state[at.SUCC], m), ints_at(state[at.INDEGREE], n)
    _turn(before[0], before[1], before[2], new_ptr, ints_at(succ, m), ints_at(indegree, n))
    state[at.SUCC_PTR], state[at.SUCC], state[at.INDEGREE] = ptr, succ, indegree
    return FINE


@entry
def turn_back(words: int) -> int:
    """Put the batches last to first, as `reversed_schedule`."""
    state = longs_at(words, at.WORDS)
    n, batches = state[at.NODES], state[at.BATCHES]
    type_at, ptr_at, nodes_at = take(words, n, 4), take(words, n + 1, 4), take(words, n, 4)
    if full(words):
        return MORE
    kind, ptr = ints_at(state[at.BATCH_TYPE], batches), ints_at(state[at.BATCH_PTR], batches + 1)
    new_kind, new_ptr, nodes = ints_at(type_at, batches), ints_at(ptr_at, batches + 1), ints_at(nodes_at, n)
    new_ptr[0] = 0
    for b in range(batches):
        new_kind[b] = kind[batches - 1 - b]
        new_ptr[b + 1] = new_ptr[b] + ptr[batches - b] - ptr[batches - 1 - b]
    _last_to_first(ptr, ints_at(state[at.BATCH_NODES], n), nodes)
    state[at.BATCH_TYPE], state[at.BATCH_PTR], state[at.BATCH_NODES] = type_at, ptr_at, nodes_at
    return FINE


@entry
def path_lengths(words: int) -> int:
    """Find the longest path from each node, as `bounds.path_lengths`."""
    state = longs_at(words, at.WORDS)
    n = state[at.NODES]
    state[at.LENGTH] = take(words, n, 4)
    way, resume = take(words, n, 4), take(words, n, 4)
    if full(words):
        return MORE
    length, none = ints_at(state[at.LENGTH], n), ints_at(state[at.LENGTH], 0)
    for v in range(n):
        length[v] = 0
    found = _chains(
        *graph(words),
        none,
        ints_at(way, n),
        ints_at(resume, n),
        int_table(way, n, at.ZERO),
        length,
        none,
    )
    return FINE if found == n else WRONG


@fragment
def graph(words: int) -> Graph:
    """What rules read of the graph: types, consumers, in-degrees."""
    state = longs_at(words, at.WORDS)
    n = state[at.NODES]
    return (
        ints_at(state[at.NODE_AT], n),
        ints_at(state[at.SUCC_PTR], n + 1),
        ints_at(state[at.SUCC], state[at.EDGES]),
        ints_at(state[at.INDEGREE], n),
    )


@fragment
def recorded(words: int) -> Graph:
    """The arrays of a schedule without batches, whose number is the low half of the word `BATCHES`."""
    state = longs_at(words, at.WORDS)
    n = state[at.NODES]
    state[at.BATCHES] = 0
    return (
        ints_at(state[at.BATCH_TYPE], n),
        ints_at(state[at.BATCH_PTR], n + 1),
        ints_at(state[at.BATCH_NODES], n),
        ints_at(words + 8 * at.BATCHES, 1),
    )


@fragment
def started(words: int, ground: int) -> Frontier:
    """The frontier before the first batch, (2, n) and three rows of zeros behind these (T,)."""
    state = longs_at(words, at.WORDS)
    n, types, below = state[at.NODES], state[at.TYPES], ground + 8 * state[at.NODES]
    frontier = Frontier(
        ints_at(ground, n),
        ints_at(ground + 4 * n, n),
        ints_at(below, types),
        ints_at(below + 4 * types, types),
        ints_at(below + 8 * types, types),
    )
    enqueue(ints_at(state[at.NODE_AT], n), ints_at(state[at.INDEGREE], n), frontier)
    return frontier


@fragment
def _ground(words: int) -> int:
    """Room for a frontier, (2, n), the paths from it, (6, T) of zeros, a state of an FSM (T + 2,), and for a
    schedule; where it lies, 0 without room.
    """
    state = longs_at(words, at.WORDS)
    n, types = state[at.NODES], state[at.TYPES]
    found = take(words, 2 * n + 7 * types + 2, 4)
    if not room_for_schedule(words):
        return 0
    zeros = ints_at(found + 8 * n, 6 * types)
    for i in range(6 * types):
        zeros[i] = 0
    return found


@entry
def critical(words: int) -> int:
    """Schedule as `Critical`, by path lengths."""
    state = longs_at(words, at.WORDS)
    n, types, ground = state[at.NODES], state[at.TYPES], _ground(words)
    if ground == 0:
        return MORE
    _critical(
        graph(words),
        ints_at(state[at.LENGTH], n),
        int_table(ground, 2, n),
        int_table(ground + 8 * n, 6, types),
        recorded(words),
    )
    return FINE


@entry
def machine(words: int) -> int:
    """Schedule by an FSM; OTHER where it meets a state that it has not seen in training."""
    state = longs_at(words, at.WORDS)
    n, types, ground = state[at.NODES], state[at.TYPES], _ground(words)
    if ground == 0:
        return MORE
    none, nothing = ints_at(ground, at.ZERO), doubles_at(ground, at.ZERO)
    states = state[at.FSM_PTR + 1] - 1
    found = _run(
        graph(words),
        (
            ints_in(state, at.FSM_SLOTS),
            ints_in(state, at.FSM_PTR),
            ints_in(state, at.FSM_SYMBOLS),
            double_table(state[at.FSM_VALUE], states, types),
            int_table(state[at.FSM_VISITS], states, types),
            ints_in(state, at.FSM_SIZE),
        ),
        ints_in(state, at.FSM_ACTION),
        (state[at.ENCODING], state[at.PHASES]),
        ints_at(state[at.LENGTH], n),
        int_table(ground, 2, n),
        int_table(ground + 8 * n, 6, types),
        ints_at(ground + 8 * n + 24 * types, types + 2),
        recorded(words),
        ((none, none, none, none, none, none, none), (none, nothing, nothing, none)),
    )
    return FINE if found >= 0 else OTHER


@entry
def agenda(words: int) -> int:
    """Schedule as `Agenda`."""
    state = longs_at(words, at.WORDS)
    n, types = state[at.NODES], state[at.TYPES]
    found = depths(words)
    sums, ground = take(words, 3 * types, 8), _ground(words)
    if found <= 0 or ground == 0:
        return MORE if found >= 0 else WRONG
    total, number = longs_at(sums, types), longs_at(sums + 8 * types, types)
    average = doubles_at(sums + 16 * types, types)
    for t in range(types):
        total[t], number[t], average[t] = 0, 0, 0.0
    own, ptr, succ, _ = graph(words)
    _agenda(
        Edges(own, ptr, succ),
        started(words, ground),
        ints_at(found, n),
        state[at.STATIC] != 0,
        DepthSums(total, number, average),
        Batches(*recorded(words)),
    )
    return FINE
