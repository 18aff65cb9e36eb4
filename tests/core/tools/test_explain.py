"""Explanations against the remaining bound computed anew at every step, and against a graph by hand."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.base.errors import AbwError
from abw.core.base.progress import Quiet
from abw.core.graph.dag import Dag
from abw.core.policy.check import check_schedule
from abw.core.policy.registry import PLAIN, get_policy
from abw.core.policy.schedule import Schedule
from abw.core.run.pipeline import RunOptions, run
from abw.core.spec.load import Overrides
from abw.core.store.runs import find_run
from abw.core.tools.explain import Scheduled, causes, explain_run, explain_spec, explanation
from tests.core.policy import brute, graphs


def schedule_of(dag: Dag, batches: list[list[int]]) -> Schedule:
    ptr = np.cumsum([0, *map(len, batches)]).astype(np.int32)
    nodes = np.array([v for batch in batches for v in batch], np.int32)
    found = Schedule(dag.type[[batch[0] for batch in batches]], ptr, nodes)
    check_schedule(dag, found)
    return found


def some_schedule(dag: Dag, rng: random.Random) -> Schedule:
    """All or some ready nodes of any type at a time."""
    above, done, batches = brute.producers(dag), frozenset[int](), []
    while len(done) < len(dag):
        ready = sorted(rng.choice(list(brute.ready(dag, done, above).values())))
        batch = ready if rng.random() < 0.5 else rng.sample(ready, rng.randint(1, len(ready)))
        batches.append(batch)
        done |= set(batch)
    return schedule_of(dag, batches)


def naive_heights(dag: Dag, left: set[int]) -> dict[int, int]:
    """Of the nodes that remain: how many of v's type are on a path that starts at v."""

    def most(v: int, type: int) -> int:
        below = [int(w) for w in dag.succ[dag.succ_ptr[v] : dag.succ_ptr[v + 1]] if int(w) in left]
        return int(dag.type[v] == type) + max((most(w, type) for w in below), default=0)

    return {v: most(v, int(dag.type[v])) for v in left}


@given(
    dag=st.builds(
        graphs.random_dag,
        seed=st.integers(0, 10**6),
        nodes=st.integers(1, 11),
        types=st.integers(1, 4),
        density=st.floats(0, 0.5),
    ),
    seed=st.integers(0, 10**6),
)
def test_held_batches_are_those_that_leave_the_remaining_bound_as_it_was(dag: Dag, seed: int) -> None:
    schedule = some_schedule(dag, random.Random(seed))
    known = causes(dag, schedule)
    held = {h.step: h for h in known.held}
    assert len(schedule) == known.bound.sum() + len(held)
    above, left = brute.producers(dag), set(range(len(dag)))
    for step, type in enumerate(schedule.type.tolist()):
        batch = set(schedule.nodes[schedule.ptr[step] : schedule.ptr[step + 1]].tolist())
        height = naive_heights(dag, left)
        top = max(h for v, h in height.items() if dag.type[v] == type)
        after = naive_heights(dag, left - batch)
        then = max((h for v, h in after.items() if dag.type[v] == type), default=0)
        assert (step in held) == (then == top)
        if step in held:
            late = held[step].late.tolist()
            assert set(late) == {v for v in left - batch if dag.type[v] == type and height[v] == top}
            assert known.batch[late].tolist() == sorted(known.batch[late].tolist())
            waits = held[step].waits_for
            assert waits in left - batch
            assert not above[waits] & left  # it was ready
            assert waits == late[-1] or waits in brute.ancestors(dag)[late[-1]]
        left -= batch


@pytest.mark.parametrize("policy", PLAIN)
def test_policies_that_take_all_ready_nodes_leave_none_out(policy: str) -> None:
    dag = graphs.random_dag(3, 60, 4, 0.05)
    schedule = get_policy(policy).schedule(dag)
    own = np.arange(60, dtype=np.int32)
    found = explanation(Scheduled(dag, schedule, own, own, 0))
    assert found["batches"] - found["lower_bound"] == len(found["held"])
    assert sum(r["batches"] for r in found["reasons"]) == len(found["held"])
    assert sum(i["batches"] for i in found["instances"]) == len(found["held"])
    if policy not in ("depth", "phases"):  # these go by depth
        assert not any(h["was_ready"] for h in found["held"])


def test_two_words_by_hand() -> None:
    """Instance 3 is the chain a, b, a; instance 4 a lone b. Executing b at once costs a batch."""
    dag = graphs.dag("ab", [0, 0, 1, 1], [(0, 2), (2, 1)])
    instance = np.array([0, 0, 0, 1], np.int32)
    vertex = np.array([5, 7, 6, 9], np.int32)
    hasty = Scheduled(dag, schedule_of(dag, [[3], [0], [2], [1]]), instance, vertex, 3)
    found = explanation(hasty)
    assert (found["batches"], found["lower_bound"]) == (4, 3)
    assert [(t["type"], t["lower_bound"], t["batches"], t["not_free"]) for t in found["types"]] == [
        ("a", 2, 2, 0),
        ("b", 1, 2, 1),
    ]
    (held,) = found["held"]
    late = {"type": "b", "instance": 3, "number": 0, "vertex": 6, "step": 2}
    waits = {"type": "a", "instance": 3, "number": 0, "vertex": 5, "step": 1}
    assert (held["step"], held["type"], held["rows"], held["critical"], held["late_nodes"]) == (
        0,
        "b",
        1,
        2,
        1,
    )
    assert (held["late"], held["waits_for"], held["was_ready"]) == ([late], waits, False)
    assert found["reasons"] == [{"type": "b", "waits_for": "a", "batches": 1, "example": 0}]
    assert found["instances"] == [{"instance": 3, "batches": 1}]
    assert [(n["step"], n["type"], n["instance"], n["number"]) for n in found["alone"]] == [
        (0, "b", 4, 0),
        (1, "a", 3, 0),
        (2, "b", 3, 0),
        (3, "a", 3, 1),
    ]
    patient = explanation(Scheduled(dag, schedule_of(dag, [[0], [2, 3], [1]]), instance, vertex, 3))
    assert patient["held"] == patient["reasons"] == []
    assert [n["type"] for n in patient["alone"]] == ["a", "a"]


def test_a_ready_node_that_is_left_out_is_said_to_be() -> None:
    dag = graphs.dag("a", [0, 0], [])
    own = np.arange(2, dtype=np.int32)
    (held,) = explanation(Scheduled(dag, schedule_of(dag, [[0], [1]]), own, own, 0))["held"]
    assert held["was_ready"]
    assert held["late"][0]["instance"] == held["waits_for"]["instance"] == 1


def test_a_run_is_explained_as_its_spec_is(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ABW_HOME", str(tmp_path))
    spec, changes = root / "specs/lattice.yaml", Overrides(batch=16, limit=40, dims={"hidden": 4})
    report = run(spec, changes, RunOptions(policy="agenda"))
    found = [explain_run(find_run(None), number) for number in range(3)]
    for number, mine in enumerate(found):
        other = explain_spec(spec, changes, "agenda", Quiet(), number=number)
        assert other.pop("passes") is not None
        assert mine.pop("passes") is None
        assert other.pop("memory")["rows_bytes"] > 0
        assert mine.pop("memory") is None  # a run keeps no network
        assert mine == other
        assert all(16 * number <= n["instance"] < 16 * (number + 1) for n in mine["alone"])
    assert sum(f["batches"] for f in found) == report["batches"]
    assert sum(f["lower_bound"] for f in found) == report["lower_bound"]
    with pytest.raises(AbwError, match="no mini-batch 3"):
        explain_run(find_run(None), 3)
    (find_run(None).path / "batches" / "0001.npz").write_bytes(b"no archive")
    with pytest.raises(AbwError, match=r"0001\.npz"):
        explain_run(find_run(None), 1)


def test_passes_are_told_where_they_lower_the_bound(root: Path) -> None:
    found = explain_spec(root / "specs/lattice.yaml", Overrides(), "agenda", Quiet())
    assert found["passes"]["fuse"]["nodes"] < found["nodes"]
    assert all(row["lower_bound"] < found["lower_bound"] for row in found["passes"].values())
    assert explain_spec(root / "specs/treelstm.yaml", Overrides(), "agenda", Quiet())["passes"] == {}


@pytest.mark.parametrize("least", [1, 100, 10**6])
def test_a_run_leaves_out_the_nodes_that_its_explanation_leaves_out(
    root: Path, monkeypatch: pytest.MonkeyPatch, least: int
) -> None:
    """Growing mini-batches as large as `auto` looks at when they have grown, but not yet before."""
    monkeypatch.setattr("abw.core.run.dedup.LEAST_NODES", least)
    monkeypatch.setattr("abw.core.run.dedup.worth", lambda *_: True)
    spec, overrides = root / "specs/greedy.yaml", Overrides(limit=8, batch=4, dims={"hidden": 8})
    report = run(spec, overrides, RunOptions(policy="critical", keep=False))
    told = [explain_spec(spec, overrides, "critical", Quiet(), number=number) for number in range(2)]
    assert report["nodes"] == sum(each["nodes"] for each in told)
    assert (report["equal_nodes"] > 0) == (least <= 100)
