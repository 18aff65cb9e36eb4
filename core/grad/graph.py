"""The training graph of a mini-batch: the forward graph, and behind its nodes those of the backward pass.

The gradient of a value is the sum over all that read it: a list, as a cell reads a reduction in place. Values
and their readers are found by counting, so a list is in the order of the readers' numbers, whatever the
schedule was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from abw.core.base.jit import inner, njit
from abw.core.grad.network import Training
from abw.core.grad.program import (
    COUNT,
    EDGE,
    EDGES,
    GRADIENT,
    HOLDER,
    NODE,
    NONE,
    OPERAND,
    OUTPUT,
    OWN,
    program_of,
)
from abw.core.graph.dag import Dag, Successors, build_dag
from abw.core.graph.fuse import edges
from abw.core.graph.graph import Graph, ResultRefs
from abw.core.ir.network import LISTED

Ints = NDArray[np.int32]
Longs = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class TrainingGraph:
    """A mini-batch's graph with its backward pass.

    Nodes 0 to `forward` - 1 are those of the forward graph, by the same numbers. `sum_node` has the node that
    sums the gradient of each forward value (node * source width + output), -1 where none does. What flows
    into constants' gradients: addends `constant_gradient` (references) by the constants' references
    `constant`, in the order of the readers.
    """

    training: Training
    graph: Graph
    forward: int
    sum_node: Ints
    constant: Ints
    constant_gradient: Ints


def training_graph(training: Training, graph: Graph, gradients: Mapping[str, Floats]) -> TrainingGraph:
    """The training graph of a mini-batch of `training.source`.

    `gradients`: for each output with a loss its gradient (m, *shape) by the values that the model gives back
    (`Graph.results`), in single precision; the graph has these very arrays. Raises ValueError for other
    shapes. Cost: linear in nodes and operands.
    """
    source, network, program = training.source, training.network, program_of(training)
    results, given = _given(training, graph, gradients)
    types, parts = len(source.types), len(program.source)
    shift, wide = source.width.bit_length() - 1, network.width.bit_length() - 1
    values = len(graph) << shift

    counts = graph.type_sizes.astype(np.int64)
    ends = graph.operand_ptr[graph.type_ptr].astype(np.int64)
    operands = ends[1:] - ends[:-1]
    links = operands // np.maximum(program.slots, 1)
    here, along = counts[program.source], links[program.source]
    of_parts = np.where(program.edge, along, here)
    sizes = np.concatenate([counts, of_parts, np.zeros(len(program.sums), np.int64)])
    first = _offsets(sizes)
    lists, more = int(program.lists @ here), int(program.lists @ along)

    ptr = np.zeros(values + lists + 2, np.int32)
    forward = graph.type_ptr, graph.operand_ptr, graph.operand
    constants = _count(forward, program.slots, program.reduces, program.gives, results[0], ptr)
    np.cumsum(ptr[: values + 2], out=ptr[: values + 2])
    total = int(ptr[values + 1])
    members = np.empty(total + more, np.int32)
    of_constants = np.empty(constants, np.int32), np.empty(constants, np.int32)
    base = (first[program.gives[:, :, 1]] << wide) + program.gives[:, :, 2]
    _scatter(
        forward, program.slots, program.reduces, program.gives, base, results, (shift, wide),
        ptr, members, of_constants,
    )  # fmt: skip

    sum_node = np.empty(0, np.int32)
    summed = 0
    if len(program.sums):
        sum_node, held = np.full(values, -1, np.int32), np.empty(values, np.int32)
        own = sizes[types + parts :]
        summed = _sums(
            graph.type_ptr, program.sums, (shift, wide), int(first[types + parts]), ptr, members[:total],
            (sum_node, held, own),
        )  # fmt: skip
        for references in (members[:total], of_constants[1]):
            _resolve(references, held)
        first = _offsets(sizes)

    width = program.read_ptr[1:] - program.read_ptr[:-1]
    size = int(ends[-1]) + int(np.where(program.reduction, along, of_parts * width).sum()) + summed
    nodes = int(first[-1])
    type_ptr = first.astype(np.int32)
    operand_ptr, operand = np.zeros(nodes + 1, np.int32), np.empty(size, np.int32)
    whose = np.empty((2, nodes), np.int32)
    reads = program.reads.copy()
    reads[program.of_parts, 3] += first[reads[program.of_parts, 2]] << wide
    _forward(graph.operand_ptr, graph.operand, (shift, wide), operand_ptr, operand)
    whose[:, : len(graph)] = graph.vertex, graph.instance
    _parts(
        (*forward, whose), program.slots, (program.source, program.edge, program.reduction, program.read_ptr),
        reads, type_ptr[types:], (shift, wide), (ptr, members), (values, total), operand_ptr, operand,
    )  # fmt: skip
    if len(program.sums):
        _sum_operands(sum_node, ptr, members, shift, whose, operand_ptr, operand)
    names = tuple(t.name for t in network.types)
    type_of = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    list_ptr = ptr[: values + lists + 1]

    def find() -> Successors:
        source, target = edges(operand_ptr, operand, list_ptr, members, network.width)
        return build_dag(names, type_of, source, target).edges

    made = Graph(
        network, type_ptr, whose[0], whose[1],
        tuple(replace(r, reference=_widened(r.reference, shift, wide)) for r in graph.results),
        graph.instances, Dag(names, type_of, find), operand_ptr, operand, list_ptr, members, given,
    )  # fmt: skip
    return TrainingGraph(training, made, len(graph), sum_node, *of_constants)


def _offsets(sizes: Longs) -> Longs:
    """Where each of these begins, and the end."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def _given(
    training: Training, graph: Graph, gradients: Mapping[str, Floats]
) -> tuple[tuple[Ints, Ints], tuple[Floats, ...]]:
    """The results that have gradients and the references of these; the rows of all fields."""
    network = training.network
    found: dict[str, ResultRefs] = {r.name: r for r in graph.results}
    reads, rows, given = [np.zeros(0, np.int32)], [np.zeros(0, np.int32)], list(graph.given)
    for name, number in training.losses.items():
        reference, constant = found[name].reference, network.constants[number]
        values = gradients[name]
        if values.shape != (len(reference), *constant.shape) or values.dtype != np.float32:
            message = f"the gradient of {name} is {values.dtype} {values.shape}"
            raise ValueError(f"{message}, not float32 {(len(reference), *constant.shape)}")
        reads.append(reference)
        rows.append((-1 - constant.first - np.arange(len(reference))).astype(np.int32))
        given.append(values)
    means = [t for t, made in enumerate(training.source.types) if made.reduction == "mean"]
    runs = [np.diff(graph.operand_ptr[slice(graph.type_ptr[t], graph.type_ptr[t + 1] + 1)]) for t in means]
    longest = max((int(run.max(initial=0)) for run in runs), default=0)
    given.append(np.arange(longest + 1, dtype=np.float32)[:, None])
    return (np.concatenate(reads), np.concatenate(rows)), tuple(given)


@njit
def _count(
    graph: tuple[Ints, Ints, Ints], slots: Ints, reduces: Bools, gives: Ints, results: Ints, ptr: Ints
) -> int:
    """Count what flows into the gradient of each value, at `ptr[value + 2]`; how much into constants'."""
    type_ptr, operand_ptr, operand = graph
    constants = 0
    for reference in results:
        if reference >= 0:
            ptr[reference + 2] += 1
        else:
            constants += 1
    for t in range(len(slots)):
        for s in range(slots[t]):
            if gives[t, s, 0] == NONE:
                continue
            for v in range(type_ptr[t], type_ptr[t + 1]):
                begin, links = operand_ptr[v] + s, np.int64(1)
                if reduces[t]:
                    links = np.int64(np.uint32(operand_ptr[v + 1] - operand_ptr[v]) // np.uint32(slots[t]))
                    begin = operand_ptr[v] + s * links
                for e in range(begin, begin + links):
                    if operand[e] >= 0:
                        ptr[operand[e] + 2] += 1
                    else:
                        constants += 1
    return constants


@njit
def _scatter(
    graph: tuple[Ints, Ints, Ints],
    slots: Ints,
    reduces: Bools,
    gives: Ints,
    base: Longs,
    results: tuple[Ints, Ints],
    shifts: tuple[int, int],
    ptr: Ints,
    members: Ints,
    constants: tuple[Ints, Ints],
) -> None:
    """Fill what flows into each value's gradient; from a sum's own, LISTED less the value that it is of."""
    type_ptr, operand_ptr, operand = graph
    shift, wide = shifts
    constant, gradient = constants
    found = 0
    for i in range(len(results[0])):
        reference = results[0][i]
        if reference >= 0:
            members[ptr[reference + 1]] = results[1][i]
            ptr[reference + 1] += 1
        else:
            constant[found], gradient[found] = reference, results[1][i]
            found += 1
    for t in range(len(slots)):
        for s in range(slots[t]):
            who = gives[t, s, 0]
            if who == NONE:
                continue
            edge = 0
            for v in range(type_ptr[t], type_ptr[t + 1]):
                begin, links = operand_ptr[v] + s, np.int64(1)
                if reduces[t]:
                    links = np.int64(np.uint32(operand_ptr[v + 1] - operand_ptr[v]) // np.uint32(slots[t]))
                    begin = operand_ptr[v] + s * links
                for e in range(begin, begin + links):
                    if who == NODE:
                        value = base[t, s] + ((v - type_ptr[t]) << wide)
                    elif who == EDGE:
                        value = base[t, s] + (edge << wide)
                    else:
                        value = np.int64(LISTED) - ((v << shift) + s)
                    edge += 1
                    reference = operand[e]
                    if reference >= 0:
                        members[ptr[reference + 1]] = value
                        ptr[reference + 1] += 1
                    else:
                        constant[found], gradient[found] = reference, value
                        found += 1


@njit
def _sums(
    type_ptr: Ints,
    sums: Ints,
    shifts: tuple[int, int],
    node: int,
    ptr: Ints,
    members: Ints,
    made: tuple[Ints, Ints, Longs],
) -> int:
    """Number the nodes that sum, from `node` on: of the values that several read.

    `made`: of each value its node, where its gradient is, how many nodes each type has. The result is how
    many values they sum.
    """
    sum_node, held, sizes = made
    shift, wide = shifts
    total = 0
    for q in range(len(sums)):
        for v in range(type_ptr[sums[q, 0]], type_ptr[sums[q, 0] + 1]):
            value = (v << shift) + sums[q, 1]
            count = ptr[value + 1] - ptr[value]
            if count > 1:
                sum_node[value] = node
                held[value] = node << wide
                sizes[q] += 1
                total += count
                node += 1
            else:
                held[value] = members[ptr[value]] if count else sums[q, 2]
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
    return total


@njit
def _resolve(references: Ints, held: Ints) -> None:
    """Replace the gradients of sums by where they are."""
    for i in range(len(references)):
        if references[i] <= LISTED:
            references[i] = held[LISTED - references[i]]


@inner
def _wide(reference: int, shift: int, wide: int) -> int:
    if reference < 0:
        return reference
    return ((reference >> shift) << wide) + (reference & ((1 << shift) - 1))


def _widened(references: Ints, shift: int, wide: int) -> Ints:
    """References of the forward network as those of the training network."""
    found = np.empty_like(references)
    _widen(references, shift, wide, found)
    return found


@njit
def _widen(references: Ints, shift: int, wide: int, found: Ints) -> None:
    for i in range(len(references)):
        found[i] = _wide(references[i], shift, wide)


@njit
def _forward(ptr: Ints, operand: Ints, shifts: tuple[int, int], new_ptr: Ints, new_operand: Ints) -> None:
    for v in range(len(ptr)):
        new_ptr[v] = ptr[v]
    _widen(operand, shifts[0], shifts[1], new_operand)


@njit
def _parts(
    graph: tuple[Ints, Ints, Ints, Ints],
    slots: Ints,
    parts: tuple[Ints, Bools, Bools, Ints],
    reads: Longs,
    part_ptr: Ints,
    shifts: tuple[int, int],
    lists: tuple[Ints, Ints],
    ends: tuple[int, int],
    operand_ptr: Ints,
    operand: Ints,
) -> None:
    """Fill the operands of the nodes of all parts, and the lists of edges that some of them sum.

    `ends`: the number of the first such list, and of its first member.
    """
    type_ptr, given_ptr, given, whose = graph
    source, edge, reduction, read_ptr = parts
    shift, wide = shifts
    ptr, members = lists
    fresh, filled = ends
    at = operand_ptr[type_ptr[len(type_ptr) - 1]]
    for p in range(len(source)):
        t = source[p]
        begin, count, here = type_ptr[t], read_ptr[p + 1] - read_ptr[p], part_ptr[p]
        row = 0
        for v in range(begin, type_ptr[t + 1]):
            links = np.int64(1)
            if edge[p]:
                links = np.int64(np.uint32(given_ptr[v + 1] - given_ptr[v]) // np.uint32(slots[t]))
            for _ in range(links):
                whose[0, here + row], whose[1, here + row] = whose[0, v], whose[1, v]
                row += 1
        for r in range(read_ptr[p], read_ptr[p + 1]):
            kind, a, place = reads[r, 0], reads[r, 1], at + r - read_ptr[p]
            base = reads[r, 3]
            row = 0
            for v in range(begin, type_ptr[t + 1]):
                if not edge[p] and kind == OPERAND:
                    operand[place] = _wide(given[given_ptr[v] + a], shift, wide)
                    place += count
                    continue
                if not edge[p] and kind == OUTPUT:
                    operand[place] = (v << wide) + a
                    place += count
                    continue
                if kind == GRADIENT:
                    value = (v << shift) + a
                    found = ptr[value + 1] - ptr[value]
                    operand[place] = LISTED - value if found > 1 else (members[ptr[value]] if found else base)
                    place += count
                    continue
                links = np.int64(np.uint32(given_ptr[v + 1] - given_ptr[v]) // np.uint32(slots[t]))
                if kind == COUNT:
                    operand[place] = base - links
                    place += count
                elif kind == HOLDER and not edge[p]:
                    operand[place] = base + ((v - begin) << wide)
                    place += count
                elif reduction[p]:
                    operand_ptr[here + v - begin + 1] = place + links
                    for _ in range(links):
                        operand[place] = base + (row << wide)
                        place += 1
                        row += 1
                elif kind == EDGES:
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
                        if kind == OPERAND:
                            reference = _wide(given[given_ptr[v] + a * links + j], shift, wide)
                        elif kind == OUTPUT:
                            reference = (v << wide) + a
                        elif kind == OWN:
                            reference = base + (row << wide)
                        else:
                            reference = base + ((v - begin) << wide)
                        operand[place] = reference
                        place += count
                        row += 1
        nodes = part_ptr[p + 1] - here
        if reduction[p]:
            at = operand_ptr[here + nodes]
            continue
        for i in range(nodes):
            at += count
            operand_ptr[here + i + 1] = at


@njit
def _sum_operands(
    sum_node: Ints, ptr: Ints, members: Ints, shift: int, whose: Ints, operand_ptr: Ints, operand: Ints
) -> None:
    """The operands of the nodes that sum, which are numbered by type, then by value."""
    nodes = len(operand_ptr) - 1
    first = nodes
    for value in range(len(sum_node)):
        if sum_node[value] >= 0:
            first = min(first, sum_node[value])
            operand_ptr[sum_node[value] + 1] = ptr[value + 1] - ptr[value]
    for v in range(first, nodes):
        operand_ptr[v + 1] += operand_ptr[v]
    for value in range(len(sum_node)):
        node = sum_node[value]
        if node >= 0:
            whose[0, node], whose[1, node] = whose[0, value >> shift], whose[1, value >> shift]
            for j in range(ptr[value + 1] - ptr[value]):
                operand[operand_ptr[node] + j] = members[ptr[value] + j]
