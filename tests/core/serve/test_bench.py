"""`abw bench serve` on little data: what must hold whatever the machine."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

pytest.importorskip("httptools", reason='needs the extra serve: pip install ".[serve]"')
pytest.importorskip("uvloop", reason='needs the extra serve: pip install ".[serve]"')


def test_every_engine_answers_all(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from abw.bench.serving.serve import serve

    monkeypatch.setenv("ABW_HOME", str(tmp_path / "home"))
    (tmp_path / "trees").mkdir()
    shutil.copyfile(root / "specs/data/trees.txt", tmp_path / "trees/train.txt")
    memory, *rows = [
        row for row in serve(tmp_path, root / "specs", 4, 8, 0.3, 10, 1) if not isinstance(row, str)
    ]
    assert [row["engine"] for row in rows] == ["batched across requests", "one at a time"]
    for row in rows:
        assert row["failed"] == 0 and row["requests_per_second"] > 0
        assert 0 < row["p50_seconds"] <= row["p99_seconds"] and row["engine_cpu_seconds"] > 0
    assert memory["requests"] >= 10


def test_single_instances_are_measured_beside_large_requests(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from abw.bench.serving import serve as bench

    monkeypatch.setenv("ABW_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(bench, "SINGLES", (2,))
    (tmp_path / "trees").mkdir()
    shutil.copyfile(root / "specs/data/trees.txt", tmp_path / "trees/train.txt")
    (row,) = bench.serve(tmp_path, root / "specs", 4, 8, 0.2, 0, 1, beside=True)
    assert not isinstance(row, str)
    assert row["singles"] == 2 and row["alone_seconds"] > 0 and row["beside_seconds"] > 0 and row["times"] > 0


def test_overload_is_measured(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from abw.bench.serving import serve as bench

    monkeypatch.setenv("ABW_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(bench, "CONNECTIONS", 50)
    (tmp_path / "trees").mkdir()
    shutil.copyfile(root / "specs/data/trees.txt", tmp_path / "trees/train.txt")
    rows = list(bench.serve(tmp_path, root / "specs", 4, 8, 0.2, 0, 1, overload=True))
    assert [row["times"] for row in rows if not isinstance(row, str)] == [1, 2, 4]
    for row in rows:
        assert not isinstance(row, str)
        assert row["answered_per_second"] > 0 and row["late_per_second"] == 0
