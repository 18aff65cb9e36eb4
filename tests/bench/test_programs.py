"""The bench of programs: both ways to write one decide the same; PyTorch by hand, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from abw.bench.growth.beams import beams
from abw.bench.growth.programs import parsing, recording, trees


def test_what_is_told(root: Path) -> None:
    found = recording(root / "specs", 1)
    assert found["call"] > 0 and found["empty"] > 0
    row = trees(root / "specs", root / "specs/data/trees.txt", 8, 1)
    assert row["trees"] > 40 and row["nodes"] > 500 and row["kernels"] > 0
    parsed = parsing(None, root / "specs", root / "specs/data/tags.txt", 8, 1)
    assert "torch" not in parsed and parsed["nodes"] > parsed["actions"] > parsed["rounds"] > 5
    rows = beams(None, root / "specs", root / "specs/data/pairs.txt", 8, 1)
    assert [row["batch"] for row in rows] == [1, 8, 64] and rows[2]["words"] > rows[0]["words"] > 8


def test_pytorch_decides_the_same(root: Path) -> None:
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    assert parsing(torch, root / "specs", root / "specs/data/tags.txt", 8, 1)["torch"] > 0
    for row in beams(torch, root / "specs", root / "specs/data/pairs.txt", 8, 1):
        assert row["torch"] > 0
