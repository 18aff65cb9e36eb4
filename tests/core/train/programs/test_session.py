"""`abw train program.py:function`: folders, checkpoints that go on with the same bits, mistakes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abw.core.base.errors import AbwError
from abw.core.base.files import read_json
from abw.core.data.tensors import read_tensors
from abw.core.script.run import ProgramOptions, run_program
from abw.core.store.trainings import ABOUT, BEST
from abw.core.train.programs.session import ProgramTraining, check_program, resume_program, train_program

CELLS = """\
library: reader
dims: {hidden: 6, classes: 3}
tables: {words: {dim: hidden}}
cells:
  step:
    dims: [hidden]
    inputs: {x: hidden, h: hidden}
    params: {W: [hidden, hidden], b: hidden}
    equations: |
      y = tanh(W @ x + b) + 0.5 * h
    outputs: {y: y}
  classes:
    dims: [hidden, classes]
    inputs: {h: hidden}
    params: {V: [classes, hidden]}
    equations: |
      y = V @ h
    outputs: {y: y}
train: {optimizer: {name: adam, rate: 0.05}, epochs: 3, batch: 4, init: {"*": normal(0.3)}}
"""
PROGRAM = """\
import abw
net = abw.cells("cells.yaml")

def classify(example):
    h = net.zeros("hidden")
    for word in example["words"]:
        h = net.step(net.words[word], h)
    scores = net.classes(h)
    net.loss(scores, example["label"])
    return {"class": scores.argmax()}

def silent(example):
    return net.classes(net.words["a"])

def wrong(example):
    net.loss(net.classes(net.words["a"]), example["label"] + 3)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "cells.yaml").write_text(CELLS)
    (tmp_path / "reader.py").write_text(PROGRAM)
    random = np.random.default_rng(0)
    with (tmp_path / "data.jsonl").open("w") as file:
        for _ in range(18):
            words = random.choice([*"abcdef"], random.integers(1, 5)).tolist()
            file.write(json.dumps({"words": words, "label": "abcdef".index(words[-1]) // 2}) + "\n")
    yield tmp_path


HOW = ProgramTraining(Path("data.jsonl"), threads=1)


def weights(report: dict[str, Any]) -> dict[str, bytes]:
    tensors = read_tensors(Path(report["path"]) / "checkpoint.safetensors").tensors
    # the position has speeds, too
    return {name: tensors[name].read().tobytes() for name in tensors if name != "train/position"}


def test_a_training_gives_weights_that_the_program_runs_with(folder: Path) -> None:
    report = train_program("reader.py:classify", replace(HOW, dev=Path("data.jsonl"), epochs=25))
    assert report["epochs"] == 25 and report["steps"] == 125 and report["model"] == "reader"
    first, last = report["curve"][0], report["curve"][-1]
    assert last["loss"] < 0.3 * first["loss"] and last["accuracy"] > 0.9 and last["dev-loss"] < 0.5
    best = Path(report["path"]) / BEST
    options = ProgramOptions(Path("data.jsonl"), weights=best, output=folder / "out.jsonl", threads=1)
    run_program("reader.py:classify", options)
    lines = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    labels = [json.loads(line)["label"] for line in (folder / "data.jsonl").read_text().splitlines()]
    assert (
        np.mean([line["outputs"]["class"] == label for line, label in zip(lines, labels, strict=True)]) > 0.9
    )


def test_a_training_goes_on_with_the_same_bits(folder: Path) -> None:
    whole = train_program("reader.py:classify", HOW)
    cut: list[Path] = []

    def stop(row: object) -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        train_program("reader.py:classify", HOW, on_epoch=stop, started=cut.append)
    about = read_json(cut[0] / ABOUT, "training")
    again = resume_program(about, cut[0])
    assert again["epochs"] == whole["epochs"] and weights(again) == weights(whole)
    (folder / "data.jsonl").write_text('{"words": ["a"], "label": 1}\n')
    with pytest.raises(AbwError, match=r"data.jsonl is not as it was when training"):
        resume_program(about, cut[0])


def test_gradients_are_checked_by_finite_differences(folder: Path) -> None:
    report = check_program("reader.py:classify", HOW)
    assert {row["name"] for row in report["parameters"]} == {"step.W", "step.b", "classes.V", "words"}
    assert report["error"] < 5e-4


def test_mistakes(folder: Path) -> None:
    def refused(function: str, message: str) -> None:
        with pytest.raises(AbwError, match=message):
            train_program(f"reader.py:{function}", HOW)
        assert not [*(folder / ".abw" / "training").glob("0*")]

    refused("silent", "no loss was stated")
    refused("wrong", r"data.jsonl:\d+ \(instance \d+\): target [345] is not one of 3 classes")
    (folder / "cells.yaml").write_text(CELLS.replace("train: {", "train: {loss: 3, "))
    with pytest.raises(AbwError, match="unknown key 'loss' in train"):
        train_program("reader.py:classify", HOW)
