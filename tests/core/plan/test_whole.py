"""Mini-batches as layout problems: the problem is the graph's, layouts are right, splits compute the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from abw.core.plan.boundary import boundary, planned_boundary
from abw.core.plan.check import check_plan
from abw.core.plan.plan import plan
from abw.core.plan.whole import free_lanes, inner_types, split_by_producers, whole_graph
from abw.core.policy.check import check_schedule
from abw.core.policy.sufficient import Sufficient
from abw.core.spec.load import Overrides
from abw.core.workload import open_model, open_networks, open_workload, read_instances
from abw.pqtree import verify_layout
from tests.core.exec.builder import random_graph, random_network, random_schedule

seeds = st.integers(0, 2**32 - 1)


@given(seeds)
def test_layouts_of_random_graphs_are_right(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, random_network(rng), int(rng.integers(1, 20)))
    schedule = random_schedule(rng, graph)
    whole = whole_graph(graph, schedule)
    network = graph.network
    assert sorted(whole.values) == sorted(
        v * network.width + o
        for v, t in enumerate(graph.dag.type.tolist())
        for o in range(len(network.types[t].outputs))
    )
    reading = [v for v in range(len(graph)) if network.types[graph.dag.type[v]].cell is not None]
    reads = sum(int(graph.operand_ptr[v + 1] - graph.operand_ptr[v]) for v in reading)
    assert whole.lanes + whole.constant_lanes == reads + len(whole.values)
    assert whole.list_lanes == len(graph.operand) - reads
    for layout in (whole.result_contiguous(), whole.planned()):
        verify_layout(layout, whole.sizes, whole.batches, arenas=whole.arenas)
        assert free_lanes(layout) <= whole.lanes


@given(seeds, st.integers(1, 4))
def test_split_schedules_are_right(seed: int, least: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, random_network(rng), int(rng.integers(1, 30)))
    schedule = random_schedule(rng, graph)
    split = split_by_producers(graph, schedule, least)
    check_schedule(graph.dag, split)
    check_plan(graph, plan(graph, split))
    assert len(split) >= len(schedule)
    batch_of = np.empty(len(graph), np.int64)
    batch_of[split.nodes] = np.repeat(np.arange(len(split)), np.diff(split.ptr))
    before = np.empty(len(graph), np.int64)
    before[schedule.nodes] = np.repeat(np.arange(len(schedule)), np.diff(schedule.ptr))
    # each batch lies in one of the given; all but one of its parts read each slot from one batch or constants
    mixed: dict[int, int] = {}
    for b in range(len(split)):
        nodes = split.nodes[split.ptr[b] : split.ptr[b + 1]]
        assert len(set(before[nodes].tolist())) == 1
        t = int(split.type[b])
        if graph.network.types[t].cell is None or t not in inner_types(graph.network):
            assert len(nodes) == np.count_nonzero(before == before[nodes[0]])
            continue
        slots = len(graph.network.types[t].slots)
        read = graph.operand[graph.operand_ptr[nodes][:, None] + np.arange(slots)]
        sources = np.where(read < 0, -1, batch_of[np.maximum(read, 0) // graph.network.width])
        if len(np.unique(sources, axis=0)) > 1:
            mixed[before[nodes[0]]] = mixed.get(before[nodes[0]], 0) + 1
    assert all(count <= 1 for count in mixed.values())


def test_real_trees_need_few_copies(root: Path, shared_data: Path) -> None:
    model = open_model(
        root / "specs/treelstm.yaml", Overrides(data=shared_data / "trees/train.txt", batch=32, limit=32)
    )
    workload = open_workload(model, read_instances(model.data, 32), open_networks(model, "cell"))
    graph = workload.graph(0, 32)
    schedule = Sufficient().schedule(graph.dag)
    split = split_by_producers(graph, schedule, 8)
    before, after = whole_graph(graph, schedule), whole_graph(graph, split)
    assert before.lanes == after.lanes
    layout = after.planned()
    verify_layout(layout, after.sizes, after.batches, arenas=after.arenas)
    assert free_lanes(layout) > 0.8 * after.lanes
    assert free_lanes(before.result_contiguous()) < 0.72 * before.lanes


@given(seeds)
def test_boundaries_are_the_plans_counts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, random_network(rng), int(rng.integers(1, 20)))
    schedule = random_schedule(rng, graph)
    planned = plan(graph, schedule)
    found = boundary(planned, "planned")
    copies = sum(int(planned.arenas.copies[t]) for t in schedule.type.tolist())
    # apart from copies between a cell's own variables, these are all the memory kernels there are
    assert found.gathers + found.moved == planned.counts.memory_kernels - copies
    assert found.inside <= copies
    # with the results side by side, the whole graph's layout is the plan's own
    whole = whole_graph(graph, schedule)
    same = planned_boundary(planned, whole, whole.result_contiguous())
    assert same.kernels <= found.gathers + found.moved
    assert same.bytes <= found.bytes
