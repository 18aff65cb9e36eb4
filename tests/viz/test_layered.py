"""The layered layout keeps its promises on any graph."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from abw.core.graph.bounds import depths
from abw.core.graph.dag import Dag
from abw.viz.drawing.layered import Ints, across, depth_first, with_bends
from tests.core.policy.graphs import random_dag

graphs = st.builds(
    random_dag,
    seed=st.integers(0, 10_000),
    nodes=st.integers(1, 40),
    types=st.just(2),
    density=st.floats(0.02, 0.3),
)


def edges(dag: Dag) -> tuple[Ints, Ints]:
    return np.repeat(np.arange(len(dag), dtype=np.int32), np.diff(dag.succ_ptr)), dag.succ


@given(graphs)
def test_bends_make_every_edge_a_path_through_all_layers_between(dag: Dag) -> None:
    layer, group = depths(dag), np.zeros(len(dag), np.int32)
    source, target = edges(dag)
    bent = with_bends(layer, group, source, target)
    assert (bent.layer[bent.target] == bent.layer[bent.source] + 1).all()
    for e, (u, v) in enumerate(zip(source, target, strict=True)):
        path = bent.path[bent.path_ptr[e] : bent.path_ptr[e + 1]]
        assert (path[0], path[-1]) == (u, v)
        assert bent.layer[path].tolist() == list(range(layer[u], layer[v] + 1))
        assert (path[1:-1] >= len(dag)).all()
    assert len(np.unique(bent.path[bent.path >= len(dag)])) == len(bent.layer) - len(dag)


@given(graphs)
def test_edges_of_a_node_share_their_bends(dag: Dag) -> None:
    layer, group = depths(dag), np.zeros(len(dag), np.int32)
    source, target = edges(dag)
    bent = with_bends(layer, group, source, target, shared=True)
    pieces = set(zip(bent.source.tolist(), bent.target.tolist(), strict=True))
    assert len(pieces) == len(bent.source)
    whose: dict[int, int] = {}
    for e, (u, v) in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
        path = bent.path[bent.path_ptr[e] : bent.path_ptr[e + 1]].tolist()
        assert (path[0], path[-1]) == (u, v)
        assert bent.layer[path].tolist() == list(range(layer[u], layer[v] + 1))
        assert set(pairwise(path)) <= pieces
        assert all(whose.setdefault(bend, u) == u for bend in path[1:-1])
    longest = [int((layer[target[source == u]] - layer[u]).max(initial=1)) for u in range(len(dag))]
    assert len(whose) == len(bent.layer) - len(dag) == sum(longest) - len(dag)


def test_a_tree_begins_without_crossings() -> None:
    # children 0 to 3 of parents 4 and 5, whose parent is 6, numbered so that their lines cross
    source, target = np.array([0, 1, 2, 3, 4, 5], np.int32), np.array([5, 4, 5, 4, 6, 6], np.int32)
    met = depth_first(np.array([0, 0, 0, 0, 1, 1, 2], np.int32), source, target)
    assert sorted(met.tolist()) == list(range(7))
    assert np.argsort(met).tolist() == [6, 4, 1, 3, 5, 0, 2]


@given(graphs, st.integers(1, 4))
def test_no_two_nodes_of_a_layer_are_closer_than_one(dag: Dag, groups: int) -> None:
    layer = depths(dag)
    group = (np.arange(len(dag)) % groups).astype(np.int32)
    place = across(layer, group, *edges(dag))
    assert np.isfinite(place).all()
    for g in range(groups):
        for level in range(int(layer.max()) + 1):
            there = np.sort(place[(group == g) & (layer == level)])
            assert (np.diff(there) >= 1 - 1e-6).all()


@given(graphs, st.integers(0, 999))
def test_nodes_have_the_room_that_they_take(dag: Dag, seed: int) -> None:
    layer = depths(dag)
    size = np.random.default_rng(seed).uniform(0.5, 300, len(dag))
    place = across(layer, np.zeros(len(dag), np.int32), *edges(dag), size)
    for level in range(int(layer.max()) + 1):
        there = np.flatnonzero(layer == level)
        there = there[np.argsort(place[there])]
        apart = (size[there][1:] + size[there][:-1]) / 2
        assert (np.diff(place[there]) >= apart - 1e-6).all()


def test_a_trees_parent_stands_over_the_middle_of_its_children() -> None:
    source, target = np.array([0, 1, 2, 3, 4, 5], np.int32), np.array([4, 4, 5, 5, 6, 6], np.int32)
    place = across(np.array([0, 0, 0, 0, 1, 1, 2], np.int32), np.zeros(7, np.int32), source, target)
    assert place[4] == (place[0] + place[1]) / 2
    assert place[6] == (place[4] + place[5]) / 2
    assert abs(place[0] - place[1]) == abs(place[2] - place[3]) == 1  # no crossing edges


def test_crossings_of_a_ladder_are_untangled() -> None:
    source, target = np.arange(6, dtype=np.int32), np.array([11, 10, 9, 8, 7, 6], np.int32)
    place = across(np.repeat([0, 1], 6).astype(np.int32), np.zeros(12, np.int32), source, target)
    crossings = sum(
        (place[a] - place[b]) * (place[target[a]] - place[target[b]]) < 0 for a in range(6) for b in range(a)
    )
    assert crossings == 0


def test_nothing_at_all_is_a_layout_too() -> None:
    none = np.zeros(0, np.int32)
    assert len(across(none, none, none, none)) == len(depth_first(none, none, none)) == 0
