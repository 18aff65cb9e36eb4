"""Pictures as data, against slow and obvious versions of the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.base.errors import AbwError
from abw.core.graph.bounds import heights, lower_bound
from abw.core.graph.dag import Dag
from abw.core.ir.network import Granularity
from abw.core.policy.learned.policyfile import policy_of
from abw.core.policy.learned.states import ENCODINGS, Encoding
from abw.core.policy.registry import PLAIN, get_policy
from abw.core.policy.schedule import Schedule
from abw.core.run.pipeline import RunOptions, run
from abw.core.spec.load import Overrides, load_cell
from abw.core.store.runs import StoredRun
from abw.core.tools.needed import batch_of
from abw.viz.data.fsm import policy_alone, policy_picture
from abw.viz.data.memory import arena_picture, memory_picture
from abw.viz.data.pictures import END, as_json
from abw.viz.data.scene import Scene, scene_of_run, scene_of_spec
from abw.viz.data.steps import batches_picture, frontier_picture, graph_picture
from tests.core.policy.graphs import random_dag

dags = st.builds(
    random_dag,
    seed=st.integers(0, 10_000),
    nodes=st.integers(1, 40),
    types=st.integers(1, 4),
    density=st.floats(0.02, 0.3),
)


@given(dags, st.sampled_from(PLAIN))
def test_a_schedule_has_as_many_free_steps_as_the_lower_bound(dag: Dag, policy: str) -> None:
    schedule, none = get_policy(policy).schedule(dag), np.zeros(len(dag), np.int32)
    (lane,) = batches_picture(Scene("", "", 0, 1, dag, none, none, {policy: schedule}, None)).lanes
    for type, bound in enumerate(lower_bound(dag)):
        assert lane.free[lane.type == type].sum() == bound
    assert lane.free.tolist() == slow_free(dag, schedule)
    assert ((lane.late == 0) == lane.free).all()
    assert ((lane.behind < 0) == lane.free).all()


def slow_free(dag: Dag, schedule: Schedule) -> list[bool]:
    """Whether each batch lowers the largest height among the remaining nodes of its type."""
    height, left = heights(dag), np.ones(len(dag), bool)
    found = []
    for b, type in enumerate(schedule.type):
        own = dag.type == type
        before = height[left & own].max()
        left[schedule.nodes[schedule.ptr[b] : schedule.ptr[b + 1]]] = False
        found.append(bool(height[left & own].max(initial=0) < before))
    return found


def test_fig1_is_what_the_paper_draws(fig1: Scene) -> None:
    picture = batches_picture(fig1)
    assert [(lane.policy, len(lane.type)) for lane in picture.lanes] == [
        ("fsm", 6),
        ("depth", 9),
        ("agenda", 7),
    ]
    assert [picture.types[t] for t in picture.lanes[0].type] == ["L", "I", "I", "I", "O", "R"]
    assert picture.lanes[0].width.tolist() == [4, 1, 1, 1, 7, 1]
    assert picture.lanes[0].free.all()
    # the outputs ruin the others' schedules: every batch that is not free is one of O
    for lane in picture.lanes[1:]:
        assert {picture.types[t] for t in lane.type[~lane.free]} == {"O"}
    fsm = policy_picture(fig1, "fsm")
    way = [fsm.states[s] for s in fsm.steps]
    assert [set(state.ready) for state in way] == [{"L"}, *[{"O", "I"}] * 3, {"O"}, {"R"}]
    assert [state.chosen for state in way] == ["L", "I", "I", "I", "O", "R"]
    assert sum(t.count for t in fsm.transitions) == 6
    assert [t for t in fsm.transitions if t.target == END] == [t for t in fsm.transitions if t.type == "R"]


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_learned_policy_does_what_its_picture_says(home: Path, encoding: Encoding) -> None:
    scene = scene_of_spec(
        Path("specs/treelstm-2type.yaml"), Overrides(dims={"hidden": 4}, limit=4), encoding=encoding
    )
    picture, schedule = policy_picture(scene, "fsm"), scene.schedules["fsm"]
    assert picture.encoding == encoding
    for step, type in zip(picture.steps, schedule.type, strict=True):
        state = picture.states[step]
        assert not state.known or state.chosen == scene.dag.types[type]
    assert sum(not picture.states[step].known for step in picture.steps) == schedule.unseen


@pytest.mark.parametrize("policy", ["fsm", "depth", "agenda"])
def test_policy_pictures_follow_the_schedule(lattice: Scene, policy: str) -> None:
    picture, schedule = policy_picture(lattice, policy), lattice.schedules[policy]
    assert len(picture.steps) == len(schedule)
    assert sum(sum(state.taken.values()) for state in picture.states) == len(schedule)
    for step, type in zip(picture.steps, schedule.type, strict=True):
        state = picture.states[step]
        assert lattice.dag.types[type] in state.ready
        assert state.taken[lattice.dag.types[type]] > 0
    ins = {s: sum(t.count for t in picture.transitions if t.target == s) for s in range(len(picture.states))}
    outs = {s: sum(t.count for t in picture.transitions if t.source == s) for s in range(len(picture.states))}
    first = picture.steps[0]
    assert all(outs[s] == ins[s] + (s == first) for s in outs)


def test_a_policys_file_alone_is_a_picture_too(lattice: Scene) -> None:
    assert lattice.learned
    again = policy_of(json.loads(lattice.learned.to_json()))[0]
    picture = policy_alone(again)
    assert len(picture.states) == len(again.states)
    assert picture.steps == () == picture.transitions
    state = picture.states[0]
    best = max(state.q, key=lambda name: state.q[name])
    assert state.chosen == best
    assert state.visits.keys() == state.q.keys()


def test_the_graph_is_the_dag_numbered_by_batches(lattice: Scene) -> None:
    picture, dag = graph_picture(lattice), lattice.dag
    edges = {(u, int(w)) for u in range(len(dag)) for w in dag.succ[dag.succ_ptr[u] : dag.succ_ptr[u + 1]]}
    assert set(zip(picture.source.tolist(), picture.target.tolist(), strict=True)) == edges
    for p, schedule in enumerate(lattice.schedules.values()):
        assert (picture.batch[p] == batch_of(schedule, len(dag))).all()
        assert (picture.batch[p][picture.source] < picture.batch[p][picture.target]).all()
        assert (schedule.type[picture.batch[p]] == picture.type).all()


def test_the_first_instances_alone_are_a_part_of_the_graph(lattice: Scene) -> None:
    whole, part = graph_picture(lattice), graph_picture(lattice, instances=1)
    kept = np.flatnonzero(whole.instance == 0)
    assert part.type.tolist() == whole.type[kept].tolist()
    assert part.batch.tolist() == whole.batch[:, kept].tolist()
    inside = np.isin(whole.source, kept) & np.isin(whole.target, kept)
    assert len(part.source) == inside.sum()
    assert kept[part.source].tolist() == whole.source[inside].tolist()


def test_frontiers_hold_what_is_executed(lattice: Scene) -> None:
    for policy in lattice.schedules:
        picture = frontier_picture(lattice, policy)
        chosen = picture.ready[np.arange(len(picture.lane.type)), picture.lane.type]
        assert (chosen >= picture.lane.width).all()
        if policy != "depth":  # which splits what is ready by depth
            assert (chosen == picture.lane.width).all()


@pytest.mark.parametrize("name", ["lstm", "gru", "treelstm", "mv", "treernn", "linear-pair"])
def test_memory_tells_of_every_copy(root: Path, name: str) -> None:
    cell = load_cell(root / "specs" / "cells" / f"{name}.yaml")
    picture = memory_picture(cell)
    for ordering in (picture.before, picture.after):
        statuses = [o.status for batch in ordering.batches for o in batch.operands]
        assert statuses.count("copied") == ordering.copies
        names = [v.name for v in ordering.variables]
        assert len(set(names)) == len(names)
    assert picture.after.copies <= picture.before.copies


def test_arenas_are_filled_without_gap_or_overlap(lattice: Scene) -> None:
    assert lattice.graph
    picture = arena_picture(lattice.graph, lattice.schedules["fsm"])
    for arena, (head, rows) in enumerate(zip(picture.head, picture.rows, strict=True)):
        blocks = sorted((b.first, b.rows, b.batch) for b in picture.blocks if b.arena == arena)
        end = head
        for first, size, _ in blocks:
            assert first == end
            end += size
        assert end == rows


def test_a_run_gives_the_same_pictures_as_its_spec(fig1: Scene, fig1_run: StoredRun) -> None:
    again = scene_of_run(fig1_run)
    assert policy_picture(again, "fsm").steps == policy_picture(fig1, "fsm").steps
    assert as_json(batches_picture(again)) == as_json(batches_picture(fig1))
    assert as_json(graph_picture(again)) == as_json(graph_picture(fig1))
    assert [k.name for k in again.kept] == ["total"]
    assert again.kept[0].values.shape == (1, 5)


def test_a_run_whose_data_is_gone_still_has_its_graph(fig1_run: StoredRun, tmp_path: Path) -> None:
    fig1_run.report["data"] = str(tmp_path / "gone.txt")
    scene = scene_of_run(fig1_run)
    assert scene.graph is None
    assert scene.kept == ()
    assert len(graph_picture(scene).type) == 15


def test_a_damaged_or_missing_mini_batch_is_an_error_with_a_hint(fig1_run: StoredRun) -> None:
    with pytest.raises(AbwError, match="no mini-batch 3"):
        scene_of_run(fig1_run, 3)
    (fig1_run.path / "batches" / "0000.npz").write_bytes(b"nothing of the kind")
    with pytest.raises(AbwError, match=r"0000\.npz is damaged"):
        scene_of_run(fig1_run)


def test_every_picture_is_json(lattice: Scene) -> None:
    assert lattice.graph
    for picture in (
        policy_picture(lattice, "fsm"),
        policy_picture(lattice, "agenda"),
        batches_picture(lattice),
        frontier_picture(lattice, "fsm"),
        graph_picture(lattice),
        arena_picture(lattice.graph, lattice.schedules["fsm"]),
    ):
        text = json.dumps(as_json(picture), allow_nan=False)
        assert json.loads(text).keys() == picture.__dataclass_fields__.keys()


@pytest.mark.parametrize("granularity", ["cell", "op"])
def test_a_spec_is_shown_as_it_would_be_run(home: Path, granularity: Granularity) -> None:
    overrides = Overrides(dims={"hidden": 4}, limit=4)
    scene = scene_of_spec(Path("specs/lattice.yaml"), overrides, granularity)
    report = run(Path("specs/lattice.yaml"), overrides, RunOptions(granularity=granularity))
    assert scene.own == report["policy"] == "auto"
    assert scene.title == f"lattice-lstm (auto: {report['picked']})"
    assert len(scene.schedules["auto"]) == report["batches"]
    assert not report["training"]["fresh"]
    assert len(policy_picture(scene, "auto").steps) == report["batches"]
