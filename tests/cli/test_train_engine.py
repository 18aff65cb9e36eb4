"""`abw train --engine`: what does not go together is refused before any work."""

from __future__ import annotations

import sys

import pytest

from tests.cli.conftest import Abw


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("sst", "--engine", "ray"), "--engine and --workers go together"),
        (("sst", "--workers", "2"), "--engine and --workers go together"),
        (("sst", "--engine", "ray", "--workers", "2", "--check"), "it works only in one process"),
        (("--resume", "1", "--engine", "ray", "--workers", "2"), "a training continues with its own options"),
        (("sst", "--engine", "mpi", "--workers", "2"), "does not take 'mpi'"),
    ],
)
def test_what_does_not_go_together_is_refused(args: tuple[str, ...], said: str, abw: Abw) -> None:
    done = abw("train", *args, "-q")
    assert done.code == 2 and said in " ".join(done.err.split())


def test_an_engine_that_is_not_installed(abw: Abw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    done = abw("train", "sst", "-q", "--engine", "ray", "--workers", "2")
    assert done.code == 1 and "--engine ray needs ray" in done.err and 'pip install ".[ray]"' in done.err


def test_a_cluster_alone_changes_nothing(abw: Abw, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.setenv("RAY_ADDRESS", "nowhere:1")
    args = ("--set", "hidden=4", "--limit", "5", "--batch", "5", "--epochs", "1", "--json", "-q")
    done = abw("train", "sst", *args)
    assert done.code == 0 and done.json()["steps"] == 1
    assert abw("train", "--resume", "last", "--json", "-q").json()["steps"] == 1
