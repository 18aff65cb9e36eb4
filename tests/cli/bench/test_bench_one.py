"""`abw bench one`: a row a size of trees."""

from __future__ import annotations

from pathlib import Path

import pytest

from abw import AbwError
from abw.bench.whole.one import bench_one
from abw.core.base.progress import Quiet


def test_rows(shared_data: Path, root: Path) -> None:
    report = bench_one(root / "specs", shared_data, 8, [3, 5], 2, Quiet())
    assert [row["nodes"] for row in report["rows"]] == [3, 5]
    for row in report["rows"]:
        assert 0 < row["kernels"] < row["p50"] <= row["p90"]
    with pytest.raises(AbwError, match="has 4 nodes"):
        bench_one(root / "specs", shared_data, 8, [4], 2, Quiet())
