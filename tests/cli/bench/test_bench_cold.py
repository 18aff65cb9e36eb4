"""`abw bench cold`: what it reports of its processes, and how it lists compiles."""

from __future__ import annotations

from pathlib import Path
from typing import no_type_check

import numba
import pytest

from abw.bench.whole import cold
from abw.core.base.errors import AbwError
from abw.core.base.progress import Quiet

WRITES = """
import os, pathlib, time
folder = pathlib.Path(os.environ["NUMBA_CACHE_DIR"])
assert folder.parent == pathlib.Path(os.environ["ABW_HOME"]).parent
if not folder.exists():
    folder.mkdir()
    time.sleep(0.2)
"""
LISTS = 'print(\'[{"function": "a", "seconds": 1}, {"function": "b", "seconds": 2}]\')'


def test_cold_and_warm_runs_share_caches_and_pairs_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold, "RUN", WRITES)
    monkeypatch.setattr(cold, "_LISTED", LISTS)
    report = cold.bench_cold(Path("x.yaml"), 2, 1, Quiet())
    assert [row["caches"] for row in report["rows"]] == ["cold", "warm"] * 2
    for row in report["rows"]:
        assert row["cpu_seconds"] > 0
    assert all(row["seconds"] > 0.2 for row in report["rows"][::2])
    assert report["compiles"] == [{"function": "b", "seconds": 2}]
    assert (report["compiled"], report["compile_seconds"]) == (2, 3)


def test_a_run_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold, "RUN", "raise SystemExit('no such thing')")
    with pytest.raises(AbwError, match="no such thing"):
        cold.bench_cold(Path("x.yaml"), 1, 1, Quiet())


@no_type_check
def test_compiles_are_listed_without_their_callees() -> None:
    @numba.njit
    def called(x: int) -> int:
        return x + 1

    @numba.njit
    def calling(x: int) -> int:
        return called(x) * 2

    with cold.listed_compiles() as rows:
        assert calling(3) == 8
        assert calling(4) == 10
    names = [row["function"].rpartition(".")[2] for row in rows]
    assert (names.count("called"), names.count("calling")) == (1, 1)
    assert names.index("called") < names.index("calling")
    assert all(row["seconds"] > 0 for row in rows)
