"""`abw bench models`: every model of the gallery, beside PyTorch where that is installed."""

from __future__ import annotations

from pathlib import Path

import pytest

from abw.bench.whole import models
from abw.bench.whole.models import DATA, bench_models
from abw.core.base.errors import AbwError
from abw.core.base.progress import Quiet
from tests.cli.conftest import Abw

OPTIONS = ("bench", "models", "--hidden", "8", "--instances", "5", "--batch", "3", "--runs", "1")


def test_without_pytorch_rows_are_abws_alone(abw: Abw, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> None:
        raise AbwError("PyTorch is not installed")

    monkeypatch.setattr(models, "import_torch", absent)
    report = abw(*OPTIONS, "--models", "rgcn", "--json").json()
    (row,) = report["rows"]
    assert report["torch"] is None
    assert (row["model"], row["instances"], row["torch"], row["max_error"]) == ("rgcn", 5, {}, None)
    assert row["abw_seconds"] > 0
    assert set(row["seconds"]) == {"construct", "schedule", "plan", "execute"}
    text = abw(*OPTIONS, "--models", "rgcn").out
    assert "not installed" in text
    assert "nothing to compare with" in text


def test_outputs_are_pytorchs(abw: Abw) -> None:
    pytest.importorskip("torch", reason="PyTorch is not installed")
    report = abw(*OPTIONS, "--json").json()
    assert [row["model"] for row in report["rows"]] == [*DATA]
    for row in report["rows"]:
        assert 0 < row["max_error"] < 1e-5
        assert all(seconds > 0 for way in row["torch"].values() for seconds in way.values())


def test_what_is_not_there_is_told(root: Path) -> None:
    with pytest.raises(AbwError, match="no model 'gcn'"):
        bench_models(root / "specs", ["gcn"], [8], 2, 2, 1, Quiet())
    with pytest.raises(AbwError, match=r"there is no .*molecules\.jsonl"):
        bench_models(root / "docs", ["gat"], [8], 2, 2, 1, Quiet())
