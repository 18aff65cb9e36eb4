"""The section `train`: what it says, and every mistake with its line and a remedy."""

from __future__ import annotations

from pathlib import Path

import pytest

from abw.core.base.errors import SpecError
from abw.core.ir.model import Model
from abw.core.ir.schema import Hop
from abw.core.ir.training import (
    OPTIMIZERS,
    Among,
    Init,
    Metric,
    Optimizer,
    OptimizerName,
    RateSchedule,
    Target,
    Training,
)
from abw.core.spec.load import Overrides, load_model

SPEC = """\
model: m
dims: {{hidden: 4, classes: 5}}
data: {{format: trees, path: trees.txt}}
tables: {{words: {{dim: hidden}}}}
cells:
  half: {{inputs: {{x: hidden}}, dims: [hidden], equations: h = tanh(x), outputs: {{h: h}}}}
  pair:
    inputs: {{a: hidden, b: hidden}}
    dims: [hidden]
    params: {{W: [hidden, hidden]}}
    equations: h = tanh(W @ a + b)
    outputs: {{h: h}}
  out:
    inputs: {{x: hidden}}
    dims: [hidden, classes]
    params: {{V: [classes, hidden]}}
    equations: y = V @ x
    outputs: {{y: y}}
types:
  leaf: {{per: leaf, cell: half, inputs: {{x: "words[word]"}}}}
  inner: {{per: internal, cell: pair, inputs: {{a: left.h, b: right.h}}}}
  score: {{per: node, cell: out, inputs: {{x: h}}}}
outputs: {{classes: score.y}}
{train}
"""


def load(folder: Path, train: str) -> Model:
    """The model with this section."""
    (folder / "trees.txt").write_text("(3 (2 a) (1 b))\n")
    path = folder / "m.yaml"
    path.write_text(SPEC.format(train=train))
    return load_model(path)


def training(folder: Path, train: str) -> Training:
    """What the section says."""
    found = load(folder, train).training
    assert found is not None
    return found


def test_little_is_enough(tmp_path: Path) -> None:
    found = training(tmp_path, "train: {loss: {of: classes, target: label}}")
    (loss,) = found.losses
    assert (loss.output, loss.kind, loss.weight, loss.target) == (0, "cross-entropy", 1, Target("label"))
    assert found.metrics == (Metric("accuracy", 0),)
    assert found.optimizer == Optimizer("adam", 1e-3)
    assert load(tmp_path, "").training is None


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_of_which_only_the_name_is_said(name: OptimizerName, tmp_path: Path) -> None:
    found = training(tmp_path, f"train: {{loss: {{of: classes, target: label}}, optimizer: {name}}}")
    assert found.optimizer == Optimizer(name, **OPTIMIZERS[name])


def test_everything_said(tmp_path: Path) -> None:
    found = training(
        tmp_path,
        """\
train:
  loss:
    - {of: classes, target: label, over: root, weight: 2, classes: [1, 1, 1, 1, 0.5]}
    - {of: classes, target: parent.label, kind: cross-entropy, over: leaf}
    - {of: classes, target: "words[parent.left.word]"}
  metric: [accuracy, {name: loss, of: classes}, {name: accuracy, over: leaf}]
  optimizer: {name: momentum, rate: 0.2, momentum: 0.8, decay: 1e-4}
  schedule: {name: exponential, warmup: 7, factor: 0.5}
  per: value
  clip: 5
  word-dropout: {words: 0.1}
  dropout: {"inner.*": 0.2, score.x: 0.5}
  init: {words: uniform(0.1), "*.W": orthogonal}
  epochs: 3
  batch: 25
  patience: 2
  vocabulary: 2
  dev: trees.txt""",
    )
    assert [loss.over for loss in found.losses] == [
        Among("root", link="root"),
        Among("leaf", frozenset({"leaf"})),
        None,
    ]
    assert [loss.target for loss in found.losses] == [
        Target("label"),
        Target("label", (Hop("parent"),)),
        Target("word", (Hop("parent"), Hop("left")), 0),
    ]
    assert found.dropout == {(1, 0): 0.2, (1, 1): 0.2, (2, 0): 0.5}
    assert found.losses[0].classes == (1, 1, 1, 1, 0.5)
    assert [(m.name, m.over and m.over.text) for m in found.metrics] == [
        ("accuracy", "root"),
        ("loss", "root"),
        ("accuracy", "leaf"),
    ]
    assert found.optimizer == Optimizer("momentum", 0.2, 1e-4, 0.8)
    assert found.schedule == RateSchedule("exponential", 7, 0.5)
    assert found.inits == (Init("words", "uniform", (0.1,)), Init("*.W", "orthogonal", ()))
    assert (found.per_value, found.clip, found.word_dropout) == (True, 5, {0: 0.1})
    assert (found.epochs, found.batch, found.patience, found.vocabulary) == (3, 25, 2, 2)
    assert found.dev == tmp_path / "trees.txt"


LOSS = "loss: {of: classes, target: label}"


@pytest.mark.parametrize(
    ("written", "message", "hint"),
    [
        ("{epochs: 3}", "train has no 'loss'", "loss: {of: OUTPUT, target: FIELD}"),
        ("{loss: {of: class, target: label}}", "no output is called 'class'", "classes"),
        ("{loss: {of: classes}}", "a loss has no 'target'", ""),
        (
            "{loss: {of: classes, target: lable}}",
            "internal or leaf has no field 'lable'",
            "did you mean 'label'?",
        ),
        ("{loss: {of: classes, target: children.label}}", "leads to many", "children[0]"),
        ("{loss: {of: classes, target: up.label}}", "internal or leaf has no link 'up'", "parent"),
        ("{loss: {of: classes, target: label or word}}", "a target has no 'or'", ""),
        ('{loss: {of: classes, target: "chars[word]"}}', "no table is called 'chars'", "words"),
        ("{loss: {of: classes, target: label, over: roots}}", "neither a kind", "did you mean 'root'?"),
        ("{loss: {of: classes, target: label, kind: entropy}}", "kind cannot be 'entropy'", "allowed"),
        ("{loss: {of: classes, target: label, classes: [1, 2]}}", "there are 5 classes, and 2", ""),
        ("{loss: {of: classes, target: label, weight: 0}}", "weight must be above 0", ""),
        (f"{{{LOSS}, metric: f1}}", "a metric cannot be 'f1'", "span-f1"),
        (f"{{{LOSS}, metric: squared-error}}", "not a metric for losses of kind cross-entropy", "accuracy"),
        (f"{{{LOSS}, optimizer: adagard}}", "optimizer cannot be 'adagard'", "did you mean 'adagrad'?"),
        (f"{{{LOSS}, optimizer: {{name: sgd, beta1: 0.9}}}}", "sgd has no beta1", "adam"),
        (f"{{{LOSS}, optimizer: {{name: sgd, rate: -1}}}}", "rate must be 0 or more", ""),
        (f"{{{LOSS}, schedule: {{name: linear, factor: 1}}}}", "schedule linear has no factor", ""),
        (f"{{{LOSS}, per: node}}", "per cannot be 'node'", "instance or value"),
        (f"{{{LOSS}, word-dropout: {{words: 1}}}}", "must be 0 or more and below 1", ""),
        (f"{{{LOSS}, word-dropout: {{word: 0.1}}}}", "no table is called 'word'", "words"),
        (f"{{{LOSS}, dropout: {{score.x: 1}}}}", "must be 0 or more and below 1", ""),
        (f"{{{LOSS}, dropout: {{score.y: 0.1}}}}", "fits no input of a cell", "score.x"),
        (f"{{{LOSS}, init: {{words: uniform}}}}", "has not the numbers", "uniform(NUMBER)"),
        (f"{{{LOSS}, init: {{words: xavier}}}}", "'xavier' is no initialisation", "glorot-uniform"),
        (f"{{{LOSS}, init: {{'inner.U*': zeros}}}}", "fits no parameter and no table", ""),
        (f"{{{LOSS}, epoch: 3}}", "unknown key 'epoch'", "did you mean 'epochs'?"),
        (f"{{{LOSS}, dev: ../x.txt}}", "is outside the spec's folder", "--allow-outside"),
    ],
)
def test_mistakes_are_told_with_their_line(tmp_path: Path, written: str, message: str, hint: str) -> None:
    with pytest.raises(SpecError) as error:
        load(tmp_path, f"train:\n  {written}")
    (problem,) = error.value.problems
    assert message in problem.message
    assert hint in problem.hint
    assert problem.where is not None
    assert problem.where.line in (24, 25)


def test_words_from_elsewhere_are_a_tables_vocabulary(tmp_path: Path) -> None:
    load(tmp_path, "")
    model = load_model(tmp_path / "m.yaml", Overrides(words={"words": ("<unk>", "a", "b")}))
    (table,) = model.tables
    assert table.vocab is not None
    assert (table.rows, table.unknown, table.vocab.rows["b"]) == (3, 0, 2)
