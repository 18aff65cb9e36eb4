"""The adjacency arrays, depths, heights and the lower bound, against plain Python on random graphs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.graph.bounds import (
    depths,
    heights,
    lower_bound,
    path_lengths,
    recurrent_types,
    topological_order,
    type_reach,
)
from abw.core.graph.dag import Dag, build_dag
from tests.core.policy import brute, graphs

SMALL = st.builds(
    graphs.random_dag,
    seed=st.integers(0, 10**6),
    nodes=st.integers(1, 14),
    types=st.integers(1, 7),
    density=st.floats(0, 0.6),
)


@given(
    st.integers(1, 8).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(st.tuples(*[st.integers(0, n - 1)] * 2)))
    )
)
def test_adjacency_keeps_each_edge_once(case: tuple[int, list[graphs.Edge]]) -> None:
    n, pairs = case
    built = graphs.dag(["a"], [0] * n, pairs)
    kept = [(v, int(w)) for v in range(n) for w in built.succ[built.succ_ptr[v] : built.succ_ptr[v + 1]]]
    assert sorted(kept) == sorted(set(pairs))
    assert built.indegree.tolist() == [sum(w == v for _, w in set(pairs)) for v in range(n)]
    # the consumers of a node stand in the order in which the edges were given
    assert kept == sorted(dict.fromkeys(pairs), key=lambda edge: edge[0])


@pytest.mark.parametrize(
    ("type", "source", "target", "what"),
    [([0, 2], [0], [1], "type"), ([0, 1], [2], [1], "source"), ([0, 1], [0], [-1], "target")],
)
def test_numbers_out_of_range_are_refused(
    type: list[int], source: list[int], target: list[int], what: str
) -> None:
    arrays = [np.array(x, np.int32) for x in (type, source, target)]
    with pytest.raises(ValueError, match=what):
        build_dag(("a", "b"), *arrays)


@given(SMALL)
def test_topological_order(dag: Dag) -> None:
    place = np.argsort(topological_order(dag))
    assert sorted(place.tolist()) == list(range(len(dag)))
    for v, above in enumerate(brute.producers(dag)):
        assert all(place[u] < place[v] for u in above)


def test_a_cycle_has_no_order() -> None:
    behind = graphs.dag("a", [0] * 4, [(0, 1), (1, 2), (2, 1), (2, 3)])
    itself = graphs.dag("a", [0] * 4, [(0, 1), (1, 1), (1, 2), (2, 3)])
    alone = graphs.dag("a", [0] * 4, [(0, 1), (2, 3), (3, 2), (1, 2), (3, 3)])
    for dag, number in ((behind, 3), (itself, 3), (alone, 2)):
        for function in (topological_order, depths, path_lengths, heights):
            for same in (dag, graphs.with_reads(dag)):
                with pytest.raises(ValueError, match=f"cycle: {number} nodes"):
                    function(same)
    with pytest.raises(ValueError, match="cycle: 2 nodes"):
        path_lengths(graphs.dag("a", [0] * 3, [(1, 2), (2, 1)]))  # no node to begin with leads there


@given(SMALL)
def test_depths(dag: Dag) -> None:
    assert depths(dag).tolist() == brute.depth(dag)
    assert depths(graphs.with_reads(dag)).tolist() == brute.depth(dag)


@given(SMALL)
def test_path_lengths(dag: Dag) -> None:
    arrays = dag.type * 0, dag.succ_ptr, dag.succ, dag.indegree
    one_type = Dag.of(("a",), *arrays)
    assert path_lengths(dag).tolist() == [brute.height(one_type, v) for v in range(len(dag))]


@given(SMALL)
def test_heights(dag: Dag) -> None:
    assert heights(dag).tolist() == [brute.height(dag, v) for v in range(len(dag))]


@given(SMALL)
def test_recurrent_types_are_those_on_a_cycle_of_links(dag: Dag) -> None:
    types = len(dag.types)
    links = np.zeros((types, types))
    for v, above in enumerate(brute.producers(dag)):
        for u in above:
            links[dag.type[u], dag.type[v]] = 1
    reach = links @ np.linalg.matrix_power(np.eye(types) + links, types) > 0  # at most so many links
    assert np.array_equal(type_reach(dag), reach)
    on_cycle = reach.diagonal()
    column = recurrent_types(dag)
    assert (column >= 0).tolist() == on_cycle.tolist()
    assert column[column >= 0].tolist() == list(range(on_cycle.sum()))


@given(
    st.builds(
        graphs.random_dag,
        seed=st.integers(0, 10**6),
        nodes=st.integers(1, 10),
        types=st.integers(1, 4),
        density=st.floats(0, 0.6),
    )
)
def test_the_bound_never_exceeds_the_optimum(dag: Dag) -> None:
    assert lower_bound(dag).sum() <= brute.optimum(dag)


def test_the_bound_of_real_trees_and_lattices(shared_data: Path) -> None:
    trees = graphs.trees(shared_data / "trees/train.txt", 64)
    assert (len(trees), lower_bound(trees).sum()) == (5192, 26)
    lattices = graphs.lattices(shared_data / "lattice/train.txt", 64)
    assert (len(lattices), lower_bound(lattices).sum()) == (7955, 208)
