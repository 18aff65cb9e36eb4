"""What a shell is offered."""

from __future__ import annotations

from pathlib import Path

import pytest

from abw.cli import completion
from tests.cli.conftest import Abw


def offered(abw: Abw, monkeypatch: pytest.MonkeyPatch, *words: str) -> list[str]:
    """What bash would be given for the last word."""
    monkeypatch.setenv("_ABW_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", " ".join(("abw", *words)))
    monkeypatch.setenv("COMP_CWORD", str(len(words)))
    return abw().out.split()


def test_specs_policies_and_runs(abw: Abw, monkeypatch: pytest.MonkeyPatch) -> None:
    assert abw("run", "specs/fig1.yaml", "-q", "--set", "hidden=8", "--policy", "depth").code == 0
    assert offered(abw, monkeypatch, "run", "latt") == ["lattice", "lattice-gru"]
    assert offered(abw, monkeypatch, "run", "fig1", "--policy", "agenda-s") == [
        "agenda-static",
        "agenda-static-reversed",
    ]
    assert "depth,critical" in offered(abw, monkeypatch, "compare", "fig1", "--policies", "depth,crit")
    assert "fsm" in offered(abw, monkeypatch, "viz", "--by", "f")
    assert offered(abw, monkeypatch, "runs", "rm", "1") == ["1"]
    assert offered(abw, monkeypatch, "explain", "1") == ["1"]


def test_runs_come_the_latest_first(home: Path) -> None:
    for name in ("0002-a", "0010-b", "0001-c"):
        (home / "runs" / name).mkdir(parents=True)
    assert completion.runs("") == ["10", "2", "1"]
    assert completion.runs("1") == ["10", "1"]
