"""What cannot be written is told before the work, and what is written is there whole or not at all."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from abw.core.base.errors import AbwError
from abw.core.base.files import read_json, refuse_overwrite, replacing, why_no_file, write_bytes, write_json
from abw.core.store.folders import require_writable
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


def test_a_file_is_replaced_whole_or_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_bytes(path, b"before")
    with pytest.raises(RuntimeError), replacing(path) as file:
        file.write(b"half")
        file.flush()
        assert path.read_bytes() == b"before"
        raise RuntimeError
    assert path.read_bytes() == b"before"
    write_bytes(path, b"after")
    assert path.read_bytes() == b"after"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_what_a_killed_process_left_is_written_over(tmp_path: Path) -> None:
    (tmp_path / ".draft-file").write_bytes(b"a long half of something")
    write_bytes(tmp_path / "file", b"short")
    assert (tmp_path / "file").read_bytes() == b"short"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_link_stays_a_link_and_a_device_a_device(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "nothing").symlink_to("/dev/null")
    for name in ("link", "nothing"):
        write_bytes(tmp_path / name, b"text")
        assert (tmp_path / name).is_symlink()
    assert (tmp_path / "file").read_bytes() == b"text"
    assert Path("/dev/null").is_char_device()


def test_a_link_in_the_place_of_a_draft_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_bytes(b"mine")
    (tmp_path / ".draft-file").symlink_to("precious")
    with pytest.raises(AbwError, match=r"cannot write .*/file"):
        write_bytes(tmp_path / "file", b"theirs")
    assert (tmp_path / "precious").read_bytes() == b"mine"


def test_two_writers_of_one_file_wait_or_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with replacing(path, wait=False) as file:
        file.write(b"first")
        with pytest.raises(AbwError, match="file is being written by another process"):
            replacing(path, wait=False).__enter__()
        waiting = threading.Thread(target=write_bytes, args=(path, b"second"))
        waiting.start()
        assert not path.exists()
    waiting.join(20)
    assert path.read_bytes() == b"second"
    assert [p.name for p in tmp_path.iterdir()] == ["file"]


def test_a_file_that_is_read_is_not_written_by_any_name(tmp_path: Path) -> None:
    read, other = tmp_path / "read", tmp_path / "other"
    read.touch()
    other.touch()
    (tmp_path / "soft").symlink_to("read")
    (tmp_path / "hard").hardlink_to(read)
    refuse_overwrite(other, read, None, tmp_path / "absent", Path("a\0b"))
    refuse_overwrite(tmp_path / "absent", read, tmp_path / "absent")
    for name in ("read", "soft", "hard", "../" + tmp_path.name + "/read"):
        with pytest.raises(AbwError, match="would be overwritten") as caught:
            refuse_overwrite(tmp_path / name, other, read)
        assert caught.value.exit_code == 2


def test_names_that_are_no_text_come_back_from_json(tmp_path: Path) -> None:
    name = os.fsdecode(b"/data/\xff.txt")
    write_json(tmp_path / "a.json", {"data": name, "other": "\u00e9"})
    assert read_json(tmp_path / "a.json", "document") == {"data": name, "other": "\u00e9"}


def test_what_is_no_file_is_not_read_as_one(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zeros").symlink_to("/dev/zero")
    said = {"pipe": "a pipe", "zeros": "a device or socket", ".": "a folder", "absent": ""}
    for name, kind in said.items():
        assert why_no_file(tmp_path / name) == kind
        with pytest.raises(AbwError, match=kind or "does not exist"):
            read_json(tmp_path / name, "document")
