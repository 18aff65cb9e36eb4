"""`abw compare`'s numbers against schedules made one by one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from abw.core.base.errors import AbwError
from abw.core.graph.bounds import lower_bound
from abw.core.graph.dag import Dag
from abw.core.graph.fuse import fuse as fuse_graph
from abw.core.graph.fuse import fuse_network
from abw.core.graph.group import group_types
from abw.core.policy.cost import cost_of, least_cost
from abw.core.policy.costfile import read_cost
from abw.core.policy.learned.learner import learn
from abw.core.policy.registry import get_policy
from abw.core.run.workload import Workload, open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides
from abw.core.tools.compare import CompareOptions, compare

BATCH = 16


def opened(spec: Path, seed: int | None = None) -> Workload:
    """All of a shipped spec's data, in mini-batches of 16."""
    model = open_model(spec, Overrides(batch=BATCH, seed=seed))
    return open_workload(model, read_instances(model.data, None), open_networks(model, "cell"))


def windows(workload: Workload, first: int, count: int) -> list[Dag]:
    last = first + count
    return [workload.graph(k, min(k + BATCH, last)).dag for k in range(first, last, BATCH)]


def test_batches_bound_and_skip_are_those_of_the_schedules(root: Path) -> None:
    spec = root / "specs/treelstm-2type.yaml"
    options = CompareOptions(
        ("depth", "critical", "fsm"), encoding="sort", skip=20, train_limit=8, trials=100
    )
    report = compare(spec, Overrides(batch=BATCH, limit=24), options)
    # the coin is tossed for an instance's number in the file: skipping leaves the graphs as they were
    workload = opened(spec)
    dags = windows(workload, 20, 24)
    training = workload.graph(0, 8).dag
    halves = [workload.graph(0, 4).dag, workload.graph(4, 8).dag]
    fsm = learn(training, also=halves, encoding="sort", seed=0, trials=100)
    assert report["mini_batches"] == 2
    assert report["nodes"] == sum(len(d) for d in dags)
    bound = sum(int(lower_bound(d).sum()) for d in dags)
    assert report["lower_bound"] == bound
    found = {p["policy"]: p for p in report["policies"]}
    for name, policy in (("depth", get_policy("depth")), ("critical", get_policy("critical")), ("fsm", fsm)):
        batches = sum(len(policy.schedule(d)) for d in dags)
        assert found[name]["batches"] == batches
        assert found[name]["ratio"] == found[name]["worst_ratio"] == batches / bound
        assert found[name]["ns_per_node"] > 0
    assert found["depth"]["states"] is None
    assert found["depth"]["train_seconds"] is None
    assert found["fsm"]["states"] == len(fsm.states)
    assert found["fsm"]["train_seconds"] > 0
    assert report["training"]["nodes"] == len(training)
    assert report["training"]["curves"] == {"fsm": [list(p) for p in fsm.training.curve]}
    assert report["instances_trained_on"] == 0


def test_it_says_how_much_of_the_data_is_training_data(root: Path) -> None:
    options = CompareOptions(("depth",), skip=5, train_limit=8)
    report = compare(root / "specs/treelstm.yaml", Overrides(limit=10), options)
    assert report["instances_trained_on"] == 3


def test_several_seeds_toss_the_coin_anew(root: Path) -> None:
    spec = root / "specs/treelstm-2type.yaml"
    report = compare(spec, Overrides(batch=BATCH, limit=16, seed=5), CompareOptions(("agenda",), seeds=3))
    dags = [windows(opened(spec, seed), 0, 16)[0] for seed in (5, 6, 7)]
    bounds = [int(lower_bound(d).sum()) for d in dags]
    batches = [len(get_policy("agenda").schedule(d)) for d in dags]
    row = report["policies"][0]
    assert report["seeds"] == [5, 6, 7]
    assert row["batches_by_seed"] == batches
    assert row["batches"] == pytest.approx(sum(batches) / 3)
    assert report["lower_bound"] == pytest.approx(sum(bounds) / 3)
    assert row["ratio"] == pytest.approx(sum(batches) / sum(bounds))
    assert row["worst_ratio"] == max(b / bound for b, bound in zip(batches, bounds, strict=True))
    assert len({d.type.tobytes() for d in dags}) > 1


@pytest.mark.parametrize("fuse", [False, True])
@pytest.mark.parametrize("group", [False, True])
def test_passes_show_what_they_gain(root: Path, fuse: bool, group: bool) -> None:
    spec = root / "specs/lattice.yaml"
    options = CompareOptions(("critical", "fsm"), fuse=fuse, group=group, trials=10)
    report = compare(spec, Overrides(batch=BATCH, limit=BATCH), options)
    graph = opened(spec).graph(0, BATCH)
    made = fuse_graph(graph, fuse_network(graph.network)) if fuse else graph
    dag = group_types(made.network).apply(made.dag) if group else made.dag
    assert report["passes"] == ["fuse"] * fuse + ["group"] * group
    assert (report["nodes"], report["lower_bound"]) == (len(dag), lower_bound(dag).sum())
    assert report["policies"][0]["batches"] == len(get_policy("critical").schedule(dag))
    without = report["without_passes"]
    if not (fuse or group):
        assert without is None
        return
    assert (without["nodes"], without["lower_bound"]) == (len(graph), lower_bound(graph.dag).sum())
    assert without["policies"][0]["batches"] == len(get_policy("critical").schedule(graph.dag))


def test_batch_sizes_are_means_over_full_mini_batches(root: Path) -> None:
    spec = root / "specs/treelstm.yaml"
    options = CompareOptions(("depth",), sizes=(1, 9))
    report = compare(spec, Overrides(limit=20), options)
    workload = opened(spec)
    spread = [0, 1, 2, 3, 5, 6, 7, 8, 10, 11, 12, 13, 15, 16, 17, 18]  # 16 of 20
    for row, starts in zip(report["batch_sizes"], (spread, [0, 9]), strict=True):
        dags = [workload.graph(k, k + row["batch"]).dag for k in starts]
        assert row["mini_batches"] == len(dags)
        assert row["lower_bound"] == sum(int(lower_bound(d).sum()) for d in dags)
        assert row["policies"][0]["batches"] == sum(len(get_policy("depth").schedule(d)) for d in dags)
    with pytest.raises(AbwError, match="21 instances cannot be made of 20"):
        compare(spec, Overrides(limit=20), replace(options, sizes=(21,)))


def test_the_best_encoding_has_the_fewest_batches_in_training(root: Path) -> None:
    names = ("fsm-best", "fsm-base", "fsm-sort", "fsm-critical")
    report = compare(
        root / "specs/lattice.yaml", Overrides(limit=8), CompareOptions(names, train_limit=8, trials=60)
    )
    best, *others = (p["batches"] for p in report["policies"])  # applied to what they were learned from
    assert best == min(others)


def test_costs_are_those_of_the_schedules(root: Path, tmp_path: Path) -> None:
    spec, path = root / "specs/lattice.yaml", tmp_path / "cost.yaml"
    path.write_text("word: {launch: 20, row: 1, tile: 8}\ndefault: {launch: 1, row: 0.5}\n", encoding="utf-8")
    options = CompareOptions(("agenda", "critical-free", "search"), cost=path, fuse=True, sizes=(8,))
    report = compare(spec, Overrides(batch=BATCH, limit=24), options)
    workload = opened(spec)
    fusion = fuse_network(workload.network)
    dags = [fuse_graph(workload.graph(k, min(k + BATCH, 24)), fusion).dag for k in (0, BATCH)]
    cost = read_cost(path, dags[0].types)
    assert report["least_cost"] == sum(least_cost(d, cost) for d in dags)
    for row in report["policies"]:
        asked = {} if row["policy"] == "agenda" else {"cost": cost}
        schedules = [get_policy(row["policy"], **asked).schedule(d) for d in dags]
        assert row["cost"] == sum(cost_of(s, cost) for s in schedules)
        assert row["batches"] == sum(len(s) for s in schedules)
    assert report["without_passes"]["least_cost"] > report["least_cost"]
    assert report["batch_sizes"][0]["policies"][2]["cost"] > 0
    without = compare(spec, Overrides(limit=8), CompareOptions(("agenda",)))
    assert without["cost"] is without["least_cost"] is without["policies"][0]["cost"] is None


def test_an_unknown_policy_is_refused(root: Path) -> None:
    with pytest.raises(AbwError, match="no policy is called 'agnda'"):
        compare(root / "specs/treelstm.yaml", Overrides(), CompareOptions(("agnda",)))
