"""Some nodes as a graph of their own: a part of a graph, or nodes that were appended."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.dag import Dag
from abw.core.graph.dag import part as part_of_dag
from abw.core.graph.edges import successors
from abw.core.graph.equal.consing import rename
from abw.core.graph.graph import Distinct, Graph, Ints, ResultRefs
from abw.core.ir.network import Network
from abw.core.jit.decorators import njit


def part(graph: Graph, inside: NDArray[np.bool_]) -> tuple[Graph, Ints]:
    """The nodes `inside` (n,) of a graph without lists, in the same order, and what they read of the others.

    References to these, m of them, each once; the part's own reference `nodes * width + i` is the i-th. It
    gives nothing back. Linear in nodes and operands.
    """
    width = graph.network.width
    number = np.cumsum(inside, dtype=np.int32) - np.int32(1)
    own = int(inside.sum()) * width
    sizes = np.diff(graph.operand_ptr)
    operand = graph.operand[np.repeat(inside, sizes)]
    node, output = np.divmod(operand, width)
    computed = np.flatnonzero(operand >= 0)
    within = inside[node[computed]]
    here, other = computed[within], computed[~within]
    outer, which = np.unique(operand[other], return_inverse=True)
    read = operand.copy()
    read[here] = number[node[here]] * width + output[here]
    read[other] = own + which
    counts = np.bincount(graph.dag.type[inside], minlength=len(graph.network.types))
    made = replace(
        graph,
        dag=part_of_dag(graph.dag, inside),
        type_ptr=np.append(0, np.cumsum(counts)).astype(np.int32),
        vertex=graph.vertex[inside],
        instance=graph.instance[inside],
        operand_ptr=np.append(0, np.cumsum(sizes[inside])).astype(np.int32),
        operand=read,
        results=(),
    )
    return made, outer


def appended(
    network: Network,
    nodes: tuple[Ints, Ints, Ints, Ints, Ints],
    first: int,
    instances: int,
    given: tuple[NDArray[np.float32], ...],
) -> tuple[Graph, Ints, Ints]:
    """Nodes numbered from `first` on as a graph, in the order of their types; what they read of earlier ones;
    and the number of each in the graph (n,).

    `nodes` are their types, vertices and instances (n,), where their operands begin (n + 1,), and these, each
    after what it reads. The graph's own reference `n * width + i` is the i-th that it reads of earlier nodes.
    Linear in nodes and operands.
    """
    n, width = len(nodes[0]), network.width
    shift, outer = width.bit_length() - 1, np.empty(0, np.int32)
    type_ptr, ptr = np.zeros(len(network.types) + 2, np.int32), np.zeros(n + 1, np.int32)
    local, type, vertex, instance = np.empty((4, n), np.int32)
    found, places = np.empty((2, len(nodes[4])), np.int32)
    numbers, columns = (first, shift), (type, vertex, instance)
    outside = places[: _sorted(nodes, numbers, type_ptr, local, columns, ptr, found, places)]
    if len(outside):
        outer, which = np.unique(found[outside], return_inverse=True)
        found[outside] = n * width + which
    names = tuple(t.name for t in network.types)
    dag = Dag(names, type, lambda: successors(ptr, found, shift))
    of = network, type_ptr[:-1], vertex, instance, (), instances, dag, ptr, found
    return Graph(*of, given=given), outer, local


@njit
def _sorted(
    nodes: tuple[Ints, Ints, Ints, Ints, Ints],
    numbers: tuple[int, int],
    type_ptr: Ints,
    local: Ints,
    columns: tuple[Ints, Ints, Ints],
    ptr: Ints,
    found: Ints,
    outside: Ints,
) -> int:
    """Sort nodes by their types: their numbers in that order, their columns, where their operands begin, and
    these, by those numbers; and where, and how many, are of earlier nodes, which are left as they are.
    """
    type, vertex, instance, begins, operand = nodes
    first, shift = numbers
    for t in type:
        type_ptr[t + 2] += 1
    for t in range(len(type_ptr) - 2):
        type_ptr[t + 2] += type_ptr[t + 1]
    for v in range(len(type)):
        i = type_ptr[type[v] + 1]
        type_ptr[type[v] + 1] += 1
        local[v], ptr[i + 1] = i, begins[v + 1] - begins[v]
        columns[0][i], columns[1][i], columns[2][i] = type[v], vertex[v], instance[v]
    for i in range(len(type)):
        ptr[i + 1] += ptr[i]
    m = 0
    for v in range(len(type)):
        k = ptr[local[v]]
        for e in range(begins[v], begins[v + 1]):
            reference = operand[e]
            node = (reference >> shift) - first
            found[k] = reference
            if node >= 0:
                found[k] = local[node] << shift | (reference & ((1 << shift) - 1))
            elif reference >= 0:
                outside[m] = k
                m += 1
            k += 1
    return m


def unified(graph: Graph, stands: Ints) -> Graph:
    """The nodes of a graph without lists that stand for themselves; `stands` (n,) says which does for each.

    They read what stands for what they read. Linear in nodes and operands.
    """
    width, nodes = graph.network.width, np.arange(len(graph), dtype=np.int32)
    operand = _renamed(graph.operand, stands, width)
    find = partial(successors, graph.operand_ptr, operand, width.bit_length() - 1)
    dag = Dag(graph.dag.types, graph.dag.type, find)
    made, _ = part(replace(graph, operand=operand, dag=dag), stands == nodes)
    number = (np.cumsum(stands == nodes, dtype=np.int32) - np.int32(1))[stands]

    def result(refs: ResultRefs) -> ResultRefs:
        return replace(refs, reference=_renamed(refs.reference, number, width))

    place = number - made.type_ptr[graph.dag.type]
    distinct = Distinct(graph.type_ptr, graph.instance, place.astype(np.int32))
    return replace(made, results=tuple(map(result, graph.results)), distinct=distinct)


def _renamed(references: Ints, number: Ints, width: int) -> Ints:
    """References whose nodes have other numbers."""
    found = references.astype(np.int64)
    rename(found, 0, 0, number, width.bit_length() - 1)
    return found.astype(np.int32)
