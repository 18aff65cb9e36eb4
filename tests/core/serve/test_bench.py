"""`abw bench serve` on little data: what must hold whatever the machine."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from abw.core.base.progress import Quiet

pytest.importorskip("uvicorn", reason='needs the extra serve: pip install "abw[serve]"')
pytest.importorskip("uvloop", reason='needs the extra serve: pip install "abw[serve]"')
pytest.importorskip("prometheus_client", reason='needs the extra serve: pip install "abw[serve]"')


def test_every_engine_answers_all(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from abw.bench.serving.serve import bench_serve

    monkeypatch.setenv("ABW_HOME", str(tmp_path / "home"))
    (tmp_path / "trees").mkdir()
    shutil.copyfile(root / "specs/data/trees.txt", tmp_path / "trees/train.txt")
    report = bench_serve(root / "specs", tmp_path, 4, 8, 50, 0.3, 1, 10, Quiet())
    assert [row["engine"] for row in report["rows"]][:2] == ["abw", "abw, one at a time"]
    for row in report["rows"]:
        assert row["failed"] == 0 and row["full"]["per_second"] > 0
        assert 0 < row["full"]["p50"] <= row["full"]["p99"] and row["engine_cpu"] > 0
    assert report["memory"]["requests"] >= 10
