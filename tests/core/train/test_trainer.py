"""Training from Python: steps, own losses, gradients as vectors, and the model that has what was learned."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from abw.core.api import LoadedModel, load
from abw.core.base.errors import AbwError
from abw.core.data.tensors import read_tensors
from abw.core.spec.load import Overrides
from abw.core.train.check import check_gradients
from abw.core.train.session import TrainOptions
from tests.core.train.models import ROOT, spec_of

TREES = [(3, (2, "It"), (4, (3, "works"), (2, "well"))), (2, "Fine"), (1, (2, "so"), (0, "bad"))]


@pytest.fixture
def model() -> LoadedModel:
    return load(ROOT / "specs/sst.yaml", dims={"hidden": 5}, policy="sufficient", threads=1)


def cross_entropy(wanted: np.ndarray) -> object:
    """A loss of one's own."""

    def loss(outputs: Mapping[str, np.ndarray]) -> tuple[float, Mapping[str, np.ndarray]]:
        scores = outputs["classes"].astype(np.float64)
        share = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
        rows = np.arange(len(wanted))
        total = -np.log(share[rows, wanted]).sum()
        share[rows, wanted] -= 1
        return float(total), {"classes": share.astype(np.float32)}

    return loss


def test_a_step_changes_what_the_model_gives(model: LoadedModel) -> None:
    before = model(TREES)["classes"].values
    trainer = model.trainer()
    losses = [trainer.step(TREES) for _ in range(8)]
    assert losses[-1] < losses[0]
    after = model(TREES)["classes"].values
    assert not np.allclose(before, after)
    share = np.exp(after) / np.exp(after).sum(axis=1, keepdims=True)
    labels = [3, 2, 4, 3, 2, 2, 1, 2, 0]
    expected = -np.log(share[np.arange(9), labels]).sum() / 3
    assert trainer.gradient(TREES)[0] == pytest.approx(expected, rel=1e-5)


def test_a_loss_of_ones_own_is_the_specs(model: LoadedModel) -> None:
    trainer = model.trainer()
    loss, gradient = trainer.gradient(TREES)
    own = cross_entropy(np.array([3, 2, 4, 3, 2, 2, 1, 2, 0]))
    other, same = trainer.gradient(TREES, own)  # type: ignore[arg-type]
    assert other == pytest.approx(3 * loss, rel=1e-6)
    np.testing.assert_allclose(same, 3 * gradient, atol=1e-5)
    with pytest.raises(AbwError, match=r"gradient of 'class' is not one of: classes \[9, 5\]"):
        trainer.step(TREES, lambda outputs: (0.0, {"class": outputs["classes"]}))


def test_gradients_of_parts_add_up(model: LoadedModel) -> None:
    trainer = model.trainer()
    whole = trainer.gradient(TREES)[1]
    parts = [trainer.gradient([tree])[1] for tree in TREES]
    np.testing.assert_allclose(sum(parts) / 3, whole, atol=1e-6)
    before = trainer.flat.copy()
    trainer.apply(whole)
    assert not np.array_equal(before, trainer.flat)
    with pytest.raises(ValueError, match="a gradient has the shape"):
        trainer.apply(whole[1:])


def test_gradients_by_name(model: LoadedModel) -> None:
    loss, found = model.gradients(TREES)
    assert found.keys() == model.params.keys()
    assert all(found[name].shape == value.shape for name, value in model.params.items())
    trainer = model.trainer()
    trainer.params["output.b"][2] += 1e-2
    trainer.changed()
    moved = trainer.gradient(TREES)[0]
    assert (moved - loss) / 1e-2 == pytest.approx(float(found["output.b"][2]), rel=0.02)


def test_weights_are_saved_and_loaded(model: LoadedModel, tmp_path: Path) -> None:
    trainer = model.trainer()
    trainer.step(TREES)
    trainer.save(tmp_path / "weights.safetensors")
    weights = np.concatenate([value.ravel() for value in trainer.params.values()])
    assert np.array_equal(weights, trainer.flat)
    stored = read_tensors(tmp_path / "weights.safetensors").tensors
    assert all(np.array_equal(stored[name].read(), value) for name, value in trainer.params.items())


def test_gradients_are_checked_on_ones_own_model(tmp_path: Path) -> None:
    spec = spec_of("sst", "", tmp_path)
    report = check_gradients(spec, Overrides(dims={"hidden": 3}, limit=1), TrainOptions())
    assert report["error"] < 1e-4
    assert {row["name"] for row in report["parameters"]} > {"words", "leaf.Wi", "output.b"}


def test_a_wrong_gradient_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from abw.core.train import losses

    plain = losses._cross_entropy

    def wrong(values: np.ndarray, target: np.ndarray, weight: np.ndarray, gradient: np.ndarray) -> float:
        found = plain(values, target, weight, gradient)
        gradient *= 1.01
        return float(found)

    monkeypatch.setattr(losses, "_cross_entropy", wrong)
    with pytest.raises(AbwError, match=r"the gradient of .* is wrong"):
        check_gradients(spec_of("sst", "", tmp_path), Overrides(dims={"hidden": 3}, limit=1), TrainOptions())
