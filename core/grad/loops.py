"""The compiled loops behind `training_graph`."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from abw.core.grad import program as by
from abw.core.ir.network import LISTED
from abw.core.jit.decorators import inner, njit

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Bools = NDArray[np.bool_]

# Of the forward graph: `type_ptr`, `operand_ptr`, `operand`.
Given = tuple[Ints, Ints, Ints]
# Of the parts that have a node for each value read: `groups` and `group` as `Program` has them; of each value
# (G, values) the node's number from 1 on, 0 where nothing reads it, how many edges do, and in the order of
# numbers the values; the number of nodes of computed values, and of all (G, 2): behind them is one for each
# edge that reads a constant.
Groups = tuple[Ints, Ints, Ints, Ints, Ints, Ints]


@inner
def _links(operand_ptr: Ints, v: int, slots: int) -> np.int64:
    """How many neighbours a reduction's node has, of each slot."""
    # unsigned: the machine's division of those is several times faster
    return np.int64(np.uint32(operand_ptr[v + 1] - operand_ptr[v]) // np.uint32(slots))


@njit
def readers(graph: Given, slots: Ints, source: Ints, groups: Groups) -> None:
    """Number the values that each group's slot reads as they are met, and count who reads them."""
    type_ptr, operand_ptr, operand = graph
    kinds, _, number, count, values, ends = groups
    for g in range(len(kinds)):
        t, s = source[kinds[g, 0] - len(slots)], np.int64(kinds[g, 1])
        constants, made = 0, 0
        for v in range(type_ptr[t], type_ptr[t + 1]):
            links = _links(operand_ptr, v, slots[t])
            for reference in operand[operand_ptr[v] + s * links : operand_ptr[v] + (s + 1) * links]:
                if reference < 0:
                    constants += 1
                    continue
                if count[g, reference] == 0:
                    values[g, made] = reference
                    made += 1
                    number[g, reference] = made
                count[g, reference] += 1
        ends[g, 0], ends[g, 1] = made, made + constants


@njit
def sizes(
    graph: Given,
    slots: Ints,
    parts: tuple[Ints, Bools, Bools, Ints],
    lists: Ints,
    groups: Groups,
    first: Ints,
) -> tuple[int, int, int]:
    """Number the nodes of all types but those that sum, which get `first` of the first of them.

    The result: how many lists of edges there are, how many members these have, and how many operands all
    nodes have.
    """
    type_ptr, operand_ptr, _ = graph
    source, edge, reduction, read_ptr = parts
    types = len(slots)
    for t in range(types + 1):
        first[t] = type_ptr[t]
    several, more, size = np.int64(0), np.int64(0), np.int64(operand_ptr[type_ptr[types]])
    for p in range(len(source)):
        t = source[p]
        here = np.int64(type_ptr[t + 1] - type_ptr[t])
        operands = operand_ptr[type_ptr[t + 1]] - operand_ptr[type_ptr[t]]
        along = np.int64(operands // max(slots[t], 1))
        several += lists[p] * here
        more += lists[p] * along
        made = along if edge[p] else here
        if groups[1][p] >= 0:
            made = np.int64(groups[5][groups[1][p], 1])
        size += (along if reduction[p] else made) * (read_ptr[p + 1] - read_ptr[p])
        first[types + p + 1] = first[types + p] + made
    for q in range(types + len(source) + 1, len(first)):
        first[q] = first[q - 1]
    return int(several), int(more), int(size)


@njit
def flow(
    graph: Given,
    slots: tuple[Ints, Bools, Ints],
    groups: Groups,
    first: Ints,
    results: tuple[Ints, Ints],
    shifts: tuple[int, int],
    found: tuple[Ints, Ints, Ints, Ints],
    writing: bool,
) -> tuple[int, int]:
    """Count what flows into the gradient of each value, or write it; how much it is, and into constants'.

    `found`: `ptr`, `members`, and of constants their references and what flows into them. Of the value v it
    begins at `ptr[v + 1]` once it is counted, and at `ptr[v]` once it is written. From a sum's own gradient
    flows LISTED less the value that it is of.
    """
    type_ptr, operand_ptr, operand = graph
    slots_of, reduces, gives = slots
    shift, wide = shifts
    ptr = found[0]
    constants = 0
    for i in range(len(results[0])):
        constants = _into(results[0][i], results[1][i], found, constants, writing)
    for t in range(len(slots_of)):
        for s in range(slots_of[t]):
            who = gives[t, s, 0]
            if who == by.NONE:
                continue
            base, edge = (np.int64(first[gives[t, s, 1]]) << wide) + gives[t, s, 2], np.int64(0)
            if who == by.ONCE or (who == by.NODE and not reduces[t]):
                for v in range(type_ptr[t], type_ptr[t + 1]):
                    value = base + ((v - type_ptr[t]) << wide)
                    k = operand_ptr[v] + s * (_links(operand_ptr, v, slots_of[t]) if reduces[t] else 1)
                    constants = _into(operand[k], value, found, constants, writing)
                continue
            if who == by.VALUE:
                g = groups[1][gives[t, s, 1] - len(slots_of)]
                for i in range(groups[5][g, 0]):
                    own = base + (np.int64(i) << wide)
                    constants = _into(groups[4][g, i], own, found, constants, writing)
                edge = np.int64(groups[5][g, 0])
            for v in range(type_ptr[t], type_ptr[t + 1]):
                begin, links = operand_ptr[v] + s, np.int64(1)
                if reduces[t]:
                    links = _links(operand_ptr, v, slots_of[t])
                    begin = operand_ptr[v] + s * links
                for e in range(begin, begin + links):
                    if who == by.NODE:
                        value = base + ((v - type_ptr[t]) << wide)
                    elif who == by.VALUE and operand[e] >= 0:
                        continue
                    elif who in (by.EDGE, by.VALUE):
                        value = base + (edge << wide)
                    else:
                        value = np.int64(LISTED) - ((v << shift) + s)
                    edge += 1
                    constants = _into(operand[e], value, found, constants, writing)
    if not writing:
        for v in range(len(ptr) - 2):
            ptr[v + 2] += ptr[v + 1]
    return ptr[len(ptr) - 1], constants


@inner
def _into(
    reference: int, value: int, found: tuple[Ints, Ints, Ints, Ints], constants: int, writing: bool
) -> int:
    """Note that a value flows into the gradient of what a reference means; how many flow into constants'."""
    ptr, members, constant, gradient = found
    if reference < 0:
        if writing:
            constant[constants], gradient[constants] = reference, value
        return constants + 1
    if writing:
        members[ptr[reference + 1]] = value
        ptr[reference + 1] += 1
    else:
        ptr[reference + 2] += 1
    return constants


@njit
def sums(
    graph: Given,
    sums: Ints,
    shifts: tuple[int, int],
    first: Ints,
    ptr: Ints,
    flowing: tuple[Ints, Ints],
    made: tuple[Ints, Ints],
) -> int:
    """Number the nodes that sum, of type q from `first[q]` on: of the values that several read.

    `flowing`: what flows into gradients of values and of constants; what sums pass on is put in their place.
    `made`: of each value its node, and where its gradient is. The result is how many values they sum.
    """
    type_ptr, (sum_node, held), members = graph[0], made, flowing[0]
    shift, wide = shifts
    total, node = 0, np.int64(first[0])
    for q in range(len(sums)):
        for v in range(type_ptr[sums[q, 0]], type_ptr[sums[q, 0] + 1]):
            value = (v << shift) + sums[q, 1]
            count = ptr[value + 1] - ptr[value]
            if count > 1:
                sum_node[value] = node
                held[value] = node << wide
                total += count
                node += 1
            else:
                held[value] = members[ptr[value]] if count else sums[q, 2]
        first[q + 1] = node
    # one that a single sum reads passes on what that has
    for q in range(len(sums)):
        for v in range(type_ptr[sums[q, 0]], type_ptr[sums[q, 0] + 1]):
            last = (v << shift) + sums[q, 1]
            while held[last] <= LISTED:
                last = LISTED - held[last]
            value = (v << shift) + sums[q, 1]
            while held[value] <= LISTED:
                behind = LISTED - held[value]
                held[value] = held[last]
                value = behind
    for references in flowing:
        for i in range(len(references)):
            if references[i] <= LISTED:
                references[i] = held[LISTED - references[i]]
    return total


@inner
def _wide(reference: int, shift: int, wide: int) -> int:
    if reference < 0:
        return reference
    return ((reference >> shift) << wide) + (reference & ((1 << shift) - 1))


@njit
def widen(references: Ints, shift: int, wide: int, found: Ints) -> None:
    """Write references of the forward network as those of the training network."""
    for i in range(len(references)):
        found[i] = _wide(references[i], shift, wide)


@njit
def parts(
    graph: Given,
    slots: tuple[Ints, Bools],
    parts: tuple[Ints, Bools, Bools, Ints],
    groups: Groups,
    reads: Longs,
    first: Ints,
    shifts: tuple[int, int],
    lists: tuple[Ints, Ints],
    ends: tuple[int, int],
    origin: Ints,
    operand_ptr: Ints,
    operand: Ints,
) -> None:
    """Fill the nodes of all parts, and the lists of edges that some of them sum.

    `ends`: the number of the first such list, and of its first member.
    """
    type_ptr, given_ptr, given = graph
    source, edge, reduction, read_ptr = parts
    slots_of, reduces = slots
    shift, wide = shifts
    ptr, members = lists
    fresh, filled = ends
    types = len(slots_of)
    at = operand_ptr[type_ptr[types]]
    for p in range(len(source)):
        t = source[p]
        begin, count, here = type_ptr[t], read_ptr[p + 1] - read_ptr[p], first[types + p]
        row, each = 0, slots_of[t] if reduces[t] else 0
        if reduction[p]:
            own = reads[read_ptr[p] : read_ptr[p + 1]]
            of = begin, type_ptr[t + 1], each, groups[1][p]
            _sums(graph, of, groups, own, first, (types + p, here), shifts, origin, operand_ptr, operand)
            at = operand_ptr[first[types + p + 1]]
            continue
        for v in range(begin, type_ptr[t + 1]):
            links = _links(given_ptr, v, slots_of[t]) if edge[p] else np.int64(1)
            for _ in range(links):
                origin[0, here + row] = types + p
                origin[1, here + row], origin[2, here + row] = origin[1, v], origin[2, v]
                row += 1
        for r in range(read_ptr[p], read_ptr[p + 1]):
            kind, a, place = reads[r, 0], reads[r, 1], at + r - read_ptr[p]
            base = reads[r, 3]
            if reads[r, 2] >= 0:
                base += np.int64(first[reads[r, 2]]) << wide
            if kind == by.GRADIENT or (not edge[p] and kind in (by.OPERAND, by.OUTPUT)):
                many = range(begin, type_ptr[t + 1])
                _of_nodes(kind, a, base, each, graph, many, shifts, lists, place, count, operand)
                continue
            row = 0
            for v in range(begin, type_ptr[t + 1]):
                links = _links(given_ptr, v, slots_of[t])
                if kind == by.COUNT:
                    operand[place] = base - links
                    place += count
                elif kind == by.HOLDER and not edge[p]:
                    operand[place] = base + ((v - begin) << wide)
                    place += count
                elif kind == by.EDGES:
                    operand[place] = LISTED - fresh
                    place += count
                    for _ in range(links):
                        members[filled] = base + (row << wide)
                        filled += 1
                        row += 1
                    fresh += 1
                    ptr[fresh] = filled
                else:
                    for j in range(links):
                        if kind == by.OPERAND:
                            reference = _wide(given[given_ptr[v] + a * links + j], shift, wide)
                        elif kind == by.OUTPUT:
                            reference = (v << wide) + a
                        elif kind == by.OWN:
                            reference = base + (row << wide)
                        else:
                            reference = base + ((v - begin) << wide)
                        operand[place] = reference
                        place += count
                        row += 1
        for i in range(first[types + p + 1] - here):
            at += count
            operand_ptr[here + i + 1] = at


@inner
def _sums(
    graph: Given,
    of: tuple[int, int, int, int],
    groups: Groups,
    reads: Longs,
    first: Ints,
    made: tuple[int, int],
    shifts: tuple[int, int],
    origin: Ints,
    operand_ptr: Ints,
    operand: Ints,
) -> None:
    """Fill the nodes of a part that sums over edges, which are of type `made[0]`, from number `made[1]` on.

    `of`: the first node of its forward type, the end of these, how many slots they have, and its group.
    """
    _, given_ptr, given = graph
    kinds, _, number, count, values, ends = groups
    begin, end, slots, g = of
    kind, here = made
    shift, wide = shifts
    several = len(reads)
    if g < 0:
        for v in range(begin, end):
            links = _links(given_ptr, v, slots)
            operand_ptr[here + v - begin + 1] = operand_ptr[here + v - begin] + several * links
    else:
        for i in range(ends[g, 0]):
            operand_ptr[here + i + 1] = operand_ptr[here + i] + several * count[g, values[g, i]]
        for node in range(here + ends[g, 0], here + ends[g, 1]):
            operand_ptr[node + 1] = operand_ptr[node] + several
    fresh = here + (ends[g, 0] if g >= 0 else 0)
    for v in range(begin, end):
        links = _links(given_ptr, v, slots)
        if g < 0:
            node = here + v - begin
            origin[0, node], origin[1, node], origin[2, node] = kind, origin[1, v], origin[2, v]
            for r in range(several):
                at, low = operand_ptr[node] + r * links, given_ptr[v] + reads[r, 1] * links
                if reads[r, 0] == by.OPERAND:
                    for j in range(links):
                        operand[at + j] = _wide(given[low + j], shift, wide)
                else:
                    own = np.int64(first[reads[r, 2]] + v - begin) << wide
                    operand[at : at + links] = own + reads[r, 3]
            continue
        for j in range(links):
            node, place, length, who = fresh, np.int64(0), np.int64(1), v
            reference = given[given_ptr[v] + kinds[g, 1] * links + j]
            if reference < 0:
                fresh += 1
            else:
                node, who = here + number[g, reference] - 1, reference >> shift
                length = _links(operand_ptr, node, several)
                place = length - count[g, reference]
                count[g, reference] -= 1
            origin[0, node], origin[1, node], origin[2, node] = kind, origin[1, who], origin[2, who]
            at = operand_ptr[node] + place
            for r in range(several):
                if reads[r, 0] == by.OPERAND:
                    value = _wide(given[given_ptr[v] + reads[r, 1] * links + j], shift, wide)
                else:
                    value = (np.int64(first[reads[r, 2]] + v - begin) << wide) + reads[r, 3]
                operand[at] = value
                at += length


@inner
def _of_nodes(
    kind: int,
    a: int,
    none: int,
    slots: int,
    graph: Given,
    nodes: range,
    shifts: tuple[int, int],
    lists: tuple[Ints, Ints],
    place: int,
    step: int,
    operand: Ints,
) -> None:
    """Write what is read of each node itself to each `step`-th place: an operand, an output, a gradient.

    `slots`: of a reduction, whose first operands of each slot are read; else 0.
    """
    given_ptr, given = graph[1], graph[2]
    shift, wide = shifts
    ptr, members = lists
    for v in nodes:
        if kind == by.OPERAND:
            k = given_ptr[v] + a * (_links(given_ptr, v, slots) if slots else 1)
            reference = _wide(given[k], shift, wide)
        elif kind == by.OUTPUT:
            reference = (v << wide) + a
        else:
            value = (v << shift) + a
            begin, found = ptr[value], ptr[value + 1] - ptr[value]
            reference = LISTED - value if found > 1 else (members[begin] if found else none)
        operand[place] = reference
        place += step


@njit
def sum_operands(
    sum_node: Ints,
    ptr: Ints,
    members: Ints,
    shift: int,
    first: Ints,
    sums: int,
    origin: Ints,
    operand_ptr: Ints,
    operand: Ints,
) -> None:
    """Fill the nodes that sum, of the types `sums` and on: they are numbered by type, then by value."""
    for value in range(len(sum_node)):
        if sum_node[value] >= 0:
            operand_ptr[sum_node[value] + 1] = ptr[value + 1] - ptr[value]
    for t in range(sums, len(first) - 1):
        for v in range(first[t], first[t + 1]):
            operand_ptr[v + 1] += operand_ptr[v]
            origin[0, v] = t
    for value in range(len(sum_node)):
        node = sum_node[value]
        if node >= 0:
            origin[1, node], origin[2, node] = origin[1, value >> shift], origin[2, value >> shift]
            for j in range(ptr[value + 1] - ptr[value]):
                operand[operand_ptr[node] + j] = members[ptr[value] + j]
