"""What cannot be written is told before the work."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from abw.core.errors import AbwError
from abw.core.store.files import require_writable
from abw.core.store.runs import runs_folder


def test_folders_that_are_there_or_can_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in (tmp_path, tmp_path / "a/b/c", Path("a/b"), Path()):
        require_writable(folder)
    assert not list(tmp_path.iterdir())


def test_a_file_where_a_folder_should_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ABW_HOME", str(tmp_path / "file"))
    with pytest.raises(AbwError, match="file is no folder") as caught:
        require_writable(runs_folder())
    assert "ABW_HOME" in caught.value.hint
    monkeypatch.setenv("ABW_HOME", str(tmp_path / "home"))  # which does not move what lies elsewhere
    with pytest.raises(AbwError, match="is no folder") as caught:
        require_writable(tmp_path / "file")
    assert not caught.value.hint


def test_a_folder_of_somebody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: mode == os.F_OK and allowed(path, mode))
    with pytest.raises(AbwError, match="is not yours to write to"):
        require_writable(tmp_path / "home/runs")
