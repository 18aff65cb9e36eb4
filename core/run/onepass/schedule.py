"""The stages that schedule: facts about the graph, and the loops of each rule (`abw.core.policy`)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.bounds import BLOCK, _chains, _deepen, _sort, _type_reach
from abw.core.graph.edges import _consumers
from abw.core.jit.addresses import (
    bool_table,
    bools_at,
    double_table,
    doubles_at,
    int_table,
    ints_at,
    ints_in,
    longs_at,
)
from abw.core.jit.decorators import entry, fragment
from abw.core.policy.cost import Cost
from abw.core.policy.learned.fsm import _run
from abw.core.policy.reverse import _last_to_first, _turn
from abw.core.policy.rules.agenda import DepthSums, _agenda
from abw.core.policy.rules.critical import _critical
from abw.core.policy.rules.depth import _group
from abw.core.policy.rules.frontier import Batches, Edges, Frontier, enqueue
from abw.core.policy.rules.phases import _fill_types
from abw.core.policy.rules.remaining import Remaining, begin_remaining
from abw.core.policy.rules.sufficient import HeldBack, _count_sources, _sufficient
from abw.core.policy.rules.weight import Weights, _weight, begin_weights
from abw.core.run.onepass import state as at
from abw.core.run.onepass.state import FINE, MORE, OTHER, WRONG, Ints, clear, full, held, spare, take

Graph = tuple[Ints, Ints, Ints, Ints]


@fragment
def depths(words: int) -> int:
    """Find the nodes' `DEPTH`; WRONG where they wait for each other."""
    state = longs_at(words, at.WORDS)
    n = state[at.NODES]
    depth, way, resume = held(words, at.DEPTH, n), spare(words, n), spare(words, n)
    if full(words):
        return MORE
    clear(depth)
    ptr, operand = ints_at(state[at.OPERAND_PTR], n + 1), ints_at(state[at.OPERAND], state[at.OPERANDS])
    if _deepen(ptr, operand, state[at.SHIFT], depth, way, resume) < n:
        return WRONG
    for v in range(n):
        depth[v] -= 1
    return FINE


@entry
def successors(words: int) -> int:
    """Find each node's consumers, as `consumers`."""
    state = longs_at(words, at.WORDS)
    n, operands, types, slots = state[at.NODES], state[at.OPERANDS], state[at.TYPES], state[at.SLOTS]
    ptr, succ = held(words, at.SUCC_PTR, n + 2), held(words, at.SUCC, operands)
    indegree, seen, columns = held(words, at.INDEGREE, n), spare(words, n), spare(words, slots)
    edges = take(words, 2 * (operands + 1), 4)
    if full(words):
        return MORE
    clear(ptr)
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
        (seen, columns, int_table(edges, 2, operands + 1)),
        ptr,
        succ,
        indegree,
    )
    return FINE


@entry
def turn(words: int) -> int:
    """Reverse every edge, as `reversed_dag`."""
    state = longs_at(words, at.WORDS)
    n, m = state[at.NODES], state[at.EDGES]
    _, before, targets, counts = graph(words)
    ptr, succ, indegree = (
        held(words, at.SUCC_PTR, n + 1),
        held(words, at.SUCC, m),
        held(words, at.INDEGREE, n),
    )
    if full(words):
        return MORE
    ptr[0] = 0
    _turn(before, targets, counts, ptr, succ, indegree)
    return FINE


@entry
def turn_back(words: int) -> int:
    """Put the batches last to first, as `reversed_schedule`."""
    state = longs_at(words, at.WORDS)
    n, batches = state[at.NODES], state[at.BATCHES]
    kind, ptr = ints_at(state[at.BATCH_TYPE], batches), ints_at(state[at.BATCH_PTR], batches + 1)
    nodes = ints_at(state[at.BATCH_NODES], n)
    if not _room(words):
        return MORE
    new_kind, new_ptr, new_nodes = schedule(words)
    for b in range(batches):
        new_kind[b] = kind[batches - 1 - b]
        new_ptr[b + 1] = new_ptr[b] + ptr[batches - b] - ptr[batches - 1 - b]
    _last_to_first(ptr, nodes, new_nodes)
    return FINE


@entry
def path_lengths(words: int) -> int:
    """Find the longest path from each node, as `bounds.path_lengths`."""
    n = longs_at(words, at.WORDS)[at.NODES]
    length, way, resume = held(words, at.LENGTH, n), spare(words, n), spare(words, n)
    if full(words):
        return MORE
    clear(length)
    none, above = ints_at(words, at.ZERO), int_table(words, n, at.ZERO)
    found = _chains(*graph(words), none, way, resume, above, length, none)
    return FINE if found == n else WRONG


@entry
def heights(words: int) -> int:
    """Find path lengths and heights, as `bounds.chains`; OTHER with more than BLOCK recurrent types."""
    state, columns = longs_at(words, at.WORDS), _columns(words)
    n = state[at.NODES]
    if columns < 0 or columns > BLOCK:
        return MORE if columns < 0 else OTHER
    length, height = held(words, at.LENGTH, n), held(words, at.HEIGHT, n)
    way, resume, above = spare(words, n), spare(words, n), take(words, n * columns, 4)
    if full(words):
        return MORE
    clear(length)
    clear(ints_at(above, n * columns))
    for v in range(n):
        height[v] = 1
    column = ints_at(state[at.COLUMN], state[at.TYPES])
    found = _chains(*graph(words), column, way, resume, int_table(above, n, columns), length, height)
    return FINE if found == n else WRONG


@fragment
def _columns(words: int) -> int:
    """Number the types whose nodes can wait for others of them, at `COLUMN`; how many, -1 without room."""
    types = longs_at(words, at.WORDS)[at.TYPES]
    column, found, count = held(words, at.COLUMN, types), take(words, types * types, 1), 0
    if full(words):
        return -1
    reach = bool_table(found, types, types)
    for t in range(types):
        for other in range(types):
            reach[t, other] = False
    own, ptr, succ, _ = graph(words)
    _type_reach(own, ptr, succ, reach)
    for t in range(types):
        column[t] = count if reach[t, t] else -1
        count += reach[t, t]
    return count


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
def _room(words: int) -> bool:
    """Reserve room for a schedule; False without."""
    n = longs_at(words, at.WORDS)[at.NODES]
    held(words, at.BATCH_TYPE, n)
    ptr = held(words, at.BATCH_PTR, n + 1)
    held(words, at.BATCH_NODES, n)
    if full(words):
        return False
    ptr[0] = 0
    return True


@fragment
def schedule(words: int) -> tuple[Ints, Ints, Ints]:
    """The arrays of the schedule: batches' types and ends, long enough for any, and the nodes."""
    state = longs_at(words, at.WORDS)
    n = state[at.NODES]
    ptr = ints_at(state[at.BATCH_PTR], n + 1)
    return ints_at(state[at.BATCH_TYPE], n), ptr, ints_at(state[at.BATCH_NODES], n)


@fragment
def recorded(words: int) -> Graph:
    """The arrays of a schedule without batches, whose number is the low half of the word `BATCHES`."""
    kind, ptr, nodes = schedule(words)
    longs_at(words, at.WORDS)[at.BATCHES] = 0
    return kind, ptr, nodes, ints_at(words + 8 * at.BATCHES, 1)


@fragment
def _ground(words: int, rows: int) -> int:
    """Room for a frontier, (2, n), for so many zeros of each type, (rows, T), and for a schedule; where it
    lies, 0 without room.
    """
    state = longs_at(words, at.WORDS)
    n, types = state[at.NODES], state[at.TYPES]
    found = take(words, 2 * n + rows * types, 4)
    if not _room(words):
        return 0
    clear(ints_at(found + 8 * n, rows * types))
    return found


@fragment
def _zeros(words: int, ground: int, rows: int) -> NDArray[np.int32]:
    """The zeros of each type (rows, T)."""
    state = longs_at(words, at.WORDS)
    return int_table(ground + 8 * state[at.NODES], rows, state[at.TYPES])  # type: ignore[no-any-return]


@fragment
def _started(words: int, ground: int) -> Frontier:
    """The frontier before the first batch, (2, n) and three rows of zeros behind these (T,)."""
    n, of_types = longs_at(words, at.WORDS)[at.NODES], _zeros(words, ground, 3)
    missing, queue = ints_at(ground, n), ints_at(ground + 4 * n, n)
    frontier = Frontier(missing, queue, of_types[0], of_types[1], of_types[2])
    own, _, _, indegree = graph(words)
    enqueue(own, indegree, frontier)
    return frontier


@entry
def depth(words: int) -> int:
    """Schedule as `Depth`."""
    state = longs_at(words, at.WORDS)
    n, types, deepest, ends = state[at.NODES], state[at.TYPES], -1, depths(words)
    if ends != FINE or not _room(words):
        return ends if ends != FINE else MORE
    found = ints_at(state[at.DEPTH], n)
    for v in range(n):
        deepest = max(deepest, found[v])
    offset = spare(words, types * (deepest + 1))
    if full(words):
        return MORE
    clear(offset)
    state[at.BATCHES] = _group(found, ints_at(state[at.NODE_AT], n), types, offset, *schedule(words))
    return FINE


@entry
def ordered(words: int) -> int:
    """Schedule as `Phases` where the types have an order: one batch for each."""
    state = longs_at(words, at.WORDS)
    offset = spare(words, state[at.TYPES])
    if not _room(words):
        return MORE
    clear(offset)
    own, order = ints_at(state[at.NODE_AT], state[at.NODES]), ints_in(state, at.ORDER)
    state[at.BATCHES] = _fill_types(own, order, offset, *schedule(words))
    return FINE


@entry
def critical(words: int) -> int:
    """Schedule as `Critical`, by path lengths."""
    state, ground = longs_at(words, at.WORDS), _ground(words, 6)
    n = state[at.NODES]
    if ground == 0:
        return MORE
    length, of_types = ints_at(state[at.LENGTH], n), _zeros(words, ground, 6)
    _critical(graph(words), length, int_table(ground, 2, n), of_types, recorded(words))
    return FINE


@entry
def machine(words: int) -> int:
    """Schedule by an FSM; OTHER where it meets a state that it has not seen in training."""
    state = longs_at(words, at.WORDS)
    n, types = state[at.NODES], state[at.TYPES]
    symbols, ground = spare(words, types + 2), _ground(words, 6)
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
        _zeros(words, ground, 6),
        symbols,
        recorded(words),
        ((none, none, none, none, none, none, none), (none, nothing, nothing, none)),
    )
    return FINE if found >= 0 else OTHER


@entry
def agenda(words: int) -> int:
    """Schedule as `Agenda`."""
    state = longs_at(words, at.WORDS)
    types, ends = state[at.TYPES], depths(words)
    sums, ground = take(words, 3 * types, 8), _ground(words, 3)
    if ends != FINE or ground == 0:
        return ends if ends != FINE else MORE
    clear(longs_at(sums, 3 * types))
    total, number = longs_at(sums, types), longs_at(sums + 8 * types, types)
    own, ptr, succ, _ = graph(words)
    _agenda(
        Edges(own, ptr, succ),
        _started(words, ground),
        ints_at(state[at.DEPTH], state[at.NODES]),
        state[at.STATIC] != 0,
        DepthSums(total, number, doubles_at(sums + 16 * types, types)),
        Batches(*recorded(words)),
    )
    return FINE


@entry
def scored(words: int) -> int:
    """Schedule as `Weight`, where batches are counted; `FREE`: by heights, too."""
    state, ground = longs_at(words, at.WORDS), _ground(words, 10)
    n, types = state[at.NODES], state[at.TYPES]
    free = types if state[at.FREE] != 0 else at.ZERO
    number, reals = spare(words, n + types if free > 0 else 0), take(words, 4 * types, 8)
    if ground == 0 or full(words):
        return MORE
    own, ptr, succ, _ = graph(words)
    frontier, rows = _started(words, ground), _zeros(words, ground, 10)
    weighed = double_table(reals, 4, types)
    clear(number)
    for t in range(types):  # batches are counted
        rows[3, t], weighed[0, t], weighed[2, t], weighed[3, t] = 1, 0.0, 1.0, 0.0
    weights = Weights(ints_at(state[at.LENGTH], n), weighed[0], weighed[1], rows[4])
    begin_weights(own, frontier, weights)
    below, height = ground + 8 * n + 20 * types, ints_at(state[at.HEIGHT], n if free > 0 else 0)
    first, top, ready = ints_at(below, free), ints_at(below + 4 * free, free), ints_at(below + 8 * free, free)
    seen, done = ints_at(below + 12 * free, free), ints_at(below + 16 * free, free)
    remaining = Remaining(height, first, number, top, ready, seen, done)
    if free > 0:
        begin_remaining(own, frontier, remaining)
    cost, batches = Cost(weighed[2], weighed[3], rows[3]), Batches(*recorded(words))
    _weight(Edges(own, ptr, succ), frontier, remaining, weights, cost, state[at.POWER], batches)
    return FINE


@entry
def sufficient(words: int) -> int:
    """Schedule as `Sufficient`."""
    state, ground, columns = longs_at(words, at.WORDS), _ground(words, 4), _columns(words)
    n = state[at.NODES]
    if ground == 0 or columns < 0:
        return MORE
    order, stack, depth, missing = spare(words, n), spare(words, n), spare(words, n), spare(words, n)
    found = take(words, columns * n, 4)
    if full(words):
        return MORE
    own, ptr, succ, indegree = graph(words)
    clear(depth)
    clear(ints_at(found, columns * n))
    for v in range(n):
        missing[v] = indegree[v]
    if _sort(ptr, succ, indegree, missing, order, depth, stack) < n:
        return WRONG
    edges, column = Edges(own, ptr, succ), ints_at(state[at.COLUMN], state[at.TYPES])
    sources, sizes = int_table(found, columns, n), _zeros(words, ground, 4)[3]
    _count_sources(edges, order, column, sources, sizes)
    held_back = HeldBack(column, sources, sizes, stack)
    _sufficient(edges, _started(words, ground), held_back, Batches(*recorded(words)))
    return FINE
