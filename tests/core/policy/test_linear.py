"""The linear rule, against an oracle in exact numbers, and the weights that climbing finds."""

from __future__ import annotations

from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.graph.dag import Dag
from abw.core.policy.check import check_schedule
from abw.core.policy.cost import Cost, cost_of
from abw.core.policy.learned.climb import climb
from abw.core.policy.registry import get_policy
from abw.core.policy.rules.linear import FEATURES, Linear, Scorer, weights_of
from abw.core.policy.search.search import Repaired
from tests.core.policy import brute, graphs
from tests.core.policy.test_policies import RANDOM, batches

WEIGHTS = st.lists(st.sampled_from((0.0, 0.0, 0.5, 1.0, 2.0, -1.0, 7.25)), min_size=10, max_size=10)


def log(x: Fraction) -> Fraction:
    """log2 at powers of two, straight lines between them."""
    power = 0
    while Fraction(2) ** (power + 1) <= x:
        power += 1
    while Fraction(2) ** power > x:
        power -= 1
    return power + x / Fraction(2) ** power - 1


def features(dag: Dag, done: brute.Nodes) -> dict[int, dict[str, Fraction]]:
    """Those of each type on the frontier, as their descriptions say."""
    above = brute.producers(dag)
    frontier = brute.ready(dag, done, above)
    on = frozenset[int]().union(*frontier.values())

    @cache
    def length(v: int) -> int:
        below = dag.succ[dag.succ_ptr[v] : dag.succ_ptr[v + 1]].tolist()
        return 1 + max((length(w) for w in below), default=0)

    def mass(nodes: set[int] | brute.Nodes, power: int = 4) -> Fraction:
        return Fraction(sum(length(v) ** power for v in nodes))

    found = {}
    for t, ready in frontier.items():
        left = {v for v in range(len(dag)) if dag.type[v] == t and v not in done}
        soon = {
            v
            for v in left - ready
            if above[v] - done <= on and not any(dag.type[u] == t for u in above[v] - done)
        }
        height = {v: brute.height(dag, v) for v in left}
        critical = {v for v in left if height[v] == max(height.values())}
        found[t] = {
            "mass": log(mass(ready)),
            "mass_share": log(mass(ready) / mass(left)),
            "far_share": log(mass(ready, 8) / mass(left, 8)),
            "count": log(Fraction(len(ready))),
            "count_share": log(Fraction(len(ready), len(left))),
            "longest": log(Fraction(max(length(v) for v in ready))),
            "next_share": log(mass(ready) / (mass(ready) + mass(soon))),
            "none_next": Fraction(not soon),
            "all": Fraction(ready == left),
            "free": Fraction(critical <= ready),
        }
    return found


@given(RANDOM, WEIGHTS)
def test_the_type_with_the_largest_sum_goes_first(dag: Dag, weights: list[float]) -> None:
    schedule = Linear(np.array(weights)).schedule(dag)
    check_schedule(dag, schedule)
    done: brute.Nodes = frozenset()
    for a, nodes in batches(schedule):
        assert brute.ready(dag, done, brute.producers(dag))[a] == nodes
        value = {
            t: sum(Fraction(w) * known[name] for name, w in zip(FEATURES, weights, strict=True))
            for t, known in features(dag, done).items()
        }
        assert value[a] >= max(value.values()) - Fraction(1, 10**9)  # sums are rounded
        done |= nodes


def test_the_first_of_equals_goes_first() -> None:
    dag = graphs.dag("abc", [2, 1, 0], [])
    assert Linear(np.zeros(10)).schedule(dag).type.tolist() == [0, 1, 2]


def test_counting_ends_where_there_are_more() -> None:
    dag = graphs.random_dag(3, 120, 6, 0.05)
    weights = Linear().weights
    scorer, batches = Scorer(dag, free=False), len(Linear().schedule(dag))
    assert scorer.count(weights, len(dag)) == scorer.count(weights, batches) == batches
    assert scorer.count(weights, batches - 1) == batches
    assert scorer.count(weights, 3) == 4
    assert scorer.schedule(weights).type.tolist() == get_policy("linear").schedule(dag).type.tolist()


@pytest.mark.parametrize("free", [False, True])
def test_climbing_makes_it_no_worse(free: bool) -> None:
    lessons = [graphs.random_dag(seed, 60, 5, 0.1) for seed in range(3)]
    rule = climb(lessons, free=free, seed=1)
    assert np.array_equal(rule.weights, climb(lessons, free=free, seed=1).weights)
    assert rule.weights[list(FEATURES).index("free")] == 0 or free
    learned, usual = (sum(len(p.schedule(d)) for d in lessons) for p in (rule, Linear()))
    assert learned < usual  # on what it was learned from
    better = climb(lessons, [rule], free=True, seed=2)
    assert sum(len(better.schedule(d)) for d in lessons) <= learned


def test_climbing_minimises_a_cost() -> None:
    lessons = [graphs.strings(["abab", "bbaa", "baab", "abbb"])]
    cost = Cost(np.array([50.0, 1.0]), np.zeros(2), np.ones(2, np.int32))
    found = cost_of(climb(lessons, free=True, seed=0, cost=cost).schedule(lessons[0]), cost)
    assert found <= cost_of(Linear().schedule(lessons[0]), cost)
    assert found < cost_of(get_policy("depth").schedule(lessons[0]), cost)


def test_names_of_weights() -> None:
    named = {"mass": 2.0, "free": -1.0}
    assert Linear(weights_of(named)).named == named
    assert weights_of(named).tolist() == [2.0, *[0.0] * 8, -1.0]


@given(RANDOM)
def test_repair_needs_no_more_batches(dag: Dag) -> None:
    repaired = Repaired(work=50).schedule(dag)
    check_schedule(dag, repaired)
    both = [get_policy(name).schedule(dag) for name in ("linear", "linear-reversed")]
    assert brute_least(dag) <= len(repaired) <= min(map(len, both))


def brute_least(dag: Dag) -> int:
    """The optimum where that is quickly found, else 0."""
    return brute.optimum(dag) if len(dag) <= 10 else 0


def test_repair_shortens() -> None:
    dag = graphs.strings(["abcabdca", "bcadbacd", "cabdacbd", "dcbaabcd", "acbdbcad"])
    usual = min(len(get_policy(name).schedule(dag)) for name in ("linear", "linear-reversed"))
    assert len(get_policy("repair").schedule(dag)) < usual
    chain = graphs.dag("ab", [0, 1, 0], [(0, 1), (1, 2)])
    assert len(Repaired().schedule(chain)) == 3
