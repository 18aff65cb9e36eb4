"""The compiled part of construction: from a mini-batch's vertices to its nodes and operands.

Here the mini-batch's first vertex is BEFORE, those behind it count on: by `base` less than in the binding's
data. `space` has rows of an entry for each of them, and for NOWHERE and SEVERAL before. Row t begins with the
vertices of type t, its *candidates*. Another row may say where each of these leads; or be a *value map*, and
say what there is on each vertex: a reference, or MISSING, as on NOWHERE and SEVERAL. What stands for a
reduction's output is its *alias*: its node's, or where it reduces one value alone that value.

An example: positions 2, 3, 4 and between them arcs, vertices 5 (from 2 to 3), 6 (2 to 4) and 7 (3 to 4). Type
`arc` runs a cell on each arc, which reads `from.state`; type `state` is the sum over the arcs that lead to a
position, or zeros. `measure` finds the candidates, rows 5 6 7 and 2 3 4; and what each state reduces, NOWHERE
5 SEVERAL: so one state is a node, on vertex 4, of two operands. With one output a node references are its
number: the arcs are 0 1 2, the state is 3. `fill` makes the value map of the arcs, MISSING five times, then
0 1 2; the aliases of the states, zeros 0 3; the operands of the node, 1 2. Then FOLLOW leads the arcs along
`from` to the vertices 2 2 3, and FILL_NODES reads the states' value map there: zeros zeros 0 are what the
arcs read.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.jit.decorators import njit

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]

# In place of a vertex: there is none; there are two or more. How many such there are.
NOWHERE, SEVERAL, BEFORE = range(3)

# A reference that nothing has filled yet.
MISSING = -(2**31)

# `VIRTUAL - place`: what stands for a reduction's output, by its place in `alias`, is not known yet.
VIRTUAL = -(2**30)

# In place of the number of one of a link's edges: the first, and there must not be more.
ONLY = -(2**31)

FIELDS = 10
# Of each type: how many slots; of a reduction the first of its three rows, else -1; how many candidates,
# nodes, operands; which node, operand, place in `alias` is its first; how many candidates reduce nothing.
# Behind the last type, the first ones are how many there are in all. And of a loop of types, by its number,
# WAYS: whether its nodes read from vertices before their own (1), behind (2), or both.
SLOTS, ROWS, COUNT, NODES, OPERANDS, FIRST, AT, PLACES, NONE, WAYS = range(FIELDS)

WIDTH = 7
CLEAR, SETTLE, FOLLOW, ALIAS, WRITE = range(5)
# A step of `fill` is one of these operations, a type, and up to five arguments.
INTO, FILL_NODES, FILL_ROWS, FILL_CONSTANT, NEED, UNLESS_MISSING, SPREAD = range(5, 12)

# The entries of a row of `reductions`: see `measure`.
REDUCED_BY = 6

# Which argument of FILL_ROWS is the reference of row 0.
REFERENCE = 4

# What SETTLE settles: a cell's output; what stands for a reduction's; or that this is not known yet.
CELL, ALIASED, WAITING = range(3)


@njit
def measure(
    reductions: Ints,
    producers: Ints,
    tables: Longs,
    data: Ints,
    start: Longs,
    first: int,
    last: int,
    space: Ints,
    state: Longs,
) -> None:
    """Find the candidates of instances `first` to before `last`; number nodes, operands and places.

    A row of `reductions` is a type, its list, its loop or -1, which of `producers` have what it reduces (the
    first of them, and the first behind), and the first type that reduces what is on the same vertices along
    the same list, whose rows are its own, too. Its rows in `space` say what each candidate reduces (a vertex,
    NOWHERE or SEVERAL); on which vertices its nodes are; how much these reduce. `tables`, `data`: see
    `Binding`. `state` (types + 1, FIELDS) has SLOTS and ROWS, and is zero elsewhere.
    """
    base, types = start[first] - BEFORE, len(state) - 1
    for t in range(types):
        own, here = space[t], state[t]
        low, end = tables[t, 0], tables[t, 0] + tables[t, 1]
        high = end
        while low < high:
            middle = (low + high) >> 1
            if data[middle] < start[first]:
                low = middle + 1
            else:
                high = middle
        n, behind = 0, start[last]
        while low < end and data[low] < behind:
            own[n] = data[low] - base
            low += 1
            n += 1
        here[COUNT], here[NODES], here[OPERANDS] = n, n, n * here[SLOTS]
    for r in range(len(reductions)):
        t, members, loop = reductions[r, 0], reductions[r, 1], reductions[r, 2]
        own, here, like = space[t], state[t], state[reductions[r, 5]]
        here[PLACES] = here[COUNT]
        if reductions[r, 5] != t:
            here[NODES], here[NONE] = like[NODES], like[NONE]
            here[OPERANDS] = like[OPERANDS] // like[SLOTS] * here[SLOTS]
            continue
        row = here[ROWS]
        reduced, heads, sizes, present = space[row], space[row + 1], space[row + 2], space[row + 3]
        indptr, target = tables[members, 0] + base, tables[members, 1]
        for v in range(len(present)):
            present[v] = 0
        for p in range(reductions[r, 3], reductions[r, 4]):
            others = space[producers[p]]
            for i in range(state[producers[p], COUNT]):
                present[others[i]] = 1
        nodes, operands, none, before, behind = 0, 0, 0, 0, 0
        for i in range(here[COUNT]):
            v = own[i]
            count, only = 0, NOWHERE
            for e in range(data[indptr + v], data[indptr + v + 1]):
                u = data[target + e] - base
                there = present[u]
                count += there
                only = u if there else only
                before |= there & (u <= v)
                behind |= there & (u >= v)
            several = count >= 2
            reduced[i] = SEVERAL if several else only
            heads[nodes], sizes[nodes] = v, count  # written over unless it is a node
            nodes += several
            operands += count if several else 0
            none += count == 0
        here[NODES], here[OPERANDS], here[NONE] = nodes, operands * here[SLOTS], none
        if loop >= 0:
            state[loop, WAYS] |= before + 2 * behind
    nodes, operands, places = 0, 0, 0
    for t in range(types + 1):
        here = state[t]
        here[FIRST], here[AT] = nodes, operands
        nodes, operands = nodes + here[NODES], operands + here[OPERANDS]
        here[PLACES], places = places, places + here[PLACES]


@njit
def place(
    start: Longs,
    first: int,
    space: Ints,
    state: Longs,
    nodes: Ints,
    operand_ptr: Ints,
    alias: Ints,
    operand: Ints,
) -> None:
    """Write each node's type, vertex and instance to `nodes` (3, n), and where its operands end; all of what
    `fill` fills is MISSING.
    """
    for i in range(len(alias)):
        alias[i] = MISSING
    for i in range(len(operand)):
        operand[i] = MISSING
    node, end, base = 0, 0, start[first] - BEFORE
    types, vertices, instances = nodes[0], nodes[1], nodes[2]
    operand_ptr[0] = 0
    for t in range(len(state) - 1):
        slots, rows, count, k = state[t, SLOTS], state[t, ROWS], state[t, NODES], first
        own, sizes = space[rows + 1 if rows >= 0 else t], space[rows + 2]
        for i in range(count):
            types[node + i], vertices[node + i] = t, own[i] - BEFORE
        behind = start[k + 1] - base
        for i in range(count):
            while behind <= own[i]:
                k += 1
                behind = start[k + 1] - base
            instances[node + i] = k - first
        for i in range(count if rows < 0 else 0):
            operand_ptr[node + i + 1] = end + (i + 1) * slots
        for i in range(count if rows >= 0 else 0):
            operand_ptr[node + i + 1] = operand_ptr[node + i] + slots * sizes[i]
        node += count
        end = operand_ptr[node]


@njit
def fill(
    steps: Ints,
    step: int,
    end: int,
    tables: Longs,
    data: Ints,
    base: int,
    shift: int,
    space: Ints,
    state: Longs,
    alias: Ints,
    operand: Ints,
) -> tuple[int, int]:
    """Do the steps from `step` to before `end`, which find what stands for reductions' outputs, and operands.

    Output s of the i-th of all reductions' candidates has the place `i << shift | s` in `alias`. That and
    `operand` are MISSING at first. Returns the step that failed and the candidate it failed for, or (-1, -1).
    """
    unit = 1 << shift  # from a node's reference to that of the next one's same output
    out, at, stride, missing = operand, base, base, base  # the column being filled; what is missing of it
    while step < end:
        now = steps[step]
        do, t, a, b, c, d, e = now[0], now[1], now[2], now[3], now[4], now[5], now[6]
        here, own = state[t], space[t]
        n, rows = here[COUNT], here[ROWS]
        node, place = here[FIRST] << shift, here[PLACES] << shift
        if do == CLEAR:  # a: value_map
            value_map = space[a]
            for v in range(len(value_map)):
                value_map[v] = MISSING
        elif do == SETTLE:  # a: value_map, b: output, c: what
            value_map, further = space[a], unit if c == CELL else -unit
            found = node + b if c == CELL else VIRTUAL - place - b
            for i in range(n):
                value_map[own[i]] = alias[place + b] if c == ALIASED else found
                found += further
                place += unit
        elif do == FOLLOW:  # a: row, b: link, c: number of the edge, d: row to write, e: loop or -1
            where, there = space[a], space[d]
            indptr, target = tables[b, 0] + base, tables[b, 1] + base
            if tables[b, 0] < 0:
                for i in range(n):
                    u = data[target + max(where[i], BEFORE)] - base
                    there[i] = u if where[i] >= BEFORE and u >= BEFORE else NOWHERE
            else:
                for i in range(n):
                    u, v = NOWHERE, where[i]
                    if v >= BEFORE:
                        low, high = data[indptr + v], data[indptr + v + 1]
                        edge = low
                        if c != ONLY:
                            edge = low + c if c >= 0 else high + c
                        elif high - low > 1:
                            return step, i
                        if low <= edge < high:
                            u = data[target + edge - base] - base
                    there[i] = u
            if e >= 0:
                before, behind = 0, 0
                for i in range(n):
                    before |= (there[i] >= BEFORE) & (there[i] <= own[i])
                    behind |= there[i] >= own[i]
                state[e, WAYS] |= before + 2 * behind
        elif do == ALIAS:  # a: slot, b: value_map, c: what to add; d: what one value and none give, or 0
            reduced, value_map = space[rows], space[b]
            for i in range(n):
                several = reduced[i] == SEVERAL
                found = value_map[reduced[i]] if d == 0 else d
                found += c if found != MISSING else 0
                alias[place + a] = node + a if several else found
                node += unit if several else 0
                place += unit
        elif do == WRITE:  # a: slot, b: value_map, c: list, d: what to add
            heads, sizes, value_map = space[rows + 1], space[rows + 2], space[b]
            indptr, target = tables[c, 0] + base, tables[c, 1]
            begin, slots = here[AT], here[SLOTS]
            for i in range(here[NODES]):
                v, run = heads[i], begin + a * sizes[i]
                begin += slots * sizes[i]
                for edge in range(data[indptr + v], data[indptr + v + 1]):
                    found = value_map[data[target + edge] - base]
                    if found != MISSING:
                        operand[run] = found + d
                        run += 1
        elif do == SPREAD:  # a: slot, b: row
            reduced, sizes, each = space[rows], space[rows + 2], space[b]
            run, slots, many = here[AT], here[SLOTS], 0
            for i in range(n):
                if reduced[i] == SEVERAL:
                    size = sizes[many]
                    for k in range(run + a * size, run + (a + 1) * size):
                        operand[k] = each[i]
                    run += slots * size
                    many += 1
        elif do == INTO:  # a: slot, b: row to write instead, or 0
            if b > 0:
                out, at, stride, missing = space[b], 0, 1, n
                for i in range(n):
                    out[i] = MISSING
            elif rows >= 0:
                out, at, stride, missing = alias, place + a, unit, here[NONE]
            else:
                out, at, stride, missing = operand, here[AT] + a, here[SLOTS], n
        elif do in (FILL_NODES, FILL_ROWS, FILL_CONSTANT):
            # a: row, b: value_map, lookup or reference; of a value_map, c: what to add; of a lookup, c: the
            # first reference, d: how many rows
            where = space[a]
            missing, to = 0, at
            if do == FILL_NODES:
                value_map = space[b]
                for i in range(n):
                    if out[to] == MISSING:
                        found = value_map[where[i]]
                        out[to] = found + c if found != MISSING else MISSING
                        missing += found == MISSING
                    to += stride
            elif do == FILL_ROWS:
                ids, rows = tables[b, 0] + base, tables[b, 1]
                for i in range(n):
                    if out[to] == MISSING:
                        v = where[i]
                        row = data[ids + v] if v >= BEFORE else -1
                        if row >= 0:
                            # unsigned: the machine's division of those is several times faster
                            row = data[rows + row] if rows >= 0 else np.int64(np.uint32(row) % np.uint32(d))
                        out[to] = c - row if row >= 0 else MISSING
                        missing += row < 0
                    to += stride
            else:
                for _ in range(n):
                    if out[to] == MISSING:
                        out[to] = b
                    to += stride
        elif do == NEED:
            candidate = 0
            while out[at + candidate * stride] != MISSING:
                candidate += 1
            return step, candidate
        elif missing == 0:  # UNLESS_MISSING, a: steps to pass over
            step += a
        step += 1
    return -1, -1


@njit
def chase(alias: Ints) -> bool:
    """Replace what stands for something by what stands for that, to the end; False where that is a circle."""
    for i in range(len(alias)):
        found, steps = alias[i], 0
        while MISSING < found <= VIRTUAL:
            found = alias[VIRTUAL - found]
            steps += 1
            if steps > len(alias):
                return False
        passed = i
        while MISSING < alias[passed] <= VIRTUAL:  # stands for the end, too: no way is gone twice
            onwards = VIRTUAL - alias[passed]
            alias[passed], passed = found, onwards
    return True
