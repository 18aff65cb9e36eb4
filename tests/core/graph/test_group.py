"""Groups of types: which types are one, and that nothing else changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from abw.core.graph.group import group_types
from tests.core.exec.builder import lstm, make_network, random_graph, random_network
from tests.core.policy import brute


def test_types_of_one_structure_are_a_group() -> None:
    cells = {"a": lstm(3), "s": None, "b": lstm(3), "big": lstm(4)}
    network = make_network(
        [(name, cell, None if cell else "sum", ()) for name, cell in cells.items()], (), (), []
    )
    groups = group_types(network)
    assert groups.names == ("a+b", "s", "big")
    assert groups.group.tolist() == [0, 1, 0, 2]


def test_another_operation_number_or_output_is_another_group() -> None:
    cell = lstm(3)
    last = len(cell.ops) - 1
    squash = next(i for i, op in enumerate(cell.ops) if op.name == "tanh")
    changed = replace(cell.ops[squash], name="relu")
    others = [
        replace(cell, ops=(*cell.ops[:squash], changed, *cell.ops[squash + 1 :])),
        replace(cell, outputs=cell.outputs[::-1]),
        replace(cell, ops=(*cell.ops[:last], replace(cell.ops[last], attr=(1.0,)))),
    ]
    for number, other in enumerate(others):
        network = make_network([("a", cell, None, ()), ("b", other, None, ())], (), (), [])
        assert group_types(network).names == ("a", "b"), number


@given(seed=st.integers(0, 10**6), nodes=st.integers(1, 25))
def test_groups_change_types_alone(seed: int, nodes: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    doubled = replace(network, types=(*network.types, replace(network.types[0], name="twin")))
    graph = random_graph(rng, doubled, nodes)
    groups = group_types(doubled)
    assert groups.group[-1] == groups.group[0] == 0
    assert groups.names[0].endswith("+twin")
    dag = groups.apply(graph.dag)
    assert [dag.types[t] for t in dag.type] == [groups.names[groups.group[t]] for t in graph.dag.type]
    assert brute.producers(dag) == brute.producers(graph.dag)
