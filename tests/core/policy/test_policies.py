"""The policies that need no learning: against oracles on random graphs, known numbers on real ones."""

from __future__ import annotations

import itertools
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.base.errors import AbwError, CheckError
from abw.core.graph.bounds import lower_bound
from abw.core.graph.dag import Dag
from abw.core.policy.check import check_schedule
from abw.core.policy.registry import PLAIN, get_policy
from abw.core.policy.rules.agenda import Agenda
from abw.core.policy.rules.critical import Critical
from abw.core.policy.rules.depth import Depth
from abw.core.policy.rules.phases import Phases
from abw.core.policy.rules.sufficient import Sufficient
from abw.core.policy.rules.weight import PATH, Weight
from abw.core.policy.schedule import Schedule, ready_counts
from tests.core.policy import brute, graphs

RANDOM = st.builds(
    graphs.random_dag,
    seed=st.integers(0, 10**6),
    nodes=st.integers(0, 24),
    types=st.integers(1, 6),
    density=st.floats(0, 0.5),
)


def batches(schedule: Schedule) -> list[tuple[int, brute.Nodes]]:
    """The schedule as (type, set of nodes)."""
    pairs = zip(schedule.ptr, schedule.ptr[1:], strict=False)
    sets = [frozenset(schedule.nodes[i:j].tolist()) for i, j in pairs]
    return list(zip(schedule.type.tolist(), sets, strict=True))


@given(RANDOM, st.sampled_from(PLAIN))
def test_every_schedule_is_valid(dag: Dag, name: str) -> None:
    check_schedule(dag, get_policy(name).schedule(dag))


@given(RANDOM)
def test_depth_groups_by_depth_and_type(dag: Dag) -> None:
    depth = brute.depth(dag)
    groups: dict[tuple[int, int], set[int]] = {}
    for v in range(len(dag)):
        groups.setdefault((depth[v], int(dag.type[v])), set()).add(v)
    expected = [(key[1], frozenset(groups[key])) for key in sorted(groups)]
    assert batches(Depth().schedule(dag)) == expected


@given(RANDOM)
def test_agenda_takes_the_smallest_average_depth_of_what_remains(dag: Dag) -> None:
    depth = brute.depth(dag)

    def average(done: brute.Nodes, a: int) -> Fraction:
        left = [depth[v] for v in range(len(dag)) if dag.type[v] == a and v not in done]
        return Fraction(sum(left), len(left))

    expected = brute.greedy(dag, lambda done, front: min(front, key=lambda a: (average(done, a), a)))
    assert batches(Agenda().schedule(dag)) == list(expected)


@given(RANDOM)
def test_static_agenda_takes_the_smallest_average_depth_of_all(dag: Dag) -> None:
    depth = np.array(brute.depth(dag), np.int64)
    of_type = [depth[dag.type == a] for a in range(len(dag.types))]
    average = [np.float32(d.sum() / (len(d) + 0.001)) for d in of_type]
    expected = brute.greedy(dag, lambda _, front: min(front, key=lambda a: (average[a], a)))
    assert batches(Agenda(static=True).schedule(dag)) == list(expected)


@given(RANDOM)
def test_sufficient_takes_the_largest_ratio(dag: Dag) -> None:
    before = brute.ancestors(dag)

    def choose(done: brute.Nodes, _: dict[int, brute.Nodes]) -> int:
        ratio = brute.ratios(dag, done, before)
        return min(ratio, key=lambda a: (-ratio[a], a))

    assert batches(Sufficient().schedule(dag)) == list(brute.greedy(dag, choose))


@given(RANDOM)
def test_phases_finish_a_component_before_those_that_need_it(dag: Dag) -> None:
    types = range(len(dag.types))
    links = {
        (int(dag.type[u]), int(dag.type[v])) for v, above in enumerate(brute.producers(dag)) for u in above
    }
    reach = {(a, a) for a in types} | links
    for b, a, c in itertools.product(types, repeat=3):
        if (a, b) in reach and (b, c) in reach:
            reach.add((a, c))
    schedule = Phases().schedule(dag)
    batch = {v: b for b, (_, nodes) in enumerate(batches(schedule)) for v in nodes}
    for u, v in itertools.permutations(range(len(dag)), 2):
        a, b = int(dag.type[u]), int(dag.type[v])
        if (a, b) in reach and (b, a) not in reach:
            assert batch[u] < batch[v]
    # inside a component, a batch holds all nodes of a type at one depth
    together = [(a, b) for a, b in reach if (b, a) in reach]
    inner = [
        {u for u in above if (dag.type[u], dag.type[v]) in together}
        for v, above in enumerate(brute.producers(dag))
    ]

    def depth(v: int) -> int:
        return max((depth(u) + 1 for u in inner[v]), default=0)

    groups = {(int(dag.type[v]), depth(v)) for v in range(len(dag))}
    assert len(schedule) == len(groups)


@given(st.integers(0, 10**6), st.integers(0, 24), st.floats(0, 0.5))
def test_phases_make_a_batch_of_a_type_where_types_have_an_order(
    seed: int, nodes: int, density: float
) -> None:
    dag = graphs.ordered_dag(seed, nodes, density)
    schedule = Phases().schedule(dag)
    bound = lower_bound(dag)
    assert "edges" not in vars(dag)  # nobody has asked for them
    check_schedule(dag, schedule)
    without = replace(dag, order=None)
    np.testing.assert_array_equal(bound, lower_bound(without))
    assert len(schedule) == bound.sum() == len(Phases().schedule(without))


@given(RANDOM)
def test_critical_follows_the_longest_path(dag: Dag) -> None:
    expected = brute.greedy(dag, lambda _, frontier: brute.critical_type(dag, frontier))
    assert batches(Critical().schedule(dag)) == list(expected)


@given(RANDOM)
def test_critical_free_takes_what_is_free_or_before_the_longest_path(dag: Dag) -> None:
    height = [brute.height(dag, v) for v in range(len(dag))]

    def choose(done: brute.Nodes, frontier: dict[int, brute.Nodes]) -> int:
        free = {}
        for t, ready in frontier.items():
            left = {v for v in range(len(dag)) if dag.type[v] == t and v not in done}
            if {v for v in left if height[v] == max(height[v] for v in left)} <= ready:
                free[t] = ready
        return brute.critical_type(dag, free or frontier)

    assert batches(Weight(PATH).schedule(dag)) == list(brute.greedy(dag, choose))


@given(
    st.builds(
        graphs.random_dag,
        seed=st.integers(0, 10**6),
        nodes=st.integers(1, 10),
        types=st.integers(1, 4),
        density=st.floats(0, 0.6),
    )
)
def test_lemma_a_ratio_of_one_starts_a_shortest_schedule(dag: Dag) -> None:
    nothing: brute.Nodes = frozenset()
    best = brute.optimum(dag)
    for a, ratio in brute.ratios(dag, nothing, brute.ancestors(dag)).items():
        if ratio == 1:
            assert brute.optimum(dag, brute.ready(dag, nothing, brute.producers(dag))[a]) == best - 1


@given(st.lists(st.text("abc", min_size=1, max_size=5), min_size=2, max_size=2))
def test_schedules_of_strings_are_common_supersequences(words: list[str]) -> None:
    dag = graphs.strings(words)
    a, b = words
    lcs = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
    for i in range(len(a)):
        for j in range(len(b)):
            lcs[i + 1][j + 1] = lcs[i][j] + 1 if a[i] == b[j] else max(lcs[i][j + 1], lcs[i + 1][j])
    shortest = len(a) + len(b) - lcs[-1][-1]
    assert brute.optimum(dag) == shortest
    for name in PLAIN:
        schedule = get_policy(name).schedule(dag)
        letters = [dag.types[t] for t in schedule.type]
        assert len(schedule) >= shortest
        for word in words:
            rest = iter(letters)
            assert all(letter in rest for letter in word)


def test_fig1() -> None:
    dag = graphs.fig1()
    assert len(Depth().schedule(dag)) == 9
    assert len(Agenda().schedule(dag)) == 7
    assert len(Sufficient().schedule(dag)) == 6 == brute.optimum(dag)


def counts(dag: Dag) -> dict[str, int]:
    result = {}
    for name in (name for name in PLAIN if name != "exact"):  # which takes a minute to give up on real data
        schedule = get_policy(name).schedule(dag)
        check_schedule(dag, schedule)
        result[name] = len(schedule)
    return result


def test_real_trees(shared_data: Path) -> None:
    found = counts(graphs.trees(shared_data / "trees/train.txt", 64))
    assert (found["depth"], found["agenda"], found["sufficient"]) == (50, 39, 26)
    assert (found["phases"], found["critical"]) == (26, 26)


def test_real_lattices(shared_data: Path) -> None:
    dag = graphs.lattices(shared_data / "lattice/train.txt", 64)
    found = counts(dag)
    assert (found["depth"], found["agenda"], found["sufficient"]) == (584, 423, 275)
    assert found["search"] <= found["critical"] < found["sufficient"]


def test_unknown_policies_and_options_are_refused() -> None:
    with pytest.raises(AbwError, match="did you mean 'agenda'"):
        get_policy("agneda")
    with pytest.raises(AbwError, match=r"sufficient.*speed"):
        get_policy("sufficient", speed=3)


def test_fsm_must_be_learned() -> None:
    with pytest.raises(AbwError, match="learned first"):
        get_policy("fsm")


@given(RANDOM, st.sampled_from(PLAIN))
def test_ready_counts(dag: Dag, name: str) -> None:
    schedule = get_policy(name).schedule(dag)
    above, done = brute.producers(dag), frozenset[int]()
    counted = ready_counts(dag, schedule)
    assert counted.shape == (len(schedule), len(dag.types))
    for b, (_, batch) in enumerate(batches(schedule)):
        frontier = brute.ready(dag, done, above)
        assert counted[b].tolist() == [len(frontier.get(t, ())) for t in range(len(dag.types))]
        done |= batch


def changed(schedule: Schedule, **arrays: list[int]) -> Schedule:
    old = {"type": schedule.type, "ptr": schedule.ptr, "nodes": schedule.nodes}
    new = old | {name: np.array(values, np.int32) for name, values in arrays.items()}
    return Schedule(new["type"], new["ptr"], new["nodes"])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"nodes": [0, 1, 2, 2]}, "node 2 is executed 2 times|node 3 is never executed"),
        ({"nodes": [0, 1, 2, 4]}, "node numbers"),
        ({"nodes": [0, 1, 3, 2]}, "node 2 of type a is in batch 2, which is of type b"),
        ({"nodes": [2, 1, 0, 3]}, "reads node 0"),
        ({"ptr": [0, 2, 3, 3]}, "span"),
        ({"ptr": [0, 0, 3, 4]}, "batch 0 is empty"),
        ({"type": [0, 0], "ptr": [0, 3, 4]}, "node 3 of type b"),
        ({"type": [0, 0, 2]}, "batch 2 is of type 2"),
    ],
)
def test_the_checker_finds_what_is_wrong(arrays: dict[str, list[int]], message: str) -> None:
    dag = graphs.dag("ab", [0, 0, 0, 1], [(0, 2), (2, 3)])
    right = changed(get_policy("depth").schedule(dag), nodes=[0, 1, 2, 3])
    check_schedule(dag, right)
    with pytest.raises(CheckError, match=message):
        check_schedule(dag, changed(right, **arrays))
