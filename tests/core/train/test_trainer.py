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
from abw.core.train.metrics import Parts, UserMetric
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
    from abw.core.train import targets

    plain = targets._cross_entropy

    def wrong(*given: np.ndarray) -> float:
        found = plain(*given)
        given[3][...] *= 1.01
        return float(found)

    monkeypatch.setattr(targets, "_cross_entropy", wrong)
    with pytest.raises(AbwError, match=r"the gradient of .* is wrong"):
        check_gradients(spec_of("sst", "", tmp_path), Overrides(dims={"hidden": 3}, limit=1), TrainOptions())


MORE = [TREES[0], TREES[2], (0, (1, "not"), (3, (3, "so"), (2, "good"))), TREES[1]]


def exact(outputs: Parts, targets: Parts) -> float:
    """Of how many instances every node is right."""
    pairs = zip(outputs["classes"], targets["classes"], strict=True)
    right = [bool((scores.argmax(axis=1) == wanted).all()) for scores, wanted in pairs]
    assert [len(wanted) for wanted in targets["classes"]] == [5, 3, 5, 1]
    return float(np.mean(right))


def test_fit_tells_steps_epochs_and_metrics_of_ones_own(model: LoadedModel) -> None:
    steps: list[Mapping[str, float]] = []
    epochs: list[Mapping[str, float]] = []
    curve = model.trainer().fit(
        TREES, MORE, epochs=3, metrics={"exact": exact}, on_step=steps.append, on_epoch=epochs.append
    )
    assert [row["epoch"] for row in curve] == [1, 2, 3] and curve == epochs
    assert [(row["epoch"], row["step"], row["steps"]) for row in steps] == [(1, 1, 1), (2, 1, 1), (3, 1, 1)]
    assert {"accuracy over root", "accuracy", "exact"} < curve[0].keys()
    assert all(0 <= row["exact"] <= row["accuracy over root"] for row in curve)


def test_a_callback_ends_training(model: LoadedModel) -> None:
    def enough(row: Mapping[str, float]) -> None:
        if row["epoch"] == 2:
            raise StopIteration

    assert len(model.trainer().fit(TREES, epochs=9, on_epoch=enough)) == 2
    assert len(model.trainer().fit(TREES, epochs=9, on_step=enough)) == 1


def test_with_a_folder_fit_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    folders = [tmp_path / "whole", tmp_path / "parts"]
    found = []
    for folder, stopped in zip(folders, (False, True), strict=True):
        train = "train: {loss: {of: classes, target: label}, dropout: {output.x: 0.5}, batch: 2, epochs: 3}"
        spec = spec_of("sst", train, tmp_path)

        def begin(spec: Path = spec) -> LoadedModel:
            return load(spec, dims={"hidden": 4}, policy="sufficient", threads=1)

        def interrupt(row: Mapping[str, float]) -> None:
            if (row["epoch"], row["step"]) == (2, 1):
                raise KeyboardInterrupt

        if stopped:
            with pytest.raises(KeyboardInterrupt):
                begin().trainer().fit(TREES, MORE, on_step=interrupt, folder=folder)
        made = begin()
        curve = made.trainer().fit(TREES, MORE, folder=folder)
        rows = [{k: v for k, v in row.items() if k != "instances_per_second"} for row in curve]
        found.append((rows, {name: value.tobytes() for name, value in made.params.items()}))
        assert (folder / "best.safetensors").is_file()
    assert found[0] == found[1]


@pytest.mark.parametrize(
    ("metrics", "dev", "message"),
    [
        ({"accuracy": exact}, MORE, "a metric cannot be called 'accuracy'"),
        ({"exact": exact}, None, "there are none"),
        ({"exact": lambda *_: "good"}, MORE, "metric 'exact' returned 'good', which is not a number"),
    ],
)
def test_wrong_metrics_are_told(
    metrics: dict[str, UserMetric], dev: object, message: str, model: LoadedModel
) -> None:
    with pytest.raises(AbwError, match=message):
        model.trainer().fit(TREES, dev, epochs=1, metrics=metrics)
