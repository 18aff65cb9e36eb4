"""`abw bench precision`: what it reports."""

from __future__ import annotations

from pathlib import Path

from abw.bench.executors.precision import bench_precision


def test_rows_of_each_precision(shared_data: Path, root: Path) -> None:
    report = bench_precision(shared_data, [64], [2], 3, root / "specs", ("TreeLSTM",))
    usual, half, quarter = report["rows"]
    assert [row["precision"] for row in report["rows"]] == ["float32", "bf16", "int8"]
    assert (usual["speed"], usual["error"]) == (1, 0)
    assert 0 < half["error"] < quarter["error"] < 0.1
    assert usual["packed_bytes"] > 1.9 * half["packed_bytes"] > 2.8 * quarter["packed_bytes"]
    assert all(row["seconds"] > 0 for row in report["rows"])
    assert (half["torch_seconds"] is None) == (report["torch"] is None)
