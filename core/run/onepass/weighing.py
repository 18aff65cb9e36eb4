"""The stages of rules by heights, by weights of nodes, or by free types."""

from __future__ import annotations

from abw.core.graph.bounds import BLOCK, _chains, _sort, _tallest, _type_reach
from abw.core.jit.addresses import (
    bool_table,
    doubles_at,
    int_table,
    ints_at,
    longs_at,
)
from abw.core.jit.decorators import entry, fragment
from abw.core.policy.cost import Cost
from abw.core.policy.rules.frontier import Batches, Edges
from abw.core.policy.rules.remaining import Remaining, _count, _note_ready
from abw.core.policy.rules.sufficient import HeldBack, _count_sources, _sufficient
from abw.core.policy.rules.weight import LEAST_WEIGHT, Weights, _weigh, _weight
from abw.core.run.onepass import state as at
from abw.core.run.onepass.schedule import graph, recorded, room_for_schedule, started
from abw.core.run.onepass.state import FINE, MORE, OTHER, WRONG, full, take


@fragment
def _columns(words: int) -> int:
    """Number the types whose nodes can wait for others of them, at `COLUMN`; how many, -1 without room."""
    state = longs_at(words, at.WORDS)
    n, types = state[at.NODES], state[at.TYPES]
    state[at.COLUMN], found, count = take(words, types, 4), take(words, types * types, 1), 0
    if full(words):
        return -1
    reach, column = bool_table(found, types, types), ints_at(state[at.COLUMN], types)
    for t in range(types):
        for other in range(types):
            reach[t, other] = False
    ptr, succ = ints_at(state[at.SUCC_PTR], n + 1), ints_at(state[at.SUCC], state[at.EDGES])
    _type_reach(ints_at(state[at.NODE_AT], n), ptr, succ, reach)
    for t in range(types):
        column[t] = count if reach[t, t] else -1
        count += reach[t, t]
    return count


@entry
def heights(words: int) -> int:
    """Find path lengths and heights, as `bounds.chains`; OTHER with more than BLOCK recurrent types."""
    state = longs_at(words, at.WORDS)
    n, columns = state[at.NODES], _columns(words)
    if columns < 0:
        return MORE
    if columns > BLOCK:
        return OTHER
    state[at.LENGTH], state[at.HEIGHT] = take(words, n, 4), take(words, n, 4)
    way, resume, found = take(words, n, 4), take(words, n, 4), take(words, n * columns, 4)
    if full(words):
        return MORE
    length, height = ints_at(state[at.LENGTH], n), ints_at(state[at.HEIGHT], n)
    above = ints_at(found, n * columns)
    for v in range(n):
        length[v], height[v] = 0, 1
    for i in range(len(above)):
        above[i] = 0
    met = _chains(
        *graph(words),
        ints_at(state[at.COLUMN], state[at.TYPES]),
        ints_at(way, n),
        ints_at(resume, n),
        int_table(found, n, columns),
        length,
        height,
    )
    return FINE if met == n else WRONG


# Where the ground of a rule has its parts, in numbers of 32 bits behind the frontier's (2, n): of types its
# head, tail and end; what was seen of the queue by three; what remains by top and ready; where numbers by
# height begin; sizes of frontiers; tiles.
_HEAD, _TAIL, _END, _SEEN, _LOOKED, _DONE, _TOP, _READY, _FIRST, _SIZE, _TILE, _OF_TYPE = range(12)
# And in numbers of 64 bits: weights that are ready and left, what a launch and a row cost.
_WEIGHT, _LEFT, _LAUNCH, _ROW, _OF_TYPE_DOUBLES = range(5)


@fragment
def _ground(words: int) -> int:
    """Room for what rules keep, zeros but for the frontier, and for a schedule; 0 without room."""
    state = longs_at(words, at.WORDS)
    n, types = state[at.NODES], state[at.TYPES]
    small = 2 * n + _OF_TYPE * types
    found, state[at.DOUBLES] = take(words, small, 4), take(words, _OF_TYPE_DOUBLES * types, 8)
    if not room_for_schedule(words):
        return 0
    numbers = ints_at(found + 8 * n, small - 2 * n)
    doubles = doubles_at(state[at.DOUBLES], _OF_TYPE_DOUBLES * types)
    for i in range(len(numbers)):
        numbers[i] = 0
    for i in range(len(doubles)):
        doubles[i] = 0.0
    tile = ints_at(found + 8 * n + 4 * _TILE * types, types)
    launch, left = (
        doubles_at(state[at.DOUBLES] + 8 * _LAUNCH * types, types),
        doubles_at(state[at.DOUBLES] + 8 * _LEFT * types, types),
    )
    for t in range(types):  # batches are counted
        tile[t], launch[t], left[t] = 1, 1.0, LEAST_WEIGHT
    return found


@entry
def scored(words: int) -> int:
    """Schedule as `Weight`, where batches are counted; `FREE`: by heights, too."""
    state = longs_at(words, at.WORDS)
    n, types, ground = state[at.NODES], state[at.TYPES], _ground(words)
    if ground == 0:
        return MORE
    below, step, doubles, many = ground + 8 * n, 4 * types, state[at.DOUBLES], 8 * types
    free = types if state[at.FREE] != 0 else at.ZERO
    own, ptr, succ, _ = graph(words)
    height, top = ints_at(state[at.HEIGHT], n if free > 0 else 0), ints_at(below + step * _TOP, free)
    frontier = started(words, ground)
    first, numbers = ints_at(below + step * _FIRST, free), 0
    if free > 0:
        _tallest(own, height, top)
    for t in range(free):
        first[t] = numbers
        numbers += top[t] + 1
    place = take(words, numbers, 4)
    if full(words):
        return MORE
    number = ints_at(place, numbers)
    for i in range(numbers):
        number[i] = 0
    remaining = Remaining(
        height,
        first,
        number,
        top,
        ints_at(below + step * _READY, free),
        ints_at(below + step * _LOOKED, free),
        ints_at(below + step * _DONE, free),
    )
    seen, length = ints_at(below + step * _SEEN, types), ints_at(state[at.LENGTH], n)
    for t in range(types):
        seen[t] = frontier.head[t]
    for t in range(free):
        remaining.seen[t] = remaining.done[t] = frontier.head[t]
    if free > 0:
        _count(own, height, first, number)
        _note_ready(frontier, remaining)
    cost = Cost(
        doubles_at(doubles + many * _LAUNCH, types),
        doubles_at(doubles + many * _ROW, types),
        ints_at(below + step * _TILE, types),
    )
    left = doubles_at(doubles + many * _LEFT, types)
    _weigh(own, length, left)
    weights = Weights(length, doubles_at(doubles + many * _WEIGHT, types), left, seen)
    batches = Batches(*recorded(words))
    _weight(Edges(own, ptr, succ), frontier, remaining, weights, cost, state[at.POWER], batches)
    return FINE


@entry
def sufficient(words: int) -> int:
    """Schedule as `Sufficient`."""
    state = longs_at(words, at.WORDS)
    n, types, ground, columns = state[at.NODES], state[at.TYPES], _ground(words), _columns(words)
    if ground == 0 or columns < 0:
        return MORE
    found, order, stack = take(words, columns * n, 4), take(words, n, 4), take(words, n, 4)
    depth, missing = take(words, n, 4), take(words, n, 4)
    if full(words):
        return MORE
    own, ptr, succ, indegree = graph(words)
    edges, column = Edges(own, ptr, succ), ints_at(state[at.COLUMN], types)
    frontier = started(words, ground)
    deep, left, flat = ints_at(depth, n), ints_at(missing, n), ints_at(found, columns * n)
    for v in range(n):
        deep[v], left[v] = 0, indegree[v]
    for i in range(len(flat)):
        flat[i] = 0
    if _sort(ptr, succ, indegree, left, ints_at(order, n), deep, ints_at(stack, n)) < n:
        return WRONG
    sources = int_table(found, columns, n)
    sizes = ints_at(ground + 8 * n + 4 * _SIZE * types, types)
    _count_sources(edges, ints_at(order, n), column, sources, sizes)
    held = HeldBack(column, sources, sizes, ints_at(stack, n))
    _sufficient(edges, frontier, held, Batches(*recorded(words)))
    return FINE
