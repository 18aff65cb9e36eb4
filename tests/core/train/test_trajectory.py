"""Forty steps of training are PyTorch's (tests/golden/torch/make_trajectory.py and make_ner.py)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from abw.core.data.instances import Instances
from abw.core.exec.trained import load_weights, make_params
from abw.core.ir.model import Model
from abw.core.policy.registry import get_policy
from abw.core.run.workload import open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides
from abw.core.train.checkpoint import named
from abw.core.train.learner import Learner
from abw.core.train.session import TrainOptions, begin
from abw.core.train.targets import targets_of
from tests.core.train.models import ROOT, spec_of

GOLDEN = ROOT / "tests" / "golden" / "torch"
TRAIN = """\
train:
  loss: {of: classes, target: label}
  optimizer: {name: adagrad, rate: 0.05, decay: 1e-4}
"""
STEPS, BATCH, LIMIT = 40, 4, 12


def learner_of(model: Model, threads: int) -> Learner:
    networks = open_networks(model, "cell")
    params = make_params(networks.cells, load_weights(model), 0)
    return Learner(model, networks, params, get_policy("sufficient"), threads=threads)


def steps(learner: Learner, instances: Instances) -> list[float]:
    """The losses of steps of four instances, over and over."""
    workload = open_workload(learner.model, instances, learner.passes.networks)
    targets = tuple(targets_of(learner.model, loss, instances) for loss in learner.training.losses)
    losses = []
    for step in range(STEPS):
        first = step * BATCH % len(instances)
        found = learner.found(learner.lesson(workload, first, first + BATCH, targets))
        losses.append(found.loss)
        learner.apply_gradient(found.gradient)
    return losses


@pytest.mark.parametrize("threads", [1, 2])
def test_losses_and_weights_are_pytorchs(threads: int, tmp_path: Path) -> None:
    spec = tmp_path / "torch-treelstm.yaml"
    text = spec_of("torch-treelstm", "", tmp_path).read_text()
    spec.write_text(f"{text}{TRAIN}")
    start = GOLDEN / "torch-treelstm.safetensors"
    model = open_model(spec, Overrides(dims={"hidden": 5, "embed": 6}, weights=start))
    golden = np.load(GOLDEN / "trajectory.npz")
    learner = learner_of(model, threads)
    losses = steps(learner, read_instances(model.data, LIMIT))
    np.testing.assert_allclose(losses, golden["losses"], rtol=1e-5)
    assert losses[-1] < 0.6 * losses[0]
    weights = named(learner.network, learner.params)
    np.testing.assert_allclose(weights["words"], golden["embed.weight"], atol=2e-5)
    np.testing.assert_allclose(weights["output.W"], golden["out.weight"], atol=2e-5)
    np.testing.assert_allclose(weights["internal.Uul"], golden["node.weight"][20:, :5], atol=2e-5)
    np.testing.assert_allclose(weights["leaf.bo"], golden["leaf.bias"][5:10], atol=2e-5)


def test_a_lattice_taggers_losses_and_weights_are_pytorchs() -> None:
    model = begin(ROOT / "specs" / "ner.yaml", Overrides(dims={"hidden": 6, "embed": 5}), TrainOptions())
    learner, golden = model.learner, np.load(GOLDEN / "ner.npz")
    learner.stepper.optimizer = replace(learner.training.optimizer, rate=0.02)
    losses = steps(learner, model.instances)
    np.testing.assert_allclose(losses, golden["losses"], rtol=1e-5)
    assert losses[-1] < 0.6 * losses[0]
    weights = named(learner.network, learner.params)
    for name in golden.keys() - {"losses"}:
        np.testing.assert_allclose(weights[name], golden[name], atol=2e-5)
