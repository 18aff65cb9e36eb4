"""Bundles say the same as the edges that they stand for, with fewer lines."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from abw.core.graph.bounds import depths
from abw.viz.drawing.layered import Bundled, Ints, bundled
from tests.core.policy.graphs import random_dag


def edges_of(made: Bundled, nodes: int) -> list[tuple[int, int]]:
    """The edges between nodes, hubs followed through."""
    before: dict[int, list[int]] = {}
    for a, b in zip(made.source.tolist(), made.target.tolist(), strict=True):
        before.setdefault(b, []).append(a)

    def nodes_before(v: int) -> list[int]:
        return [u for a in before.get(v, []) for u in ([a] if a < nodes else nodes_before(a))]

    return sorted((u, v) for v in range(nodes) for u in nodes_before(v))


def of(type: list[int], layer: list[int], edges: list[tuple[int, int]]) -> Bundled:
    source, target = np.array(edges, np.int32).reshape(-1, 2).T
    return bundled(ints(type), np.zeros(len(type), np.int32), ints(layer), source, target)


def ints(values: list[int]) -> Ints:
    return np.array(values, np.int32)


@given(st.integers(0, 10_000), st.integers(1, 60), st.integers(1, 3), st.floats(0.02, 0.6))
def test_every_edge_is_there_once(seed: int, nodes: int, types: int, density: float) -> None:
    dag = random_dag(seed, nodes, types, density)
    layer, group = depths(dag), np.zeros(len(dag), np.int32)
    source = np.repeat(np.arange(len(dag), dtype=np.int32), np.diff(dag.succ_ptr))
    made = bundled(dag.type, group, layer, source, dag.succ)
    assert edges_of(made, len(dag)) == sorted(zip(source.tolist(), dag.succ.tolist(), strict=True))
    assert (made.layer[: len(dag)] == 2 * layer).all()
    assert (made.layer[len(dag) :] % 2 == 1).all()
    assert (made.layer[made.source] < made.layer[made.target]).all()


def test_attention_is_a_line_for_each_node_and_each_reader() -> None:
    words, readers = range(6), range(6, 11)
    made = of([0] * 6 + [1] * 5, [0] * 6 + [1] * 5, [(u, v) for u in words for v in readers])
    assert len(made.layer) == 12
    assert len(made.source) == 6 + 5


def test_a_list_that_gets_longer_goes_on_from_the_hub_of_the_shorter() -> None:
    # each step reads all steps before it
    edges = [(u, v) for v in range(20) for u in range(v)]
    made = of([0] * 20, list(range(20)), edges)
    assert edges_of(made, 20) == sorted(edges)
    assert len(made.source) < 70 < len(edges) == 190


def test_few_nodes_and_those_right_above_their_one_reader_have_lines_of_their_own() -> None:
    pair = [(0, 2), (1, 2), (0, 3), (1, 3)]
    assert len(of([0, 0, 1, 1], [0, 0, 1, 1], pair).layer) == 4
    children = [(0, 4), (1, 4), (2, 4), (3, 4)]
    assert len(of([0] * 4 + [1], [0] * 4 + [1], children).layer) == 5
    assert len(of([0] * 4 + [1], [0] * 4 + [3], children).layer) == 6  # from further above they are bundled
