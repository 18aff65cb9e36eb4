"""Mini-batches that grow: as a second grower has them, with the reference's values, alone and together."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from abw.core.base.errors import AbwError, InstanceError
from abw.core.base.progress import Clock
from abw.core.exec.agreement import compare
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.interface import Result, TooLargeError
from abw.core.exec.params import init_params
from abw.core.exec.reference import ReferenceExecutor
from abw.core.graph.bind import Binding
from abw.core.graph.construct import construct
from abw.core.graph.graph import Graph
from abw.core.ir.model import Model
from abw.core.plan.plan import Plan
from abw.core.policy.check import check_schedule
from abw.core.policy.registry import get_policy
from abw.core.run.columns import columns_of
from abw.core.run.growing.recheck import recheck
from abw.core.run.minibatches import run_all
from abw.core.run.workload import (
    Workload,
    load_workload,
    open_model,
    open_networks,
    open_sample,
    whole,
)
from abw.core.spec.load import Overrides
from tests.core.run.growing.runs import (
    GROWING,
    SPECS,
    broken,
    check_as_the_oracle,
    grown,
    opened,
    ready,
    same_instances,
    values_by_instance,
)


@pytest.mark.parametrize("name", GROWING)
def test_shipped_specs_grow_as_the_oracle(name: str) -> None:
    workload = opened(SPECS / f"{name}.yaml", hidden=6, limit=6)
    params = init_params(workload.network, 1)
    check_as_the_oracle(workload, grown(workload, ready(workload, "reference", params)), params)


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        *((n, s) for n in ("blas", "cpu") for s in GROWING),
        pytest.param("cuda", "drnn", marks=pytest.mark.simulated),
    ],
)
def test_every_executor_grows_the_same(name: str, spec: str) -> None:
    # to simulate a GPU is slow
    workload = opened(SPECS / f"{spec}.yaml", hidden=6, limit=3 if name in ("blas", "cpu") else 1)
    params = init_params(workload.network, 2)
    expected = grown(workload, ready(workload, "reference", params))
    made = grown(workload, ready(workload, name, params))
    same_instances(made.instances, expected.instances)
    assert max(d.error for d in compare(made.result, expected.result)) < 1e-5
    assert workload.growing is not None
    found = recheck(workload.growing.growth_model, made.instances, expected.result, 1e-5, name, made.picks)
    assert found.decisions and found.close == 0


@pytest.mark.parametrize("spec", ["greedy", "stackrnn", "nested", "early-exit", "beam", "berxit"])
def test_alone_and_together_and_on_two_threads_the_bits_are_the_same(
    spec: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("abw.core.exec.cpu.partition.APART_FLOPS", 1)
    workload = opened(SPECS / f"{spec}.yaml", hidden=16, limit=8)
    params = init_params(workload.network, 4)
    alone, two = ready(workload, "cpu", params, 1), ready(workload, "cpu", params, 2)
    together = grown(workload, alone)
    expected = values_by_instance(together)
    same_instances(grown(workload, two).instances, together.instances)
    assert values_by_instance(grown(workload, two)) == expected
    parts = [grown(workload, alone, i, i + 1) for i in range(8)]
    found = [part for i in range(8) for part in values_by_instance(grown(workload, alone, i, i + 1))]
    assert found == expected
    assert sum(len(part.graph) for part in parts) == len(together.graph)


@pytest.mark.parametrize("executor", ["cpu", "blas"])
def test_outputs_need_no_graph_of_finished_instances(executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    workload = opened(SPECS / "greedy.yaml", hidden=6, limit=4)
    constructed: list[int] = []

    def counted(binding: Binding, first: int, last: int) -> Graph:
        constructed.append(len(binding.instances))
        return construct(binding, first, last)

    monkeypatch.setattr("abw.core.run.growing.grow.construct", counted)
    policy, clock = get_policy("depth"), Clock("construct", "schedule", "plan", "execute")
    runner = ready(workload, executor, init_params(workload.network, 1), 1)
    ((batch, result),) = run_all(workload, policy, runner, clock, windows=[(0, (0, 3))])
    (words,) = columns_of(workload, batch, result)
    assert len(words.values) == words.counts.sum() > 3
    assert constructed == [4]  # of what is given, before growth
    assert len(batch.graph) == len(result.nodes) and batch.graph is batch.plan.graph
    assert constructed == [4, 3]


def test_what_has_grown_is_data_as_any_other() -> None:
    workload = opened(SPECS / "stackrnn.yaml", hidden=6, limit=6)
    finished = whole(workload)
    assert finished.growing is None
    graph = finished.graph(0, 6)
    assert {t.name: n for t, n in zip(finished.network.types, graph.type_sizes, strict=True)}["score"] > 60
    for name in ("depth", "sufficient", "critical"):
        check_schedule(graph.dag, get_policy(name).schedule(graph.dag))


def test_scores_that_are_no_numbers_name_instance_and_step() -> None:
    workload = opened(SPECS / "greedy.yaml", hidden=5, limit=8)
    executor = ready(workload, "cpu", broken(workload, "station"))
    with pytest.raises(
        InstanceError, match=r"score.y is not a number at step 0 of instance 1 .*pairs.txt:2"
    ) as error:
        grown(workload, executor)
    assert error.value.instance == 1
    with pytest.raises(InstanceError) as error:
        grown(workload, executor, 1, 4)
    assert error.value.instance == 1
    left_out: list[int] = []
    clock = Clock("construct", "schedule", "plan", "execute")
    policy = get_policy("critical")
    done = [
        (batch.first, batch.last)
        for batch, _ in run_all(workload, policy, executor, clock, lambda e: left_out.append(e.instance))
    ]
    assert left_out[0] == 1 and done[0] == (0, 1)
    inside = {i for first, last in done for i in range(first, last)}
    assert inside | set(left_out) == set(range(8)) and not inside & set(left_out)


def test_what_does_not_fit_grows_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = opened(SPECS / "greedy.yaml", hidden=5, limit=4)
    executor = ready(workload, "blas", init_params(workload.network, 0))
    run = executor.run

    def small(plan: Plan) -> Result:
        if plan.graph.instances > 2:
            raise TooLargeError(2, 1, "here")
        return run(plan)

    monkeypatch.setattr(executor, "run", small)
    clock = Clock("construct", "schedule", "plan", "execute")
    done = [(b.first, b.last, b.piece) for b, _ in run_all(workload, get_policy("depth"), executor, clock)]
    assert done == [(0, 2, True), (2, 4, True)]


def test_a_wrong_decision_is_found() -> None:
    workload = opened(SPECS / "greedy.yaml", hidden=5, limit=2)
    made = grown(workload, ready(workload, "reference", init_params(workload.network, 0)))
    assert workload.growing is not None
    growth_model = workload.growing.growth_model
    assert recheck(growth_model, made.instances, made.result, 1e-5, "x").close == 0
    fields = dict(made.instances.fields)
    fields["next"] = np.where(fields["next"] >= 0, (fields["next"] + 1) % 200, -1)
    wrong = replace(made.instances, fields=fields)
    with pytest.raises(AbwError, match="decision 'next' of instance 0"):
        recheck(growth_model, wrong, made.result, 1e-5, "x")
    assert recheck(growth_model, wrong, made.result, 1e9, "x").close > 10


@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_a_wrong_decision_is_found_among_scores_without_end(scale: float) -> None:
    """Infinite scores say nothing about how far apart two others may be."""
    workload = opened(SPECS / "greedy.yaml", hidden=5, limit=2)
    params = init_params(workload.network, 0)
    for param, value in zip(workload.network.params, params.values, strict=True):
        if param.name.startswith("score."):
            value *= np.float32(scale)
            if param.name == "score.b":
                value[-1] = -np.inf
                value[2] += 1
    made = grown(workload, ready(workload, "reference", params))
    assert workload.growing is not None
    growth_model = workload.growing.growth_model
    assert recheck(growth_model, made.instances, made.result, 1e-5, "x").close == 0
    fields = dict(made.instances.fields)
    fields["next"] = np.where(fields["next"] == 2, 3, fields["next"])
    wrong = replace(made.instances, fields=fields)
    with pytest.raises(AbwError, match="decision 'next' of instance"):
        recheck(growth_model, wrong, made.result, 1e-5, "x")


ABSENT = """\
model: absent
dims: {hidden: 3}
data: {format: tags, path: d.txt, batch: 3}
tables: {words: {dim: hidden, rows: 8}, depths: {dim: hidden, rows: 4}}
params: {idle: hidden}
grow:
  a:
    links: {up: a or none}
    fields: {depth: number}
    most: 3
    start: {depth: "token[9].index"}
    choose: {go: score.z > -1000}
    then: [{add: a, when: go, up: this, depth: index}]
  token:
    choose: {best: {argmax: read.y, allow: {x: index > 9, y: index > 9, z: index > 9}}}
types:
  read: {per: token, cell: scores.yaml, inputs: {x: "words[word]"}}
  more: {per: token, where: best COMPARED 2, cell: scores.yaml, inputs: {x: read.y}}
  part: {per: a, where: depth COMPARED 2, cell: scores.yaml, inputs: {x: "depths[depth] or idle"}}
  score: {per: a, cell: scores.yaml, inputs: {x: up.part.y or idle}}
outputs: {more: more.y, part: part.y}
"""


@pytest.mark.parametrize("comparison", ["<", "<=", "!="])
def test_an_absent_number_passes_no_condition(random_folder: Path, comparison: str) -> None:
    """Neither where types run in rounds nor where they run after growth."""
    spec = random_folder / "absent.yaml"
    spec.write_text(ABSENT.replace("COMPARED", comparison))
    workload = opened(spec)
    params = init_params(workload.network, 0)
    made = grown(workload, ready(workload, "reference", params))
    check_as_the_oracle(workload, made, params)
    sizes = {t.name: n for t, n in zip(workload.network.types, made.graph.type_sizes.tolist(), strict=True)}
    assert (sizes["more"], sizes["part"], sizes["score"]) == (0, 2 * 5, 3 * 5)


@pytest.mark.parametrize("name", ["stackrnn", "berxit"])
def test_what_has_grown_in_operations_and_with_reductions_in_place(name: str) -> None:
    """Not while it grows; the finished graph of operations computes what the one of cells does."""
    model = open_model(SPECS / f"{name}.yaml", Overrides(dims={"hidden": 4}, limit=2))
    cells = load_workload(model, "cell")
    params = init_params(cells.network, 1)

    def computed(workload: Workload) -> Result:
        executor = ReferenceExecutor()
        executor.prepare(workload.network, params)
        return executor.run_graph(workload.graph(0, 2))

    expected = computed(cells)
    for granularity, fuse in (("op", False), ("cell", True)):
        workload = load_workload(model, granularity, fuse=fuse)  # type: ignore[arg-type]
        same_instances(workload.instances, cells.instances)
        found = computed(workload)
        assert (len(found.nodes) > len(expected.nodes)) == (granularity == "op")
        for ours, theirs in zip(found.nodes.results, expected.nodes.results, strict=True):
            np.testing.assert_allclose(found.values(ours.reference), expected.values(theirs.reference))


def test_granularity_op_is_refused(tmp_path: Path) -> None:
    model: Model = open_model(SPECS / "greedy.yaml", Overrides())
    for granularity, fuse in (("op", False), ("cell", True)):
        with pytest.raises(AbwError, match="greedy grows"):
            open_networks(model, granularity, fuse=fuse)  # type: ignore[arg-type]


def test_nothing_follows_the_end() -> None:
    """Where </s> scores well it ends half of the sentences, and the others at `most`."""
    workload = opened(SPECS / "greedy.yaml", hidden=5, limit=12)
    params = init_params(workload.network, 3)
    scores = next(
        v for p, v in zip(workload.network.params, params.values, strict=True) if p.name == "score.b"
    )
    ends = workload.model.tables[1].vocab
    assert ends is not None
    endless = grown(workload, ready(workload, "reference", params)).result.value(2, 0).reshape(12, 20, -1)
    behind = endless.max(axis=2) - endless[:, :, ends.rows["</s>"]]
    scores[ends.rows["</s>"]] += np.median(behind.min(axis=1))
    made = grown(workload, ready(workload, "reference", params))
    check_as_the_oracle(workload, made, params)
    lengths = set()
    step = made.instances.schema.kinds.index("step")
    for begin, end in zip(made.instances.start[:-1], made.instances.start[1:], strict=True):
        inside = np.flatnonzero(made.instances.kind[begin:end] == step) + begin
        words = made.instances.fields["next"][inside].tolist()
        assert ends.rows["</s>"] not in words[:-1]
        assert len(words) == 20 or words[-1] == ends.rows["</s>"]
        lengths.add(len(words))
    assert len(lengths) > 1 and 0 < made.cut["step"] < 12


def test_a_sample_ends_before_the_first_that_fails_in_whatever_round() -> None:
    model = open_model(SPECS / "stackrnn.yaml", Overrides())
    networks = open_networks(model, "cell")
    params = init_params(networks.cells, 0)
    params.tables[[table.name for table in model.tables].index("moves")][2] = np.nan  # after each `right`
    executor = CpuExecutor()
    executor.prepare(networks.network, params)
    with pytest.raises(InstanceError, match="is not a number at") as first:
        open_sample(model, networks, 48, executor=executor)
    found, used = open_sample(model, networks, 48, skip_bad=True, executor=executor)
    # one that is met earlier may stand behind others that fail in later rounds
    assert first.value.instance > 0 and used == 1
    assert found.growing is None
