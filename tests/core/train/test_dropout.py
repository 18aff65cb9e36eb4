"""Dropout of values: the same whatever the mini-batch, right in both directions, off outside of training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from abw.core.policy.registry import get_policy
from abw.core.run.observing.footprint import PlanCache
from abw.core.run.workload import open_workload
from abw.core.spec.load import Overrides
from abw.core.train.check import check_gradients
from abw.core.train.checkpoint import named
from abw.core.train.metrics import judge_of
from abw.core.train.session import TrainOptions
from tests.core.train.models import Opened, opened, spec_of

DROPPED = "dropout: {output.x: 0.5, 'internal.*': 0.25}"


def trees(folder: Path, executor: str = "cpu", said: str = DROPPED) -> Opened:
    train = f"train: {{loss: {{of: classes, target: label}}, {said}}}"
    return opened(spec_of("sst", train, folder), executor=executor)


@pytest.mark.parametrize("executor", ["cpu", "reference"])
def test_a_mini_batch_drops_what_each_of_its_instances_drops_alone(executor: str, tmp_path: Path) -> None:
    made = trees(tmp_path, executor)
    learner, count = made.learner, len(made.instances)
    together = learner.found(learner.lesson(made.workload, 0, count, made.targets, 3)).loss
    alone = [
        learner.found(learner.lesson(made.workload, i, i + 1, made.targets, 3)).loss for i in range(count)
    ]
    assert together == pytest.approx(sum(alone), rel=1e-6)
    other = learner.found(learner.lesson(made.workload, 0, count, made.targets, 4)).loss
    none = learner.found(learner.lesson(made.workload, 0, count, made.targets)).loss
    assert len({round(together, 3), round(other, 3), round(none, 3)}) == 3


def test_without_an_epoch_and_in_metrics_nothing_is_dropped(tmp_path: Path) -> None:
    made, plain = trees(tmp_path), trees(tmp_path, said="epochs: 1")
    found = [one.learner.found(one.learner.lesson(one.workload, 0, 12, one.targets)) for one in (made, plain)]
    assert found[0].loss == found[1].loss
    np.testing.assert_allclose(found[0].gradient.values, found[1].gradient.values, rtol=1e-5, atol=1e-7)
    scores = []
    for one in (made, plain):
        learner = one.learner
        workload = open_workload(learner.model, one.instances, learner.passes.networks)
        judge = judge_of(learner.model, one.instances)
        scores.append(
            [
                s.value
                for s in judge.scores(PlanCache(workload, get_policy("depth")).run(learner.passes.alone()))
            ]
        )
    assert scores[0] == scores[1]


def test_the_last_layer_reads_what_the_masks_leave(tmp_path: Path) -> None:
    made = trees(tmp_path, "reference", "dropout: {output.x: 0.5}")
    learner, instances = made.learner, made.instances
    graph = learner.dropout.graph(made.workload.graph(0, 12), instances, 0, 1)
    half = learner.passes.forward(learner.passes.planned(graph))
    (mask,) = graph.given
    assert set(np.unique(mask)) == {0.0, 2.0}
    assert abs(mask.mean() - 1) < 5 * mask.std() / np.sqrt(mask.size)
    assert len(np.unique(mask, axis=0)) == 2**5
    # the states that are read, from a run of the model without its dropout
    plain = trees(tmp_path, "reference", "epochs: 1")
    weights = named(plain.learner.network, plain.learner.params)
    undropped = plain.learner.passes.forward(plain.learner.planned(plain.workload, 0, 12))
    first, last = undropped.passes.made.graph.type_ptr[2:4].tolist()
    ptr = undropped.passes.made.graph.operand_ptr
    states = undropped.result.values(undropped.passes.made.graph.operand[ptr[first] : ptr[last]])
    wanted = (states * mask) @ weights["output.W"].T + weights["output.b"]
    own = undropped.passes.made.graph.vertex[first:last]
    order = np.argsort(own, kind="stable")
    np.testing.assert_allclose(half.values("classes"), wanted[order], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "said"),
    [("sst", f"{DROPPED}, word-dropout: {{words: 0.3}}"), ("mvrnn", "dropout: {'*': 0.3}")],
)
def test_gradients_through_it_are_those_of_finite_differences(name: str, said: str, tmp_path: Path) -> None:
    """Of vectors, and of matrices."""
    spec = spec_of(name, f"train: {{loss: {{of: classes, target: label}}, {said}}}", tmp_path)
    report = check_gradients(spec, Overrides(dims={"hidden": 5}), TrainOptions())
    assert report["error"] < 5e-4
