"""Numbers that are not finite are found where they begin, or where they end in outputs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import abw
from abw.core.base.errors import AbwError
from abw.core.run.pipeline import RunOptions, run
from abw.core.spec.load import Overrides
from abw.core.store.runs import runs_folder

CELL = """\
cell: steep
dims: [n]
inputs: {x: n}
equations: |
  s = exp(200 * x) - 1
  y = tanh(s)
outputs: {s: s, y: y}
"""
SPEC = """\
model: steep
dims: {n: 2}
data: {format: trees, path: trees.txt, batch: 2}
tables: {words: {dim: n, vocab: words.txt}}
types:
  leaf: {per: leaf, cell: steep.yaml, inputs: {x: "words[word]"}}
outputs: {y: leaf.y}
"""
TREES = "(1 (1 a) (1 a))\n(1 (1 a) (1 b))\n(1 (1 b) (1 a))\n(1 (1 a) (1 b))\n"


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    (tmp_path / "steep.yaml").write_text(CELL)
    (tmp_path / "trees.txt").write_text(TREES)
    (tmp_path / "words.txt").write_text("a\nb\n")
    (tmp_path / "model.yaml").write_text(SPEC)
    return tmp_path / "model.yaml"


def weights(spec: Path, b: float, name: str = "w.npz") -> Path:
    """A file in which all numbers are 0.1, but the second one of the word b."""
    np.savez(spec.parent / name, words=np.array([[0.1, 0.1], [0.1, b]], np.float32))
    return spec.parent / name


def report(spec: Path, b: float, **options: bool) -> dict[str, Any]:
    chosen = RunOptions(policy="depth", **options)  # type: ignore[arg-type]
    return run(spec, Overrides(weights=weights(spec, b)), chosen)


@pytest.mark.parametrize("executor", ["cpu", "blas", "reference"])
def test_the_first_is_found_in_order_of_instances_and_batches(spec: Path, executor: str) -> None:
    model = abw.load(spec, weights=weights(spec, 5.0), policy="depth", executor=executor, check_finite=True)
    # y is finite again: what is not lies inside
    with pytest.raises(
        AbwError, match=r"output 's' of type 'leaf' is inf: instance 1 .line 2., in batch 0 of"
    ):
        model(spec.parent / "trees.txt")
    with pytest.raises(AbwError, match=r"instance 2 .line 3.*mini-batch 1"):
        model(["(1 (1 a) (1 a))", "(1 (1 a) (1 a))", "(1 (1 b) (1 a))"])
    model(["(1 (1 a) (1 a))"])


def test_a_run_ends_at_it_and_keeps_nothing(spec: Path) -> None:
    assert report(spec, 0.2, check_finite=True)["not_finite"] == 0
    runs = len(list(runs_folder().iterdir()))
    with pytest.raises(AbwError, match=r"output 's' of type 'leaf' is inf: instance 1 .line 2."):
        report(spec, 5.0, check_finite=True)
    assert len(list(runs_folder().iterdir())) == runs


def test_outputs_that_hold_some_are_counted(spec: Path) -> None:
    assert report(spec, 5.0)["not_finite"] == 0
    spec.write_text(SPEC.replace("leaf.y", "leaf.s"))
    assert report(spec, 5.0)["not_finite"] == 3
    assert report(spec, 0.2)["not_finite"] == 0


@pytest.mark.parametrize(("b", "said"), [(np.nan, "nan"), (-np.inf, "-inf")])
def test_weights_are_looked_at_first(spec: Path, b: float, said: str) -> None:
    with pytest.raises(AbwError, match=rf"weights hold .*: words\[1, 1\] is {said}\n"):
        report(spec, b, check_finite=True)
    with pytest.raises(AbwError, match=rf"words\[1, 1\] is {said}\n"):
        abw.load(spec, weights=weights(spec, b), check_finite=True)


@pytest.mark.parametrize("executor", ["cpu", "blas", "reference"])
def test_a_type_without_nodes_in_a_mini_batch_is_finite(spec: Path, executor: str) -> None:
    more = 'high: {per: leaf, where: "index > 1", cell: steep.yaml, inputs: {x: "words[word]"}}'
    spec.write_text(SPEC.replace("outputs:", f"  {more}\noutputs:"))
    model = abw.load(spec, weights=weights(spec, 0.1), policy="depth", executor=executor, check_finite=True)
    assert len(model([(1, (1, "a"), (1, "b"))])["y"].values) == 2


def test_all_instances_that_share_the_value_are_named(spec: Path) -> None:
    (spec.parent / "trees.txt").write_text(
        "(1 (1 a) (1 b))\n" * 2 + "(1 (1 a) (1 a))\n" + "(1 (1 b) (1 b))\n"
    )
    chosen = RunOptions(policy="depth", check_finite=True, dedup="on")
    overrides = Overrides(weights=weights(spec, 5.0), batch=4)
    with pytest.raises(AbwError, match=r"is inf: instances 0 .line 1., 1 .line 2., 3 .line 4., in batch 0"):
        run(spec, overrides, chosen)
    (spec.parent / "trees.txt").write_text("(1 (1 a) (1 b))\n" * 9)
    with pytest.raises(
        AbwError, match=r"instances 0 .line 1., 1 .line 2., 2 .line 3. and 6 more, in batch 0"
    ):
        run(spec, replace(overrides, batch=9), chosen)
