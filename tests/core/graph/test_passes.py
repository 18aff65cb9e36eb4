"""Passes against their meaning in plain Python, on random graphs; what they gain on real data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.graph.bounds import lower_bound, topological_order
from abw.core.graph.dag import Dag
from abw.core.graph.graph import Graph, ResultRefs
from abw.core.graph.passes import fuse_reductions, group_types
from abw.core.spec.load import Overrides
from abw.core.workload import open_model, open_networks, open_workload, read_instances
from tests.core.exec.builder import lstm, make_network, random_graph, random_network
from tests.core.policy import brute


def with_results(rng: np.random.Generator, graph: Graph) -> Graph:
    """The graph with two outputs of some of its nodes (and a constant) as results."""
    chosen = rng.permutation(len(graph))[: rng.integers(3)].astype(np.int32)
    reference = np.append(chosen * graph.network.width, -1).astype(np.int32)
    own = np.append(chosen, 0).astype(np.int32)
    return replace(graph, results=(ResultRefs("y", reference, own, own),))


def naive_fused(graph: Graph) -> dict[int, set[int]]:
    """Each node that stays, with those it then reads."""
    width = graph.network.width
    reads = {
        v: {int(r) // width for r in graph.operand[graph.operand_ptr[v] : graph.operand_ptr[v + 1]] if r >= 0}
        for v in range(len(graph))
    }
    reduces = [graph.network.types[t].reduction is not None for t in graph.dag.type]
    results = {int(r) // width for found in graph.results for r in found.reference if r >= 0}
    gone = set()
    for v in range(len(graph)):
        readers = [w for w in reads if v in reads[w]]
        if reduces[v] and readers and v not in results and not any(reduces[w] for w in readers):
            gone.add(v)
    return {
        v: set().union(*(reads[u] if u in gone else {u} for u in reads[v])) for v in reads if v not in gone
    }


@given(seed=st.integers(0, 10**6), nodes=st.integers(1, 25))
def test_fused_reductions_are_what_their_readers_read(seed: int, nodes: int) -> None:
    rng = np.random.default_rng(seed)
    graph = with_results(rng, random_graph(rng, random_network(rng), nodes))
    fused, expected = fuse_reductions(graph), naive_fused(graph)
    assert fused.node.tolist() == sorted(expected)
    assert fused.dag.types == graph.dag.types
    assert fused.dag.type.tolist() == [graph.dag.type[v] for v in sorted(expected)]
    found = {
        int(fused.node[v]): {int(fused.node[u]) for u in above}
        for v, above in enumerate(brute.producers(fused.dag))
    }
    assert found == expected
    topological_order(fused.dag)
    assert lower_bound(fused.dag).sum() <= lower_bound(graph.dag).sum()


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


CASES = [
    # spec, data; nodes and bound: as they are, fused, grouped, both
    ("lattice", "lattice/train.txt", (7955, 208), (6660, 149), (7955, 165), (6660, 106)),
    ("lattice-gru", "lattice/train.txt", (7955, 208), (6660, 149), (7955, 165), (6660, 106)),
    ("treelstm-2type", "trees/train.txt", (5192, 28), (5192, 28), (5192, 26), (5192, 26)),
]


@pytest.mark.parametrize(("spec", "data", "plain", "fused", "grouped", "both"), CASES)
def test_what_they_gain_on_real_data(
    root: Path,
    shared_data: Path,
    spec: str,
    data: str,
    plain: tuple[int, int],
    fused: tuple[int, int],
    grouped: tuple[int, int],
    both: tuple[int, int],
) -> None:
    model = open_model(root / "specs" / f"{spec}.yaml", Overrides(data=shared_data / data, seed=0))
    workload = open_workload(model, read_instances(model.data, 64), open_networks(model, "cell"))
    graph, groups = workload.graph(0, 64), group_types(workload.network)
    without = fuse_reductions(graph).dag

    def seen(dag: Dag) -> tuple[int, int]:
        return len(dag), int(lower_bound(dag).sum())

    assert seen(graph.dag) == plain
    assert seen(without) == fused
    assert seen(groups.apply(graph.dag)) == grouped
    assert seen(groups.apply(without)) == both
