"""Chosen policies: the best of what was tried, within bounds, in a file."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abw.core.base.errors import AbwError
from abw.core.graph.bounds import lower_bound
from abw.core.graph.dag import Dag
from abw.core.policy.check import check_schedule
from abw.core.policy.cost import Cost, cost_of
from abw.core.policy.launches import phases_of
from abw.core.policy.learned import choice, trying
from abw.core.policy.learned.choice import CANDIDATES, ChosenPolicy, Least, fsm_behind
from abw.core.policy.learned.fsm import FsmPolicy
from abw.core.policy.learned.learner import TooManyStatesError, learn
from abw.core.policy.learned.policyfile import any_policy_of
from abw.core.policy.learned.trying import choose
from abw.core.policy.registry import get_policy
from tests.core.policy import graphs


def hard(seed: int, words: int = 12, letters: str = "abcd") -> Dag:
    """Strings: no rule meets the bound on them."""
    rng = np.random.default_rng(seed)
    made = ["".join(rng.choice(list(letters), 9)) for _ in range(words)] + ["".join(letters)]
    return graphs.strings(made)


@given(st.integers(0, 10**6), st.floats(0, 1e-4))
@settings(max_examples=8)
def test_no_candidate_is_better_on_what_they_were_judged_on(seed: int, launch: float) -> None:
    held = [hard(seed), hard(seed + 1)]
    policy = choose([hard(seed + 2)], held, launch=launch)
    for tried in policy.tried:
        if tried.batches is None or any(n.startswith("fsm") for n in tried.policies):
            continue
        found = [policy._named(n) for n in tried.policies]
        least = found[0] if len(found) == 1 else Least(tuple(found))
        assert tried.batches == sum(len(least.schedule(d)) for d in held)
    picked = policy.picked
    assert picked.batches == sum(len(policy.schedule(d)) for d in held)
    able = [t for t in policy.tried if t.batches is not None and policy._has(t)]

    def seconds(batches: int | None, scheduling: float) -> float:
        return (batches or 0) * launch + scheduling

    every = [seconds(t.batches, t.scheduling) for t in able]
    assert seconds(picked.batches, picked.scheduling) == min(every)
    fewest = policy.launching(float("inf")).picked.batches
    assert fewest == min(t.batches for t in able if t.batches is not None)


def test_rules_that_meet_the_bound_end_it() -> None:
    dag = graphs.fig1()
    policy = choose([dag], [dag], apart=False)
    assert policy.picked.batches == lower_bound(dag).sum()
    assert policy.fsm is None
    assert not any("fsm" in t.name or "beam" in t.name for t in policy.tried)
    assert not policy.open
    assert "the only instance" in policy.reason


@pytest.mark.parametrize("launch", [1e-9, 1.0, float("inf")])
def test_where_types_have_an_order_nothing_else_is_tried(launch: float) -> None:
    held = [graphs.ordered_dag(seed, 24, 0.2) for seed in (2, 3)]
    policy = choose([graphs.ordered_dag(1, 24, 0.2)], held, launch=launch)
    assert [t.name for t in policy.tried] == ["phases"]
    assert policy.picked.batches == sum(int(lower_bound(dag).sum()) for dag in held)
    assert not policy.open


def test_a_search_is_tried_where_it_can_pay() -> None:
    held = [hard(3)]
    cheap = choose([hard(4)], held, launch=1e-9)
    assert not any("beam" in t.name for t in cheap.tried)
    assert not cheap.open
    assert cheap.launching(1.0).open  # then it is to be chosen anew
    dear = choose([hard(4)], held, launch=1.0)
    assert any("beam" in t.name for t in dear.tried)
    assert not dear.open
    assert (dear.picked.batches or 0) <= (cheap.launching(1.0).picked.batches or 0)
    assert len(dear.tried) <= CANDIDATES
    assert dear.launching(1e-12).picked.quick


def test_what_cannot_pay_is_not_tried() -> None:
    held = [hard(3), hard(12)]
    told: list[str] = []
    cheap = choose([hard(4)], held, launch=1e-8, ready=told.append)
    dear = choose([hard(4)], held)
    assert told == [t.name for t in sorted(cheap.tried, key=lambda t: t.scheduling)]
    assert len(cheap.tried) < len(dear.tried)
    # nothing that was tried otherwise would have been better
    assert cheap.picked == dear.launching(1e-8).picked
    assert not cheap.open
    assert cheap.launching(1e-5).open


def test_an_fsm_of_too_many_states_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    lesson = hard(5, words=30, letters="abcdefgh")
    with pytest.raises(TooManyStatesError):
        learn(lesson, encoding="sort", trials=200, most=20)
    monkeypatch.setattr(trying, "STATES", 20)
    policy = choose([lesson], [hard(6, letters="abcdefgh")])
    refused = {t.name: t.refused for t in policy.tried if t.refused}
    assert "more than 20 states" in (refused["fsm-sort"] or "")
    assert policy.fsm is None or len(policy.fsm.states) <= 20


def test_files_stay_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trying, "FILE", 300)
    policy = choose([hard(7)], [hard(8)])
    assert policy.fsm is None
    assert all("300 characters" in t.refused for t in policy.tried if t.refused)


def test_the_file_gives_the_same_policy_back() -> None:
    policy = choose([hard(9)], [hard(10)], launch=1e-6)
    again = any_policy_of(json.loads(policy.to_json({"model": "any"})))[0]
    assert isinstance(again, ChosenPolicy)
    again = again.launching(1e-6)
    assert again.to_json() == policy.to_json()
    assert again.picked == policy.picked
    dag = hard(11)
    assert again.schedule(dag).nodes.tolist() == policy.schedule(dag).nodes.tolist()
    with pytest.raises(AbwError, match="other types"):
        again.schedule(graphs.fig1())


def test_learned_weights_are_kept_and_followed() -> None:
    held = [hard(seed, letters="abcdefghij") for seed in (20, 21)]
    lessons = [hard(22, letters="abcdefghij")]
    policy = choose(lessons, held, practice=lambda: lessons, seed=3)
    assert set(policy.linear) == set(choice.WEIGHED)
    again = any_policy_of(json.loads(policy.to_json()))[0]
    assert isinstance(again, ChosenPolicy)
    assert again.to_json() == policy.to_json()
    dag = hard(23, letters="abcdefghij")
    for name in choice.WEIGHED:
        (tried,) = (t for t in policy.tried if t.name == name)
        alone = replace(again, tried=(tried,))
        assert sum(len(alone.schedule(d)) for d in held) == tried.batches
        check_schedule(dag, alone.schedule(dag))
    again = choose(lessons, held, practice=lambda: lessons, seed=3)
    assert [t.batches for t in again.tried] == [t.batches for t in policy.tried]


def test_phases_count_where_batches_run_at_the_same_time() -> None:
    held = [hard(seed, letters="abcdefgh") for seed in (30, 31)]
    lessons = [hard(32, letters="abcdefgh")]
    phased = choose(lessons, held, launch=1e-7, phase=1e-3)
    assert phased.picked.name == "depth"
    assert phased.picked.phases == sum(phases_of(d, phased.schedule(d)) for d in held)
    assert not phased.open
    alone = choose(lessons, held, launch=1e-3)
    assert (alone.picked.batches or 0) < (phased.picked.batches or 0)
    assert alone.launching(1e-7, 1e-3).open  # phases were not counted
    both = choose(lessons, held, launch=1e-3, phase=1e-6)
    again = any_policy_of(json.loads(both.to_json()))[0]
    assert isinstance(again, ChosenPolicy)
    again = again.launching(1e-3, 1e-6)
    assert again.picked == both.picked
    assert not again.open
    for tried in both.tried:
        if tried.cost is not None and both._has(tried):
            one = replace(both, tried=(tried,))
            assert tried.phases == sum(phases_of(d, one.schedule(d)) for d in held)


def test_large_graphs_are_not_repaired(monkeypatch: pytest.MonkeyPatch) -> None:
    held, lessons = [hard(40, letters="abcdefgh")], [hard(41, letters="abcdefgh")]
    assert any(t.name == "repair" for t in choose(lessons, held).tried)
    monkeypatch.setattr(choice, "REPAIRED", 10)
    without = choose(lessons, held)
    assert not any(t.name == "repair" for t in without.tried)
    assert not without.open


def test_files_of_earlier_versions_are_read() -> None:
    policy = choose([hard(9)], [hard(10)])
    document = json.loads(policy.to_json())
    del document["linear"], document["held_out"]["edges"]
    document["tried"] = [t for t in document["tried"] if not any("linear" in n for n in t["policies"])]
    earlier = any_policy_of(document)[0]
    assert isinstance(earlier, ChosenPolicy)
    assert not earlier.linear
    assert earlier.open  # linear rules were not tried
    check_schedule(hard(9), earlier.schedule(hard(9)))


def test_an_fsm_that_was_picked_is_followed() -> None:
    dag = graphs.fig10(trees=6, depth=4)
    fsm = learn(dag, encoding="critical")
    given_ = choose([dag], [dag])
    tried = tuple(t for t in given_.tried if t.name == "fsm-critical") or (
        choice.Tried(("fsm-critical",), 1, 1.0, 0.0),
    )
    policy = ChosenPolicy(dag.types, given_.held, tried, fsm, 0, 0.0)
    assert fsm_behind(policy) is fsm
    assert policy.schedule(dag).type.tolist() == fsm.schedule(dag).type.tolist()
    assert isinstance(
        any_policy_of(json.loads(fsm.to_json()))[0], FsmPolicy
    )  # files of FSMs are read as ever


def test_a_cost_is_what_is_minimised() -> None:
    held = [graphs.strings(["abb", "bba"])]
    cost = Cost(np.array([10.0, 1.0]), np.zeros(2), np.ones(2, np.int32))
    policy = choose(held, held, cost=cost, launch=1.0)
    assert policy.picked.cost == min(t.cost for t in policy.tried if t.cost is not None)
    assert cost_of(policy.schedule(held[0]), cost) == policy.picked.cost  # followed as it was judged
    found = get_policy("critical-free", cost=cost).schedule(held[0])
    assert (policy.picked.cost or 0.0) <= cost_of(found, cost)


def test_graphs_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(AbwError, match="same types"):
        choose([graphs.fig1()], [graphs.fig10()])
