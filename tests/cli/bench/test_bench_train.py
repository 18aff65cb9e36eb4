"""`abw bench train`: a step part by part; PyTorch's losses where it is installed."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Abw


def test_a_step_part_by_part(abw: Abw, root: Path, tmp_path: Path) -> None:
    (tmp_path / "trees").mkdir()
    (tmp_path / "trees" / "train.txt").write_bytes((root / "specs/data/trees.txt").read_bytes())
    options = ("bench", "train", "--data", str(tmp_path), "--hidden", "8", "--batch", "4", "--runs", "2")
    report = abw(*options, "--json").json()
    (row,) = report["rows"]
    assert row["hidden"] == 8
    assert all(row[f"{part}_seconds"] > 0 for part in ("step", "passes", "weights", "update"))
    assert row["share_of_peak"] > 0
    assert (row["torch_seconds"] is None) == (report["torch"] is None)
    assert row["difference"] is None or row["difference"] < 1e-5
    assert "instances/s" in abw(*options).out
