"""Training as a whole: it goes on with the same bits after a kill at any moment, and its weights are used."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abw.core.base import files
from abw.core.base.errors import AbwError, SpecError
from abw.core.data.tensors import read_tensors
from abw.core.run.workload import open_model
from abw.core.spec.load import Overrides
from abw.core.store.trainings import ABOUT, BEST, stored_training, training_folder, training_folders
from abw.core.train import checkpoint, loop, session
from abw.core.train.learner import Learner
from abw.core.train.session import TrainOptions
from tests.core.train.models import spec_of

OPTIONS = TrainOptions(epochs=2, threads=1, every=0.0)
OVERRIDES = Overrides(dims={"hidden": 4}, batch=10)


@pytest.fixture
def home(tmp_path: Path, kernels_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (kernels_home / "kernels").mkdir(exist_ok=True)
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "kernels").symlink_to(kernels_home / "kernels")
    monkeypatch.setenv("ABW_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def state(folder: Path) -> dict[str, Any]:
    """All of a training that does not tell how fast it was: of its best weights the whole file."""
    found: dict[str, Any] = {BEST: (folder / BEST).read_bytes()}
    for key, tensor in read_tensors(folder / loop.CHECKPOINT).tensors.items():
        value = tensor.read()
        if key == "train/position":
            about = json.loads(value.tobytes())
            for row in about["curve"]:
                del row["instances_per_second"]
            found[key] = about
        else:
            found[key] = value.tobytes()
    return found


def killed(action: Callable[[], object]) -> int:
    """Run something in a process of its own; by what signal it ended."""
    pid = os.fork()
    if pid == 0:
        try:
            action()
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def die_at(call: int, function: Callable[..., Any], after: bool) -> Callable[..., Any]:
    """The same function, which ends the process at its `call`-th call."""
    calls = [0]

    def counted(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        calls[0] += 1
        found = function(*args, **kwargs) if after or calls[0] < call else None
        if calls[0] == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return found

    return counted


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = spec_of("sst", "", tmp_path)
    path.write_text(path.read_text().replace("  batch: 25", "  dropout: {output.x: 0.3}\n  batch: 25"))
    return path


@pytest.fixture
def whole(spec: Path, home: Path) -> dict[str, Any]:
    """What an undisturbed training leaves."""
    report = session.train(spec, OVERRIDES, OPTIONS)
    assert report["epochs"] == 2
    return state(Path(report["path"]))


# A function, whether it is killed behind that, and at which call.
WHERE = {
    "before a step": (Learner, "apply_gradient", False, 1),
    "after a step": (Learner, "apply_gradient", True, 8),
    "before a file is written": (checkpoint, "write_tensors", False, 4),
    "before a file is there": (checkpoint, "write_tensors", True, 3),
    "after a checkpoint": (loop.Loop, "save", True, 5),
    "after the best": (loop, "save_checkpoint", True, 6),
    "before the curve": (session, "write_json", False, 3),
}


def test_a_model_that_grows_goes_on_with_the_same_bits(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = spec_of("seq2seq", "", tmp_path)
    path.write_text(path.read_text().replace("  clip: 5", "  clip: 5\n  dropout: {score.left: 0.3}"))
    few = Overrides(dims={"hidden": 4}, batch=4, limit=12)
    wanted = state(Path(session.train(path, few, OPTIONS)["path"]))
    with monkeypatch.context() as patched:
        patched.setattr(Learner, "apply_gradient", die_at(5, Learner.apply_gradient, after=True))
        assert killed(lambda: session.train(path, few, OPTIONS)) == -signal.SIGKILL
    assert state(Path(session.resume(None)["path"])) == wanted


def test_killed_at_any_moment_it_goes_on_with_the_same_bits(
    spec: Path, whole: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for owner, name, after, call in WHERE.values():
        with monkeypatch.context() as patched:
            patched.setattr(owner, name, die_at(call, getattr(owner, name), after))
            assert killed(lambda: session.train(spec, OVERRIDES, OPTIONS)) == -signal.SIGKILL
        session.resume(None)
        folder = max(training_folder().iterdir())
        assert state(folder) == whole
        kept = stored_training(str(folder))
        assert [row["epoch"] for row in kept.rows] == [1, 2]
        assert kept.best_epoch > 0


def test_interrupted_twice_it_goes_on_with_the_same_bits(
    spec: Path, whole: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = Learner.found
    calls = [0]

    def interrupted(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        calls[0] += 1
        if calls[0] in (3, 6):
            raise KeyboardInterrupt
        return found(*args, **kwargs)

    monkeypatch.setattr(Learner, "found", interrupted)
    with pytest.raises(KeyboardInterrupt):
        session.train(spec, OVERRIDES, OPTIONS)
    with pytest.raises(KeyboardInterrupt):
        session.resume(None)
    report = session.resume(None)
    assert state(Path(report["path"])) == whole


def test_a_finished_training_stays_as_it_is(spec: Path, whole: dict[str, Any]) -> None:
    report = session.resume(None)
    assert report["epochs"] == 2
    assert state(Path(report["path"])) == whole


def test_what_changed_meanwhile_is_told(spec: Path, home: Path) -> None:
    session.train(spec, OVERRIDES, TrainOptions(epochs=1, threads=1))
    spec.write_text(spec.read_text().replace("rate: 0.05", "rate: 0.06"))
    with pytest.raises(AbwError, match=r"sst\.yaml is not as it was when training 1 began"):
        session.resume("1")
    with pytest.raises(AbwError, match="there is no training '7'"):
        session.resume("7")


@pytest.mark.parametrize(
    "text", ["{}", '{"schema_version": 1}', "[1", '{"schema_version": 1, "overrides": 3}']
)
def test_a_damaged_folder_is_told(home: Path, text: str) -> None:
    folder = training_folder() / "0001-sst"
    folder.mkdir(parents=True)
    (folder / ABOUT).write_text(text)
    with pytest.raises(AbwError, match=r"damaged|another version"):
        session.resume(None)


def test_a_checkpoint_of_another_model_is_refused(spec: Path, home: Path) -> None:
    report = session.train(spec, OVERRIDES, TrainOptions(epochs=1, threads=1))
    weights, kept = {"leaf.Wi": np.zeros((9, 9), np.float32)}, np.zeros((1, 1), np.float32)
    with pytest.raises(AbwError, match=r"is not a checkpoint of this model: tensor 'leaf\.Wi'"):
        checkpoint.load_checkpoint(Path(report["path"]) / loop.CHECKPOINT, weights, kept)


def test_weights_carry_their_vocabulary(spec: Path, home: Path) -> None:
    report = session.train(spec, OVERRIDES, TrainOptions(epochs=1, threads=1))
    overrides = Overrides(dims={"hidden": 4}, weights=Path(report["weights"]))
    (table,) = open_model(spec, overrides).tables
    assert table.vocab is not None
    words = (spec.parent / "data/trees.txt").read_text().replace("(", " ").replace(")", " ").split()
    assert set(table.vocab.rows) == {"<unk>"} | {word for word in words if not word.isdecimal()}


def test_training_goes_on_from_weights_with_their_vocabulary(spec: Path, home: Path) -> None:
    first = session.train(spec, OVERRIDES, TrainOptions(epochs=1, threads=1))
    more = Overrides(dims={"hidden": 4}, batch=10, limit=5, weights=Path(first["weights"]))
    second = session.train(spec, more, TrainOptions(epochs=1, threads=1))
    files = [read_tensors(Path(report["weights"])).tensors for report in (first, second)]
    assert files[0]["words"].shape == files[1]["words"].shape
    words = [file["vocabulary/words"].read().tobytes() for file in files]
    assert words[0] == words[1]
    assert second["curve"][0]["loss"] < first["curve"][0]["loss"]


def test_a_loss_without_end_is_told_with_its_step(spec: Path, home: Path) -> None:
    spec.write_text(spec.read_text().replace("name: adagrad, rate: 0.05", "name: sgd, rate: 1.0e+30"))
    with pytest.raises(AbwError, match="the loss is not finite at step 3 of epoch 1") as found:
        session.train(spec, OVERRIDES, OPTIONS)
    assert "start again with a lower rate" in found.value.hint


def test_where_nothing_could_be_tried_no_folder_stays(spec: Path, home: Path) -> None:
    with pytest.raises(AbwError, match="there is a target 4, and output 'classes' has 3 scores"):
        session.train(spec, Overrides(dims={"hidden": 4, "classes": 3}), OPTIONS)
    assert not training_folders()


@pytest.mark.parametrize("full", ["training.json", "curve.json", "checkpoint.safetensors"])
def test_on_a_full_disk_no_folder_stays(
    spec: Path, home: Path, full: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    replacing = files.replacing

    def replace(path: Path, *, wait: bool = True) -> Any:  # noqa: ANN401
        if path.name == full:
            raise AbwError(f"cannot write {path}: No space left on device")
        return replacing(path, wait=wait)

    for module in (files, checkpoint):
        monkeypatch.setattr(module, "replacing", replace)
    with pytest.raises(AbwError, match=f"{full}: No space left"):
        session.train(spec, OVERRIDES, OPTIONS)
    assert training_folders() == []
    assert [path.name for path in training_folder().iterdir() if path.is_dir()] == []


def test_the_rate_is_of_instances_that_are_there(spec: Path, home: Path) -> None:
    ticks = iter(range(1000))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("abw.core.train.loop.time.perf_counter", lambda: float(next(ticks)))
        report = session.train(spec, Overrides(dims={"hidden": 4}, batch=1000), OPTIONS)
    assert all(row["instances_per_second"] <= report["instances"] for row in report["curve"])


def test_patience_ends_it(spec: Path, home: Path) -> None:
    spec.write_text(spec.read_text() + "  patience: 1\n")
    options = TrainOptions(epochs=30, threads=1)
    spec.write_text(spec.read_text().replace("rate: 0.05", "rate: 0"))
    report = session.train(spec, OVERRIDES, options)
    assert report["best_epoch"] == 1
    assert report["epochs"] == 2


def test_metrics_without_dev_data_are_refused_with_their_line(spec: Path, home: Path) -> None:
    text = spec.read_text()
    assert "metric:" in text
    line = next(n for n, written in enumerate(text.splitlines(), 1) if written.strip().startswith("metric:"))
    spec.write_text("".join(li for li in text.splitlines(True) if not li.strip().startswith("dev:")))
    with pytest.raises(SpecError, match="metrics are of dev data, and there are none") as caught:
        session.train(spec, OVERRIDES, OPTIONS)
    where = caught.value.problems[0].where
    assert where is not None and where.line == line
    assert "--dev FILE" in caught.value.problems[0].hint
    assert not training_folders()
    session.train(spec, OVERRIDES, replace(OPTIONS, dev=open_model(spec, OVERRIDES).data.path))
    spec.write_text("".join(li for li in spec.read_text().splitlines(True) if "metric:" not in li))
    session.train(spec, OVERRIDES, OPTIONS)
