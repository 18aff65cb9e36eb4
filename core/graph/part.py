"""Some nodes as a graph of their own: a part of a graph, or nodes that were appended."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from abw.core.graph.dag import Dag, Successors, build_dag
from abw.core.graph.dag import part as part_of_dag
from abw.core.graph.fuse import edges
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
    type, vertex, instance, begins, operand = nodes
    n, width = len(type), network.width
    order = np.argsort(type, kind="stable")
    local = np.empty(n, np.int32)
    local[order] = np.arange(n)
    ptr = np.append(0, np.cumsum(np.diff(begins)[order])).astype(np.int32)
    found, places = np.empty((2, ptr[-1]), np.int32)
    outside = places[
        : _reorder(order, local, begins, operand, (first, width.bit_length() - 1), found, places)
    ]
    outer, which = np.unique(found[outside], return_inverse=True)
    found[outside] = n * width + which
    counts = np.bincount(type, minlength=len(network.types))
    type_ptr, names = np.append(0, np.cumsum(counts)).astype(np.int32), tuple(t.name for t in network.types)
    type = type[order]

    def find() -> Successors:
        none = np.zeros(1, np.int32)
        source, reader = edges(ptr, found, none, none, width)
        inside = source < n
        return build_dag(names, type, source[inside], reader[inside]).edges

    of = network, type_ptr, vertex[order], instance[order], (), instances, Dag(names, type, find), ptr, found
    return Graph(*of, given=given), outer, local


@njit
def _reorder(
    order: NDArray[np.int64],
    local: Ints,
    begins: Ints,
    operand: Ints,
    numbers: tuple[int, int],
    found: Ints,
    outside: Ints,
) -> int:
    """Write the operands of nodes in an order, by the numbers there; and where, and how many, are of earlier
    nodes, which are left as they are.
    """
    first, shift = numbers
    k, m = 0, 0
    for v in order:
        for reference in operand[begins[v] : begins[v + 1]]:
            node = (reference >> shift) - first
            if node >= 0:
                found[k] = local[node] << shift | (reference & ((1 << shift) - 1))
            else:
                found[k] = reference
                if reference >= 0:
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
    read, target = operand >= 0, np.repeat(nodes, np.diff(graph.operand_ptr))
    dag = build_dag(graph.dag.types, graph.dag.type, operand[read] // width, target[read])
    made, _ = part(replace(graph, operand=operand, dag=dag), stands == nodes)
    number = (np.cumsum(stands == nodes, dtype=np.int32) - np.int32(1))[stands]

    def result(refs: ResultRefs) -> ResultRefs:
        return replace(refs, reference=_renamed(refs.reference, number, width))

    place = number - made.type_ptr[graph.dag.type]
    distinct = Distinct(graph.type_ptr, graph.instance, place.astype(np.int32))
    return replace(made, results=tuple(map(result, graph.results)), distinct=distinct)


def _renamed(references: Ints, number: Ints, width: int) -> Ints:
    """References whose nodes have other numbers."""
    node, output = np.divmod(np.maximum(references, 0), width)
    return np.where(references >= 0, number[node] * width + output, references).astype(np.int32)
