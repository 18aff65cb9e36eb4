"""Every distinct node of a mini-batch once: value numbering across its instances.

Two nodes are equal if they have one type and read equal values: the same row of a table, the same
parameter, rows of a field with the same bits, the same outputs of equal nodes. Equal nodes have equal
outputs, since the bits of an output do not depend on what else is in its batch; so one of them is enough.
"""

from __future__ import annotations

from dataclasses import replace
from threading import local

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.dag import Dag, Reads, Successors
from abw.core.graph.edges import consumers, successors
from abw.core.graph.equal.leaves import Leaves
from abw.core.graph.equal.numbering import MIX, NUMBER, OF_NODE, SPREAD, Keys, number_nodes, spread
from abw.core.graph.graph import Distinct, Graph
from abw.core.jit.decorators import njit

Ints = NDArray[np.int32]

# Scratch memory that a thread keeps though a smaller graph needs less: 16 MB.
MOST_SCRATCH = 1 << 22
_THREAD = local()


def dedup(
    graph: Graph,
    keys: Keys,
    apart: NDArray[np.bool_] | None = None,
    part: Ints | None = None,
    leaves: Leaves | None = None,
) -> Graph:
    """The graph with one of each set of equal nodes; `Graph.distinct` says which stands for each.

    `apart` (T,): types whose nodes stay apart, as those that draw a mask each. `part` (instances,): nodes of
    instances in different parts stay apart, so that threads need not wait for each other. `leaves`: what the
    executor keeps of earlier mini-batches; nodes with outputs there are left out.

    The first of equal nodes stays, with its `vertex` and `instance`, in the same order; results refer to the
    nodes that stand for theirs. The graph must have no lists (`fuse` comes after this). Cost: linear; some
    12 ns a node, 30 in loops of several types. Source: value numbering (Cocke and Schwartz, 1970), here over
    all instances of a mini-batch.
    """
    n, shift = len(graph), graph.network.width.bit_length() - 1
    operand, scratch, nothing = _first_rows(graph, apart), _scratch(n), np.empty(0, np.int32)
    kept, found = number_nodes(
        (keys.order, keys.keys, keys.alone, keys.facts),
        (nothing if leaves is None else leaves.row_of, keys.leaves.kept),
        (graph.type_ptr, graph.operand_ptr, operand, graph.instance, graph.dag.type),
        nothing if part is None else part,
        np.zeros(len(keys.order), np.bool_) if apart is None else apart,
        shift, scratch,
    )  # fmt: skip
    type_ptr, operand_ptr = np.zeros_like(graph.type_ptr), np.empty(kept + 1, np.int32)
    nodes, place = np.empty((3, kept + 1), np.int32), np.empty(n, np.int32)
    filled = compact(
        (graph.type_ptr, graph.operand_ptr, operand, graph.vertex, graph.instance),
        shift, scratch, place, (type_ptr, operand_ptr, nodes[0], nodes[1], nodes[2]),
    )  # fmt: skip
    epoch = None if leaves is None else leaves.epoch
    distinct = Distinct(graph.type_ptr, graph.instance, place, part, epoch, found)
    return distinct_of(graph, keys, type_ptr, nodes[:, :kept], operand_ptr, operand[:filled], distinct)


def distinct_of(
    graph: Graph,
    keys: Keys,
    type_ptr: Ints,
    nodes: Ints,
    operand_ptr: Ints,
    operand: Ints,
    distinct: Distinct,
) -> Graph:
    """A graph without equal nodes, of which the types, vertices and instances `nodes` (3, n) and the operands
    are known; of `graph`, with all of them, the operands are not read.
    """
    results = []
    for refs in graph.results:
        reference = refs.reference.copy()
        _rename(reference, graph.network.width, graph.dag.type, distinct.place, type_ptr, keys.leaves.kept)
        results.append(replace(refs, reference=reference))
    return replace(
        graph,
        type_ptr=type_ptr,
        vertex=nodes[1],
        instance=nodes[2],
        results=tuple(results),
        dag=_dag(graph.dag, keys, nodes[0], type_ptr, operand_ptr, operand),
        operand_ptr=operand_ptr,
        operand=operand,
        distinct=distinct,
    )


def _scratch(n: int) -> Ints:
    """Scratch memory of this thread for a graph of n nodes, which `number_nodes` and `compact` share."""
    wanted = OF_NODE * n
    memory: Ints | None = getattr(_THREAD, "memory", None)
    if memory is None or not wanted <= len(memory) <= max(wanted, MOST_SCRATCH):
        memory = _THREAD.memory = np.empty(wanted, np.int32)
    return memory[:wanted]


def _dag(before: Dag, keys: Keys, type_of: Ints, type_ptr: Ints, operand_ptr: Ints, operand: Ints) -> Dag:
    """The dag of these operands, whose edges are looked for when they are asked for."""
    shift = keys.network.width.bit_length() - 1

    def find() -> Successors:
        if (slots := keys.edges) is not None:
            of = type_ptr, slots.slots, slots.lists, slots.distinct
            return consumers(*of, operand_ptr, operand, shift)
        return successors(operand_ptr, operand, shift)

    return Dag(before.types, type_of, find, before.order, Reads(operand_ptr, operand, shift))


def _first_rows(graph: Graph, apart: NDArray[np.bool_] | None) -> Ints:
    """The operands, a copy, with each row of a field replaced by the first that has the same bits.

    Fields that only types which stay `apart` read are left as they are.
    """
    operand, network = graph.operand.copy(), graph.network
    if not network.given:
        return operand
    readers = [t for i, t in enumerate(network.types) if apart is None or not apart[i]]
    read = {number for t in readers for slot in t.slots for number in slot.constants}
    for number, rows in zip(network.given, graph.given, strict=True):
        if len(rows) and number in read:
            replace_rows(operand, network.constants[number].first, len(rows), first_rows(rows))
    return operand


def first_rows(rows: NDArray[np.float32]) -> Ints:
    """For each of the rows (n, *shape) the number of the first that has the same bits."""
    words = np.ascontiguousarray(rows.reshape(len(rows), -1)).view(np.int32)
    table, first = np.empty(1 << (2 * len(rows) - 1).bit_length(), np.int32), np.empty(len(rows), np.int32)
    equal_rows(words, table, first)
    return first


@njit
def compact(
    graph: tuple[Ints, Ints, Ints, Ints, Ints],
    shift: int,
    scratch: Ints,
    place: Ints,
    made: tuple[Ints, Ints, Ints, Ints, Ints],
) -> int:
    """Number the first of each set of equal nodes anew, in their order; how many operands they have.

    In the `scratch` memory is written the new number of the node that stands for each, or what `number_nodes`
    says of kept leaves; `place` (n,): see `Distinct`. `operand` is compacted in place.
    """
    type_ptr, ptr, operand, vertex, instance = graph
    new_type_ptr, new_ptr, new_type, new_vertex, new_instance = made
    n = len(place)
    stands, number = scratch[:n], scratch[NUMBER * n : (NUMBER + 1) * n]
    number[:] = -1
    mask, kept, filled = (1 << shift) - 1, 0, 0
    for t in range(len(type_ptr) - 1):
        for v in range(type_ptr[t], type_ptr[t + 1]):
            # the first of equal nodes stays; what is written for another is written over
            w = max(stands[v], 0)
            first = (stands[v] >= 0) & (number[w] < 0)
            new_type[kept], new_vertex[kept] = t, v
            number[w] = kept if first else number[w]
            kept += first
        new_type_ptr[t + 1] = kept
    for t in range(len(type_ptr) - 1):
        first_new = new_type_ptr[t]
        for v in range(type_ptr[t], type_ptr[t + 1]):
            number[v] = number[stands[v]] if stands[v] >= 0 else stands[v]
            place[v] = number[v] - first_new if number[v] >= 0 else number[v] + 1
    new_ptr[0] = 0
    for i in range(kept):
        v = int(new_vertex[i])
        for e in range(ptr[v], ptr[v + 1]):
            r = operand[e]
            operand[filled] = (number[max(r, 0) >> shift] << shift) | (r & mask) if r >= 0 else r
            filled += 1
        new_ptr[i + 1] = filled
        new_vertex[i], new_instance[i] = vertex[v], instance[v]
    return filled


@njit
def _rename(references: Ints, width: int, type_of: Ints, place: Ints, type_ptr: Ints, kept: Ints) -> None:
    """Replace references to nodes as constructed, of these types, by those of what stands for them."""
    for i in range(len(references)):
        node, output = references[i] // width, references[i] % width
        if node < 0:
            continue
        t, where = type_of[node], place[node]
        references[i] = (type_ptr[t] + where) * width + output if where >= 0 else kept[t, output] + where + 1


@njit
def equal_rows(rows: Ints, table: Ints, first: Ints) -> None:
    """For each of the rows (n, words) the number of the first that has the same bits.

    `table`: a power of two places, two for each row at least.
    """
    last = rows.shape[1] - 1
    table[:] = -1
    for i in range(len(rows)):
        h = np.uint64(MIX) + np.uint64(np.uint32(rows[i, last]))
        for j in range(0, last, 2):
            pair = np.uint64(np.uint32(rows[i, j])) << np.uint64(32) | np.uint64(np.uint32(rows[i, j + 1]))
            h = h * np.uint64(SPREAD) + pair
        p = spread(h, len(table))
        while True:
            found = int(table[p])
            found = found if found >= 0 else i
            same = True
            for j in range(last + 1):
                same &= rows[i, j] == rows[found, j]
            if same:
                break
            p = (p + 1) & (len(table) - 1)
        table[p] = first[i] = found


@njit
def replace_rows(operand: Ints, base: int, count: int, first: Ints) -> None:
    """Replace the references of `count` rows, of which the first is -1 - `base`, by those of `first`."""
    for e in range(len(operand)):
        row = -1 - operand[e] - base
        if 0 <= row < count:
            operand[e] = -1 - base - first[row]
