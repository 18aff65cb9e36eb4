"""`abw bench threads`: a row a model and mini-batch: threads, processes, and beside a busy one."""

from __future__ import annotations

from pathlib import Path

from abw.bench.whole.threads import MODELS, bench_threads
from abw.core.base.progress import Quiet


def test_rows(shared_data: Path, root: Path) -> None:
    report = bench_threads(shared_data, 8, [4, 2], [2], 8, 1, root / "specs", Quiet())
    assert [(row["model"], row["batch"]) for row in report["rows"]] == [
        (m, b) for m in MODELS for b in (4, 2)
    ]
    for row in report["rows"]:
        assert row["seconds"] > 0
        for column in ("times", "limit", "busy"):
            assert list(row[column]) == ["2"] and min(row[column].values()) > 0
