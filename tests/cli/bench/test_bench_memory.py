"""`abw bench memory --training`: its specs are whole ones, and its table says how far off a prediction is."""

from __future__ import annotations

from pathlib import Path
from shutil import copytree

import pytest

from abw.bench.whole import memory
from abw.bench.whole.memory import TRAININGS
from abw.core.run.workload import open_model
from abw.core.spec.load import Overrides
from tests.cli.conftest import Abw


def test_specs(root: Path, tmp_path: Path) -> None:
    for part in ("cells", "data"):
        copytree(root / "specs" / part, tmp_path / part)
    found = {t.name: open_model(t.write(root / "specs", tmp_path), Overrides()) for t in TRAININGS}
    optimizers = {name: model.training and model.training.optimizer.name for name, model in found.items()}
    assert optimizers == {
        "sst": "adagrad",
        "sst-sgd": "sgd",
        "ner": "adam",
        "bilstm": "adam",
        "seq2seq": "adam",
    }
    assert found["seq2seq"].growth is not None


def test_a_table(abw: Abw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("weights", "gradient", "optimizer", "instances", "mini_batches", "moment", "at_rest")
    row = {
        "training": "sst",
        "hidden": 512,
        "batch": 64,
        "parts": dict.fromkeys(names, 60_000_000),
        "predicted_bytes": 420_000_000,
        "peak_memory_bytes": 400_000_000,
    }
    monkeypatch.setattr(memory, "bench_training_memory", lambda *_: {"rows": [row]})
    shown = abw("bench", "memory", "--training", "--data", str(tmp_path)).out
    assert "+5.0%" in shown
    assert "optimiser" in shown
