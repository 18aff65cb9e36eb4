"""Launches of several batches: cut from batches of groups; nothing that a launch computes is read in it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.base.errors import CheckError
from abw.core.graph.group import Groups
from abw.core.policy.check import check_schedule
from abw.core.policy.launches import by_type, phases_of
from abw.core.policy.rules.critical import Critical
from abw.core.policy.rules.depth import Depth
from abw.core.policy.schedule import Schedule
from tests.core.policy import brute
from tests.core.policy.graphs import dag, random_dag


@given(st.integers(0, 10**6), st.integers(0, 40), st.sampled_from([0.05, 0.2]))
def test_a_batch_of_a_group_is_a_launch(seed: int, nodes: int, density: float) -> None:
    graph = random_dag(seed, nodes, 4, density)
    groups = Groups(("a+c", "b", "d"), np.array([0, 1, 0, 2], np.int32))
    schedule = replace(Critical().schedule(groups.apply(graph)), unseen=3)
    found = by_type(schedule, graph)
    check_schedule(graph, found)
    assert found.unseen == 3
    assert len(found.launches) == len(schedule) + 1
    for launch in range(len(schedule)):
        first, last = found.launches[launch : launch + 2].tolist()
        types = found.type[first:last].tolist()
        assert types == sorted(set(types))
        together = schedule.nodes[schedule.ptr[launch] : schedule.ptr[launch + 1]].tolist()
        for b in range(first, last):
            own = found.nodes[found.ptr[b] : found.ptr[b + 1]].tolist()
            assert own == [v for v in together if graph.type[v] == found.type[b]]


@given(st.integers(0, 10**6), st.integers(1, 30))
def test_single_types_stay_as_they_are(seed: int, nodes: int) -> None:
    graph = random_dag(seed, nodes, 3, 0.2)
    schedule = Critical().schedule(graph)
    found = by_type(schedule, graph)
    for a, b in ((found.type, schedule.type), (found.ptr, schedule.ptr), (found.nodes, schedule.nodes)):
        assert np.array_equal(a, b)
    assert np.array_equal(found.launches, schedule.launches)


@given(st.integers(0, 10**6), st.integers(2, 20), st.data())
def test_the_checker_knows_what_a_launch_may_hold(seed: int, nodes: int, data: st.DataObject) -> None:
    graph = random_dag(seed, nodes, 3, 0.15)
    schedule = Critical().schedule(graph)
    cuts = data.draw(st.lists(st.integers(1, len(schedule)), unique=True))
    launch_ptr = np.array(sorted({0, len(schedule), *cuts}), np.int32)
    launch = np.repeat(np.arange(len(launch_ptr) - 1), np.diff(launch_ptr))
    launch_of = dict(zip(schedule.nodes.tolist(), np.repeat(launch, np.diff(schedule.ptr)), strict=True))
    right = all(launch_of[u] < launch_of[v] for v, above in enumerate(brute.producers(graph)) for u in above)
    launched = replace(schedule, launch_ptr=launch_ptr)
    if right:
        check_schedule(graph, launched)
    else:
        with pytest.raises(CheckError, match="in the same launch"):
            check_schedule(graph, launched)


@pytest.mark.parametrize("ends", [[0, 1], [1, 2], [0, 1, 1, 2]])
def test_launches_span_the_batches(ends: list[int]) -> None:
    graph = dag(("a", "b"), [0, 1], [])
    ptr, nodes = np.array([0, 1, 2], np.int32), np.array([0, 1], np.int32)
    schedule = Schedule(np.array([0, 1], np.int32), ptr, nodes, launch_ptr=np.array(ends, np.int32))
    with pytest.raises(CheckError, match="launches do not span"):
        check_schedule(graph, schedule)


@given(st.integers(0, 10**6), st.integers(0, 30), st.sampled_from([0.05, 0.2]))
def test_phases_are_the_longest_chain_of_batches(seed: int, nodes: int, density: float) -> None:
    graph = random_dag(seed, nodes, 4, density)
    above = brute.producers(graph)
    for policy in (Critical(), Depth()):
        schedule = policy.schedule(graph)
        of = {
            v: b
            for b in range(len(schedule))
            for v in schedule.nodes[slice(*schedule.ptr[b : b + 2])].tolist()
        }
        reads = {b: {of[u] for v, own in of.items() if own == b for u in above[v]} for b in of.values()}

        def phase(b: int, reads: dict[int, set[int]] = reads) -> int:
            return 1 + max((phase(a, reads) for a in reads[b]), default=0)

        longest = max(map(phase, reads), default=0)
        assert phases_of(graph, schedule) == longest
    assert longest == max(brute.depth(graph), default=-1) + 1  # the fewest
