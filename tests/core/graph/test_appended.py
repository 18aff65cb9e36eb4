"""Recorded nodes as a graph of their own, and references renamed, beside what plain Python makes of them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from abw.core.graph.equal.consing import rename
from abw.core.graph.part import appended
from abw.core.ir.network import NetType, Network

WIDTH = 4


def network(types: int) -> Network:
    names = [NetType(f"t{t}", None, None, (), (), ()) for t in range(types)]
    return Network("some", "cell", tuple(names), (), (), (), (), WIDTH)


@st.composite
def recorded(draw: st.DrawFn) -> tuple[int, list[tuple[int, list[int]]]]:
    """The number of the first node, and of each its type and the references that it reads."""
    first, nodes = draw(st.integers(0, 3)), []
    for v in range(draw(st.integers(0, 12))):
        known = st.integers(-5, (first + v) * WIDTH - 1)
        nodes.append((draw(st.integers(0, 2)), draw(st.lists(known, max_size=3))))
    return first, nodes


@given(recorded())
def test_appended_nodes_are_a_graph_in_the_order_of_their_types(
    made: tuple[int, list[tuple[int, list[int]]]],
) -> None:
    first, nodes = made
    numbers = np.arange(len(nodes), dtype=np.int32)
    ptr = np.cumsum([0, *(len(read) for _, read in nodes)]).astype(np.int32)
    operand = np.array([r for _, read in nodes for r in read], np.int32)
    types = np.array([t for t, _ in nodes], np.int32)
    columns = types, numbers + 100, numbers + 200, ptr, operand
    graph, outer, local = appended(network(3), columns, first, 1000, ())

    order = sorted(range(len(nodes)), key=lambda v: (nodes[v][0], v))
    assert [int(local[v]) for v in order] == [*range(len(nodes))]
    assert graph.dag.type.tolist() == sorted(types.tolist())
    assert graph.type_ptr.tolist() == [sum(t < kind for t, _ in nodes) for kind in range(4)]
    assert (graph.vertex - 100).tolist() == (graph.instance - 200).tolist() == order
    earlier = sorted({r for _, read in nodes for r in read if 0 <= r < first * WIDTH})
    assert outer.tolist() == earlier

    def named(reference: int) -> int:
        if reference < 0:
            return reference
        if reference < first * WIDTH:
            return len(nodes) * WIDTH + earlier.index(reference)
        return order.index(reference // WIDTH - first) * WIDTH + reference % WIDTH

    for i, v in enumerate(order):
        own = slice(graph.operand_ptr[i], graph.operand_ptr[i + 1])
        assert graph.operand[own].tolist() == [*map(named, nodes[v][1])]
    read = {(named(r) // WIDTH, i) for i, v in enumerate(order) for r in nodes[v][1] if r >= first * WIDTH}
    succ = [graph.dag.succ[graph.dag.succ_ptr[v] : graph.dag.succ_ptr[v + 1]] for v in range(len(nodes))]
    assert [(u, int(w)) for u, some in enumerate(succ) for w in some] == sorted(read)


@given(
    st.lists(st.integers(-9, 40)), st.integers(0, 2), st.lists(st.integers(0, 99), max_size=9), st.booleans()
)
def test_references_are_renamed(references: list[int], first: int, number: list[int], renames: bool) -> None:
    bits, shift = 5, 2
    found = np.array([(r << bits) + 3 for r in references], np.int64)
    numbers = np.array(number, np.int32)
    constants = rename(found, bits, first * WIDTH, numbers, shift if renames else -1)
    nodes = [r // WIDTH - first for r in references if r >= 0]
    if any(v < 0 or (renames and v >= len(number)) for v in nodes):
        assert constants == -1
        return

    def named(reference: int) -> int:
        if reference < 0:
            return reference
        node = reference // WIDTH - first
        return (number[node] if renames else node) * WIDTH + reference % WIDTH

    assert constants == sum(r < 0 for r in references)
    assert found.tolist() == [*map(named, references)]
