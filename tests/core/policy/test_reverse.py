"""The other direction: reversed graphs, reversed schedules."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from abw.core.graph.bounds import lower_bound
from abw.core.graph.dag import Dag
from abw.core.policy.check import check_schedule
from abw.core.policy.launches import by_type
from abw.core.policy.registry import NAMES, REVERSED, get_policy
from abw.core.policy.reverse import reversed_dag, reversed_schedule
from abw.core.policy.schedule import Schedule
from tests.core.policy import graphs

RANDOM = st.builds(
    graphs.random_dag,
    seed=st.integers(0, 10**6),
    nodes=st.integers(0, 24),
    types=st.integers(1, 6),
    density=st.floats(0, 0.5),
)


def edges(dag: Dag) -> set[tuple[int, int]]:
    source = np.repeat(np.arange(len(dag)), np.diff(dag.succ_ptr))
    return set(zip(source.tolist(), dag.succ.tolist(), strict=True))


@given(RANDOM)
def test_every_edge_is_turned_round(dag: Dag) -> None:
    turned = reversed_dag(dag)
    assert edges(turned) == {(v, u) for u, v in edges(dag)}
    assert turned.indegree.tolist() == np.diff(dag.succ_ptr).tolist()
    assert lower_bound(turned).tolist() == lower_bound(dag).tolist()


@given(RANDOM, st.sampled_from(("agenda", "critical", "weight-free")))
def test_a_reversed_schedule_is_one_of_the_reversed_graph(dag: Dag, name: str) -> None:
    schedule = get_policy(name).schedule(dag)
    turned = reversed_schedule(schedule)
    check_schedule(reversed_dag(dag), turned)
    batches = [schedule.nodes[i:j].tolist() for i, j in zip(schedule.ptr, schedule.ptr[1:], strict=False)]
    assert [turned.nodes[i:j].tolist() for i, j in zip(turned.ptr, turned.ptr[1:], strict=False)] == batches[
        ::-1
    ]


def test_launches_and_parts_go_along() -> None:
    dag = graphs.dag("abc", [0, 1, 2, 0], [(0, 3), (1, 3), (2, 3)])
    grouped = Dag.of(("x", "y", "z"), np.array([0, 0, 0, 1], np.int32), dag.succ_ptr, dag.succ, dag.indegree)
    launched = by_type(get_policy("depth").schedule(grouped), dag)
    split = np.array([[0, 1, 1], [0, 1, 1], [0, 0, 1], [0, 1, 1]], np.int32)
    whole = Schedule(launched.type, launched.ptr, launched.nodes, 0, launched.launch_ptr, split)
    turned = reversed_schedule(whole)
    check_schedule(reversed_dag(dag), turned)
    assert turned.launches.tolist() == [0, 1, 4]
    assert turned.split is not None
    assert turned.split.tolist() == split[::-1].tolist()


@given(RANDOM, st.sampled_from([n for n in NAMES if n.endswith(REVERSED) and "exact" not in n]))
def test_every_policy_has_another_direction(dag: Dag, name: str) -> None:
    schedule = get_policy(name).schedule(dag)
    check_schedule(dag, schedule)
    there = get_policy(name.removesuffix(REVERSED)).schedule(reversed_dag(dag))
    assert schedule.type.tolist() == there.type.tolist()[::-1]
