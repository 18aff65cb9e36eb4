"""`abw bench e2e`: every step is there, and the share is that of those outside the kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from abw.bench.whole.e2e import STEPS, bench_e2e
from abw.bench.workloads import CASES


def test_rows(shared_data: Path, root: Path) -> None:
    report = bench_e2e(shared_data, 8, [2], 1, root / "specs")
    assert [row["model"] for row in report["rows"]] == [c.name for c in CASES]
    for row in report["rows"]:
        seconds = row["seconds"]
        assert tuple(seconds) == STEPS
        assert min(seconds.values()) > 0
        inside = seconds["execute"] / sum(seconds.values())
        assert row["outside"] == pytest.approx(1 - inside)
        assert row["instances_per_second"] == pytest.approx(2 / sum(seconds.values()))
