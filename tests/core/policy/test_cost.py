"""Costs: what schedules cost, what search and the greedy rule make of it, against everything tried."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abw.core.base.errors import AbwError
from abw.core.graph.bounds import heights
from abw.core.graph.dag import Dag
from abw.core.policy.check import check_schedule
from abw.core.policy.cost import Cost, cost_of, counting, least_cost, regret, rest
from abw.core.policy.learned.learner import learn, learn_best
from abw.core.policy.registry import COSTED, get_policy
from abw.core.policy.rules.frontier import edges, execute, start
from abw.core.policy.rules.remaining import is_free, start_remaining, step_remaining
from abw.core.policy.rules.weight import PATH, Weight
from abw.core.policy.schedule import Schedule
from abw.core.policy.search.search import Search
from abw.core.run.workload import load_workload, open_model
from abw.core.spec.load import Overrides
from tests.core.policy import brute, graphs

TYPES = 4
SMALL = st.builds(
    graphs.random_dag,
    seed=st.integers(0, 10**6),
    nodes=st.integers(0, 11),
    types=st.just(TYPES),
    density=st.floats(0, 0.5),
)
EIGHTHS = st.lists(st.integers(0, 40), min_size=TYPES, max_size=TYPES)  # exact as binary fractions
COSTS = st.builds(
    lambda launch, row, tile: Cost(np.array(launch) / 8, np.array(row) / 8, np.array(tile, np.int32)),
    EIGHTHS,
    EIGHTHS,
    st.lists(st.integers(1, 4), min_size=TYPES, max_size=TYPES),
)


def price_of(cost: Cost) -> Callable[[int, int], Fraction]:
    """The definition, with exact numbers."""

    def price(t: int, rows: int) -> Fraction:
        tile = int(cost.tile[t])
        return Fraction(cost.launch[t]) + Fraction(cost.row[t]) * tile * math.ceil(Fraction(rows, tile))

    return price


@given(SMALL, COSTS)
def test_a_schedule_costs_the_sum_of_its_batches(dag: Dag, cost: Cost) -> None:
    schedule = Weight(PATH).schedule(dag)
    sizes = np.diff(schedule.ptr).tolist()
    batches = zip(schedule.type.tolist(), sizes, strict=True)
    assert cost_of(schedule, cost) == sum(price_of(cost)(t, rows) for t, rows in batches)
    assert cost_of(schedule, counting(TYPES)) == len(schedule)


@given(SMALL, COSTS)
def test_exact_search_finds_the_least_cost_and_knows_it(dag: Dag, cost: Cost) -> None:
    found = Search(width=1, exact=True, cost=cost).find(dag)
    check_schedule(dag, found.schedule)
    assert found.optimal
    assert found.cost == cost_of(found.schedule, cost) == brute.cheapest(dag, price_of(cost))


@given(SMALL, COSTS, st.integers(1, 6), st.integers(1, 3))
def test_what_a_narrow_beam_proves_of_costs_is_true(dag: Dag, cost: Cost, width: int, core: int) -> None:
    found = Search(width=width, core=core, cost=cost).find(dag)
    check_schedule(dag, found.schedule)
    best = brute.cheapest(dag, price_of(cost))
    assert found.at_least <= best <= found.cost == cost_of(found.schedule, cost)
    assert not found.optimal or found.cost == best
    assert found.cost <= cost_of(Weight(PATH, cost=cost).schedule(dag), cost)


def test_costs_on_graphs_that_no_greedy_rule_solves() -> None:
    rng = random.Random(0)
    greedy_fails = narrow_fails = unproven = longer = 0
    for _ in range(40):
        dag = graphs.strings(["".join(rng.choices("abcd", k=5)) for _ in range(4)])
        launch, row = ([rng.choice([1, 2, 4, 8, 16]) / 8 for _ in dag.types] for _ in range(2))
        tile = np.array([rng.choice([1, 2, 4]) for _ in dag.types], np.int32)
        cost = Cost(np.array(launch), np.array(row), tile)
        best = brute.cheapest(dag, price_of(cost))
        exact, narrow = Search(width=1, exact=True, cost=cost).find(dag), Search(width=2, cost=cost).find(dag)
        assert exact.cost == exact.at_least == best
        assert Search(width=4096, cost=cost).find(dag).cost == best
        assert narrow.at_least <= best <= narrow.cost
        greedy_fails += cost_of(Weight(PATH, cost=cost).schedule(dag), cost) > best
        narrow_fails += narrow.cost > best
        unproven += not narrow.optimal
        longer += len(exact.schedule) > brute.optimum(dag)
    assert min(greedy_fails, narrow_fails, unproven, longer) > 5


@given(SMALL, COSTS, st.randoms(use_true_random=False))
@settings(max_examples=60)
def test_the_remaining_cost_is_admissible_and_regret_is_what_it_says(
    dag: Dag, cost: Cost, choose: random.Random
) -> None:
    frontier = start(dag)
    remaining = start_remaining(dag, frontier, heights(dag))
    done: frozenset[int] = frozenset()
    spent, price = Fraction(0), price_of(cost)

    def least() -> float:
        rows = frontier.end - frontier.head
        return sum(rest(cost, t, int(rows[t]), int(remaining.top[t])) for t in range(TYPES))

    assert least() == least_cost(dag, cost)
    while len(done) < len(dag):
        assert least() <= brute.cheapest(dag, price, done)
        steps = brute.ready(dag, done, brute.producers(dag))
        a = choose.choice(list(steps))
        ready, rows = len(steps[a]), int(frontier.end[a] - frontier.head[a])
        before = spent + Fraction(least())
        more = regret(cost, a, ready, rows, int(remaining.top[a]), is_free(remaining, a))
        execute(edges(dag), frontier, a)
        step_remaining(frontier, remaining, a)
        done |= steps[a]
        spent += price(a, ready)
        assert spent + Fraction(least()) - before == more >= 0
    assert least() == 0


def a_type_dear_to_launch() -> Cost:
    return Cost(np.array([10.0, 1.0]), np.zeros(2), np.ones(2, np.int32))


def a_type_in_tiles_of_four() -> Cost:
    return Cost(np.ones(2), np.ones(2), np.array([4, 1], np.int32))


@pytest.mark.parametrize(
    ("cost", "of_fewest", "least"), [(a_type_dear_to_launch(), 22, 14), (a_type_in_tiles_of_four(), 16, 13)]
)
def test_fewest_batches_and_least_cost_differ(cost: Cost, of_fewest: int, least: int) -> None:
    # the only sequence of four is abba, with two batches of a; one batch of a needs five: bbabb
    dag = graphs.strings(["abb", "bba"])
    fewest, cheapest = Search().find(dag), Search(cost=cost).find(dag)
    assert fewest.schedule.type.tolist() == [0, 1, 1, 0]
    assert cost_of(fewest.schedule, cost) == of_fewest
    assert cheapest.schedule.type.tolist() == [1, 1, 0, 1, 1]
    assert cheapest.cost == least
    assert cheapest.optimal


def test_the_policies_that_take_a_cost() -> None:
    dag, cost = graphs.strings(["abb", "bba"]), a_type_dear_to_launch()
    found = [cost_of(get_policy(name, cost=cost).schedule(dag), cost) for name in COSTED]
    assert found == [14] * len(COSTED)
    with pytest.raises(AbwError, match="policy agenda"):
        get_policy("agenda", cost=cost)


@given(SMALL.filter(len), COSTS, st.integers(0, 9))
@settings(max_examples=60)
def test_of_the_policies_met_in_learning_the_cheapest_is_kept(dag: Dag, cost: Cost, seed: int) -> None:
    # the first trials are the same however many follow
    found = [learn(dag, encoding="sort", seed=seed, trials=k, cost=cost).schedule(dag) for k in (10, 30, 60)]
    check_schedule(dag, found[-1])
    costs = [cost_of(schedule, cost) for schedule in found]
    assert costs[2] <= costs[1] * (1 + 1e-9) <= costs[0] * (1 + 3e-9)


@given(SMALL.filter(len), st.integers(1, 99), st.integers(0, 9))
@settings(max_examples=40)
def test_learning_with_equal_launches_counts_batches(dag: Dag, launch: int, seed: int) -> None:
    equal = Cost(np.full(TYPES, launch / 8), np.zeros(TYPES), np.full(TYPES, 4, np.int32))
    plain, priced = (learn(dag, encoding="max", seed=seed, trials=60, cost=c) for c in (None, equal))
    assert plain.action.tolist() == priced.action.tolist()
    assert plain.training.curve == priced.training.curve


def test_learning_can_prefer_more_batches() -> None:
    dag, cost = graphs.strings(["abb", "bba"]), a_type_dear_to_launch()
    for learned in (learn(dag, encoding="max", cost=cost), learn_best(dag, cost=cost)):
        assert cost_of(learned.schedule(dag), cost) == 14
        assert learned.training.batches == 5
        assert learned.training.lower_bound == 3
    assert len(learn(dag, encoding="max").schedule(dag)) == 4


@pytest.mark.parametrize(
    ("dear", "cheapest"), [(1.0, "abbac"), (1.9, "abbac"), (2.1, "bbabbc"), (8.0, "bbabbc")]
)
def test_the_cheapest_schedule_depends_on_the_launches(root: Path, dear: float, cheapest: str) -> None:
    workload = load_workload(open_model(root / "specs/uneven.yaml", Overrides(dims={"hidden": 8})), "cell")
    dag = workload.graph(0, 2).dag
    cost = Cost(np.array([dear, 1.0, 1.0]), np.array([3.0, 0.5, 0.25]), np.ones(3, np.int32))

    def types(schedule: Schedule) -> str:
        return "".join(dag.types[t] for t in schedule.type)

    assert types(get_policy("search").schedule(dag)) == "abbac"
    found = get_policy("search", cost=cost).schedule(dag)
    assert types(found) == cheapest
    # two nodes of a, four of b, two of c
    launches = cheapest.count("a") * dear + cheapest.count("b") + cheapest.count("c")
    assert cost_of(found, cost) == pytest.approx(launches + 2 * 3 + 4 * 0.5 + 2 * 0.25)
