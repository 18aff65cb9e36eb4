"""`abw bench libraries`: every library that is installed computes what abw does."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

from abw.bench.libraries.forward import TOLERANCE
from tests.cli.conftest import Abw


@pytest.fixture
def trees(root: Path, tmp_path: Path) -> Path:
    """The small trees that ship, under the name of the real ones."""
    (tmp_path / "trees").mkdir()
    (tmp_path / "trees" / "train.txt").write_bytes((root / "specs/data/trees.txt").read_bytes())
    return tmp_path


def test_a_row_a_library(abw: Abw, trees: Path) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    few = ("--hidden", "8", "--batch", "3", "--instances", "7", "--runs", "2")
    report = abw("bench", "libraries", "--data", str(trees), *few, "--json").json()
    names = [row["name"] for row in report["rows"]]
    assert names[:2] == ["abw", "PyTorch by hand"]
    assert ("TorchFold" in names) == (find_spec("torchfold") is not None)
    for row in report["rows"]:
        assert row["per_second"] > 0 and row["made_per_second"] > 0
        assert (row["name"] == "abw") == (row["difference"] == 0)
        assert row["difference"] < TOLERANCE
        assert row["times"] == pytest.approx(report["rows"][0]["per_second"] / row["per_second"])


@pytest.mark.skipif(find_spec("torch") is not None, reason="PyTorch is installed")
def test_without_pytorch_it_says_what_is_missing(abw: Abw, trees: Path) -> None:
    found = abw("bench", "libraries", "--data", str(trees))
    assert found.code == 1
    assert "torch" in found.err
