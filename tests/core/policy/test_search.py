"""Search: against optima found by trying everything."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abw.core.graph.bounds import lower_bound
from abw.core.graph.dag import Dag
from abw.core.policy.check import check_schedule
from abw.core.policy.rules.weight import PATH, Weight
from abw.core.policy.search.search import Search
from tests.core.policy import brute, graphs

SMALL = st.builds(
    graphs.random_dag,
    seed=st.integers(0, 10**6),
    nodes=st.integers(0, 12),
    types=st.integers(1, 4),
    density=st.floats(0, 0.5),
)


@given(SMALL)
def test_exact_search_finds_the_optimum_and_knows_it(dag: Dag) -> None:
    found = Search(width=1, exact=True).find(dag)
    check_schedule(dag, found.schedule)
    assert found.optimal
    assert len(found.schedule) == brute.optimum(dag)


@given(SMALL, st.integers(1, 6))
def test_what_a_narrow_beam_proves_is_true(dag: Dag, width: int) -> None:
    found = Search(width=width).find(dag)
    check_schedule(dag, found.schedule)
    best = brute.optimum(dag)
    assert lower_bound(dag).sum() <= found.at_least <= best <= len(found.schedule)
    assert found.optimal == (found.at_least == len(found.schedule))
    assert len(found.schedule) <= len(Weight(PATH).schedule(dag))


@given(st.lists(st.text("abc", min_size=1, max_size=6), min_size=1, max_size=4))
@settings(max_examples=50)
def test_shortest_common_supersequences(words: list[str]) -> None:
    dag = graphs.strings(words)
    found = Search(width=4, exact=True).find(dag)
    assert found.optimal
    assert len(found.schedule) == brute.optimum(dag)


def test_on_graphs_that_no_greedy_rule_solves() -> None:
    rng = random.Random(0)
    greedy_fails = unproven = 0
    for _ in range(40):
        dag = graphs.strings(["".join(rng.choices("abcd", k=5)) for _ in range(4)])
        best = brute.optimum(dag)
        exact, narrow = Search(width=1, exact=True).find(dag), Search(width=2).find(dag)
        assert len(exact.schedule) == exact.at_least == best
        assert narrow.at_least <= best <= len(narrow.schedule)
        greedy_fails += len(Weight(PATH).schedule(dag)) > best
        unproven += not narrow.optimal
    assert greedy_fails > 10
    assert unproven > 10


@pytest.mark.parametrize("dag", [graphs.fig1(), graphs.fig10(trees=3)])
def test_the_papers_figures(dag: Dag) -> None:
    assert len(Search(width=3).schedule(dag)) == brute.optimum(dag)


def test_real_graphs(shared_data: Path) -> None:
    trees = Search(width=10).find(graphs.trees(shared_data / "trees/train.txt", 64))
    assert len(trees.schedule) == 26
    assert trees.optimal
    dag = graphs.lattices(shared_data / "lattice/train.txt", 64)
    lattices = Search(width=100).find(dag)
    check_schedule(dag, lattices.schedule)
    assert 208 <= lattices.at_least <= len(lattices.schedule) <= 224  # policies.md: 224 at this width
