"""`abw bench steps`: a row a model, size and mini-batch; the weights are the same bits."""

from __future__ import annotations

from pathlib import Path

from abw.bench.whole.steps import MODELS, bench_steps
from abw.core.base.progress import Quiet


def test_rows(root: Path, tmp_path: Path) -> None:
    for source in MODELS.values():
        (tmp_path / source).parent.mkdir()
        (tmp_path / source).write_bytes((root / "specs/data" / f"{Path(source).parent}.txt").read_bytes())
    report = bench_steps(tmp_path, [8], [4, 2], [2], 2, 1, root / "specs", Quiet())
    assert [(row["model"], row["batch"]) for row in report["rows"]] == [
        (m, b) for m in MODELS for b in (4, 2)
    ]
    for row in report["rows"]:
        assert row["seconds"] > 0
        assert row["times"]["2"] > 0
        assert row["same"] == {"2": True}
