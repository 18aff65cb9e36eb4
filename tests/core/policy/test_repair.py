"""Repair: sequences stay possible and never get longer; on small graphs they reach the optimum."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abw.core.graph.dag import Dag
from abw.core.policy.check import check_schedule
from abw.core.policy.rules.agenda import Agenda
from abw.core.policy.search.repair import repair
from abw.core.policy.search.search import Search, follow
from tests.core.policy import brute, graphs

SMALL = st.builds(
    graphs.random_dag,
    seed=st.integers(0, 10**6),
    nodes=st.integers(0, 12),
    types=st.integers(1, 4),
    density=st.floats(0, 0.5),
)


def executed(dag: Dag, types: list[int]) -> int:
    """How many nodes are executed, each as soon as its type's turn comes, by plain sets."""
    above, done = brute.producers(dag), frozenset[int]()
    for t in types:
        done |= brute.ready(dag, done, above).get(t, frozenset())
    return len(done)


@given(SMALL, st.integers(0, 2000), st.integers(0, 2**64 - 1))
@settings(max_examples=60)
def test_the_sequence_still_finishes_and_is_no_longer(dag: Dag, work: int, seed: int) -> None:
    start = Agenda().schedule(dag).type
    found = repair(dag, start, work, seed)
    assert brute.optimum(dag) <= len(found) <= len(start)
    assert executed(dag, found.tolist()) == len(dag)


@given(SMALL, st.lists(st.integers(0, 3), max_size=6))
@settings(max_examples=40)
def test_what_a_sequence_does_not_need_goes(dag: Dag, more: list[int]) -> None:
    start = Agenda().schedule(dag).type
    padded = np.concatenate([start, np.array(more, np.int32) % len(dag.types)]).astype(np.int32)
    found = repair(dag, padded, 200)
    assert len(found) <= max(len(start), 2)
    assert executed(dag, found.tolist()) == len(dag)


def test_small_graphs_mostly_reach_the_optimum() -> None:
    rng, better, best = random.Random(1), 0, 0
    for _ in range(30):
        dag = graphs.strings(["".join(rng.choices("abcd", k=5)) for _ in range(4)])
        start = Agenda().schedule(dag)
        found = repair(dag, start.type, 5000)
        best += len(found) == brute.optimum(dag)
        better += len(found) < len(start)
    assert best >= 27 and better > 15


def many(types: int) -> Dag:
    """Thirty chains of 20 letters."""
    rng = random.Random(types)
    return graphs.strings(["".join(rng.choices("abcdefghijklmnopqrst"[:types], k=20)) for _ in range(30)])


def test_the_same_seed_gives_the_same_sequence() -> None:
    dag = many(12)
    start = Search(work=0).schedule(dag).type
    first, again, other = (repair(dag, start, 30_000, seed).tolist() for seed in (0, 0, 1))
    assert first == again != other
    assert len(first) < len(start)


@pytest.mark.parametrize("room", [0, 300_000, 1 << 21])
def test_little_room_changes_nothing_but_the_time(room: int) -> None:
    """States are forgotten and made anew; with none, the sequence stays as it is."""
    dag = many(12)
    start = Search(work=0).schedule(dag).type
    found = repair(dag, start, 20_000, room=room)
    schedule, _ = follow(dag, found)
    check_schedule(dag, schedule)
    assert len(schedule) == len(found) <= len(start)
    assert (len(found) < len(start)) == (room > 0)


def test_search_ends_with_repair() -> None:
    dag = many(20)
    before, after = Search(work=0).find(dag), Search().find(dag)
    check_schedule(dag, after.schedule)
    assert after.cost == len(after.schedule) < 0.95 * len(before.schedule)
    assert before.at_least == after.at_least <= after.cost
