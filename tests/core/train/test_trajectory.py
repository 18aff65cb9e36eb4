"""Forty steps of training are PyTorch's (tests/golden/torch/make_trajectory.py)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from abw.core.exec.trained import load_weights, make_params
from abw.core.policy.registry import get_policy
from abw.core.run.workload import open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides
from abw.core.train.checkpoint import named
from abw.core.train.learner import Learner
from abw.core.train.targets import targets_of
from tests.core.train.models import ROOT, spec_of

GOLDEN = ROOT / "tests" / "golden" / "torch"
TRAIN = """\
train:
  loss: {of: classes, target: label}
  optimizer: {name: adagrad, rate: 0.05, decay: 1e-4}
"""
STEPS, BATCH, LIMIT = 40, 4, 12


@pytest.mark.parametrize("threads", [1, 2])
def test_losses_and_weights_are_pytorchs(threads: int, tmp_path: Path) -> None:
    spec = tmp_path / "torch-treelstm.yaml"
    text = spec_of("torch-treelstm", "", tmp_path).read_text()
    spec.write_text(f"{text}{TRAIN}")
    start = GOLDEN / "torch-treelstm.safetensors"
    model = open_model(spec, Overrides(dims={"hidden": 5, "embed": 6}, weights=start))
    networks = open_networks(model, "cell")
    params = make_params(networks.cells, load_weights(model), 0)
    learner = Learner(model, networks, params, get_policy("sufficient"), threads=threads)
    instances = read_instances(model.data, LIMIT)
    workload = open_workload(model, instances, networks)
    targets = tuple(targets_of(model, loss, instances) for loss in learner.training.losses)
    golden = np.load(GOLDEN / "trajectory.npz")
    losses = []
    for step in range(STEPS):
        first = step * BATCH % LIMIT
        found = learner.gradient(workload, first, first + BATCH, targets)
        losses.append(found.loss)
        learner.apply(found.gradient)
    np.testing.assert_allclose(losses, golden["losses"], rtol=1e-5)
    assert losses[-1] < 0.6 * losses[0]
    weights = named(learner.network, learner.params)
    np.testing.assert_allclose(weights["words"], golden["embed.weight"], atol=2e-5)
    np.testing.assert_allclose(weights["output.W"], golden["out.weight"], atol=2e-5)
    np.testing.assert_allclose(weights["internal.Uul"], golden["node.weight"][20:, :5], atol=2e-5)
    np.testing.assert_allclose(weights["leaf.bo"], golden["leaf.bias"][5:10], atol=2e-5)
