"""Runs on disk: one that is damaged is listed as that, and hides no other."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from abw.core.base.errors import AbwError
from abw.core.store.runs import SCHEMA_VERSION, find_run, list_runs, save_report


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The reports of three runs."""
    monkeypatch.setenv("ABW_HOME", str(tmp_path))
    (tmp_path / "m.yaml").write_text("model: m")
    folders = [tmp_path / "runs" / f"000{n}-m" for n in (1, 2, 3)]
    for n, folder in enumerate(folders):
        folder.mkdir(parents=True)
        report = {
            "schema_version": SCHEMA_VERSION,
            "model": "ü",
            "n": n,
            "x": math.nan,
            "t": (0.1, {1: None}),
        }
        save_report(folder, report, (tmp_path / "m.yaml",))
    return [folder / "run.json" for folder in folders]


def test_reports_come_back(runs: list[Path]) -> None:
    found = list_runs()
    assert [(run.number, run.report["n"], run.damage) for run in found] == [
        (1, 0, ""),
        (2, 1, ""),
        (3, 2, ""),
    ]
    assert found[0].report["t"] == [0.1, {"1": None}]
    assert math.isnan(found[0].report["x"])
    assert "sha256" not in found[0].report


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "damaged: Expecting"),
        (b"[]", "holds no JSON object"),
        (b"{}", "not as abw wrote it"),
        (b"\xff", "utf-8"),
        (b"[" * 100_000, "damaged"),
        (b'{"a": ' + b"9" * 5000 + b"}", "damaged"),
    ],
)
def test_one_that_is_damaged_hides_no_other(runs: list[Path], content: bytes, message: str) -> None:
    runs[1].write_bytes(content)
    assert [bool(run.damage) for run in list_runs()] == [False, True, False]
    assert find_run("1").report["n"] == 0
    assert find_run(None).report["n"] == 2
    with pytest.raises(AbwError, match=f"run 2 is damaged: .*{message}"):
        find_run("2")


def test_a_run_of_the_version_without_hashes_is_read(runs: list[Path]) -> None:
    report = json.loads(runs[1].read_text())
    del report["sha256"]
    runs[1].write_text(json.dumps(report))
    assert find_run("1").report["n"] == 0
    with pytest.raises(AbwError, match="run 2 is damaged"):
        find_run("2")
    old = {"spec": "m.yaml", "policy": "fsm", "mini_batches": 0, "batches": 0, "versions": {"abw": "0.1.0"}}
    runs[1].write_text(json.dumps({**report, **old}))
    assert find_run("2").report["n"] == 1


def test_any_change_is_damage(runs: list[Path]) -> None:
    runs[2].write_text(runs[2].read_text().replace('"n": 2', '"n": "two"'))
    with pytest.raises(AbwError, match=r"run 3 is damaged: .*not as abw wrote it"):
        find_run(None)


def test_the_way_it_is_written_is_none(runs: list[Path]) -> None:
    runs[2].write_text(json.dumps(json.loads(runs[2].read_text()), sort_keys=True))
    assert find_run(None).report["n"] == 2


def test_reports_of_other_versions_are_refused_by_name(
    runs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("abw.core.store.runs.SCHEMA_VERSION", 7)
    with pytest.raises(AbwError, match="run 1 is damaged: its report has version 1, this abw reads 7"):
        find_run("1")
