"""Numbered folders: whole or not at all, one number each, and nothing left behind for ever."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from abw.core.base.errors import AbwError
from abw.core.base.files import locked
from abw.core.store.folders import ABANDONED, LAST, begin_folder, discard, new_folder
from abw.core.store.runs import REPORT, find_run, list_runs, save_report

HOUR = 3600.0


def make(parent: Path, name: str = "m") -> Path:
    with new_folder(parent, name) as draft:
        (draft.path / "file").write_text("whole")
    assert draft.final
    return draft.final


def test_a_folder_is_there_when_its_block_has_ended_well(tmp_path: Path) -> None:
    with new_folder(tmp_path, "m") as draft:
        assert [p for p in tmp_path.iterdir() if not p.name.startswith(".")] == []
    assert draft.final == tmp_path / "0001-m"
    with pytest.raises(RuntimeError), new_folder(tmp_path, "m"):
        raise RuntimeError
    assert [p.name for p in tmp_path.iterdir()] == ["0001-m"]


def test_folders_made_at_once_have_numbers_of_their_own(tmp_path: Path) -> None:
    with ThreadPoolExecutor(16) as pool:
        made = list(pool.map(lambda n: make(tmp_path, f"m{n}"), range(48)))
    assert sorted(int(p.name.split("-")[0]) for p in made) == list(range(1, 49))
    assert all((p / "file").read_text() == "whole" for p in made)
    assert len(list(tmp_path.iterdir())) == 48


@pytest.mark.parametrize("age", [2 * HOUR, -2 * HOUR], ids=["old", "from a clock that was ahead"])
def test_drafts_of_a_killed_process_are_removed_after_an_hour(tmp_path: Path, age: float) -> None:
    for name in ("left", "held", "young"):
        folder = tmp_path / f".draft-{name}"
        folder.mkdir()
        (folder / "half").write_text("")
        if name != "young":
            os.utime(folder, (time.time() - age,) * 2)
    with locked(tmp_path / ".draft-held"):  # as of a run that takes long
        make(tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == [".draft-held", ".draft-young", "0001-m"]
    assert ABANDONED == HOUR


def test_a_draft_in_use_is_locked_and_no_other_process_takes_it_for_left(tmp_path: Path) -> None:
    with new_folder(tmp_path, "slow") as draft:
        os.utime(draft.path, (time.time() - 2 * HOUR,) * 2)
        make(tmp_path, "quick")
        assert draft.path.is_dir()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0001-quick", "0002-slow"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ABW_HOME", str(tmp_path))
    return tmp_path


def keep(home: Path, number: int, name: str = "m") -> None:
    folder = home / "runs" / f"{number:04d}-{name}"
    folder.mkdir(parents=True)
    spec = home / "m.yaml"
    spec.write_text("model: m")
    save_report(folder, {"schema_version": 1, "model": name}, (spec,))


def test_the_latest_run_is_the_one_of_the_largest_number(home: Path) -> None:
    for number in (9998, 9999):
        keep(home, number)
    with new_folder(home / "runs", "m") as draft:
        (draft.path / REPORT).write_text("{}")
    assert draft.final == home / "runs" / "10000-m"
    keep(home, 10001, "a")
    assert find_run(None).number == 10001
    assert [run.number for run in list_runs()] == [9998, 9999, 10000, 10001]
    assert [run.number for run in list_runs(last=2)] == [10000, 10001]


def test_a_run_is_found_by_number_name_and_path_and_only_its_report_is_read(home: Path) -> None:
    for number in (1, 2, 10):
        keep(home, number)
    (home / "runs/0001-m" / REPORT).write_text("no report")
    for name in ("2", "0002", "0002-m", str(home / "runs/0002-m")):
        assert find_run(name).number == 2
    assert find_run(None).number == 10
    assert [run.number for run in list_runs(last=2)] == [2, 10]
    with pytest.raises(AbwError, match=r"no run '3'\n.*1 to 10"):
        find_run("3")


def test_a_folder_without_a_report_is_no_run(home: Path) -> None:
    with pytest.raises(AbwError, match="there are no runs"):
        find_run(None)
    keep(home, 1)
    (home / "runs/0002-empty").mkdir()
    (home / "runs/notes-2").mkdir()
    assert find_run(None).number == 1
    assert len(list_runs()) == 1


def test_the_number_of_a_discarded_folder_is_not_given_again(tmp_path: Path) -> None:
    first, second = make(tmp_path), make(tmp_path)
    discard(second)
    assert make(tmp_path).name == "0003-m"
    discard(first)
    assert begin_folder(tmp_path, "m").name == "0004-m"
    (tmp_path / LAST).write_text("9" * 5000)  # no number: those of the folders count
    assert make(tmp_path).name == "0005-m"
