"""The bench of reading: every format has its row."""

from __future__ import annotations

from pathlib import Path

from abw.bench.whole.reading import bench_reading


def test_every_format_is_read(root: Path) -> None:
    rows = {row["format"]: row for row in bench_reading(root / "specs", 3, 1)["rows"]}
    assert {
        "trees",
        "pairs",
        "tags",
        "words",
        "words by a pattern",
        "json",
        "molecules",
        "arrays",
    } == rows.keys()
    assert rows["molecules"]["values"] == rows["arrays"]["values"] == 3 * 20 * 8
    assert all(row["ns_per_value"] > 0 for row in rows.values())
