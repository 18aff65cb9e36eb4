"""`abw runs`: lists, notes, tags, what differs, what is removed; runs that are not kept."""

from __future__ import annotations

import re
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Abw

FIG1 = ("specs/fig1.yaml", "--set", "hidden=8", "-q")


@pytest.fixture
def three(abw: Abw) -> Abw:
    """Three runs: by depth, by agenda with note and tags, by depth again with other sizes."""
    assert abw("run", *FIG1, "--policy", "depth").code == 0
    noted = ("--note", "as DyNet", "--tag", "base", "--tag", "dynet")
    assert abw("run", *FIG1, "--policy", "agenda", *noted).code == 0
    assert abw("run", *FIG1, "--policy", "depth", "--set", "embed=16").code == 0
    return abw


def numbers(abw: Abw, *flags: str) -> list[int]:
    listed = abw("runs", *flags, "--json").json()["runs"]
    return [int(Path(run["path"]).name[:4]) for run in listed]


def test_runs_are_listed_with_date_note_and_tags(three: Abw) -> None:
    first, second, _ = three("runs", "--json").json()["runs"]
    assert (second["note"], second["tags"], first["tags"]) == ("as DyNet", ["base", "dynet"], [])
    assert abs((datetime.now().astimezone() - datetime.fromisoformat(first["date"])).total_seconds()) < 300
    row = three("runs").out.splitlines()[2]
    assert re.match(r"2 +\d{4}-\d\d-\d\d \d\d:\d\d  fig1 .* agenda .* base dynet +as DyNet", row)
    shown = three("runs", "show", "2")
    assert "note: as DyNet [base] [dynet]" in shown.out and "date: 20" in shown.out


def test_runs_are_chosen_and_sorted(three: Abw) -> None:
    assert numbers(three, "--tag", "dynet") == [2]
    assert numbers(three, "--tag", "dynet", "--tag", "no") == []
    assert numbers(three, "--policy", "dep") == [1, 3]
    assert numbers(three, "--model", "fig", "--last", "2") == [2, 3]
    assert numbers(three, "--sort", "batches") == [2, 1, 3]
    assert numbers(three, "--sort", "date") == [1, 2, 3]
    assert "none of the runs" in three("runs", "--model", "nosuch").out
    assert three("runs", "--sort", "colour").code == 2


def test_a_note_can_be_changed_and_taken_away(three: Abw, home: Path) -> None:
    before = (home / "runs" / "0001-fig1" / "run.json").read_bytes()
    assert three("runs", "note", "1", "first", "--tag", "new").code == 0
    assert three("runs", "note", "2", "", "--untag", "base").code == 0
    first, second, _ = three("runs", "--json").json()["runs"]
    assert (first["note"], first["tags"]) == ("first", ["new"])
    assert (second["note"], second["tags"]) == ("", ["dynet"])
    assert (home / "runs" / "0001-fig1" / "run.json").read_bytes() == before
    assert three("runs", "note", "1").code == 2
    for word in ("two words", "", "a\tb"):
        assert "is no tag" in three("runs", "note", "1", "--tag", word).err
    (home / "runs" / "0001-fig1" / "note.json").write_text("{")  # it is no part of the run
    assert three("runs", "show", "1").code == 0


def test_runs_are_removed_one_by_one_and_in_ranges(three: Abw, home: Path) -> None:
    assert three("runs", "rm", "7").code == 1
    done = three("runs", "rm", "2", "0002-fig1")
    assert re.fullmatch(r"1 run removed: [\d.,]+ k?B\n", done.out)
    assert numbers(three) == [1, 3]
    assert three("runs", "rm", "1-9").code == 0
    assert [path.name for path in (home / "runs").iterdir()] == [".last"]
    assert "no runs" in three("runs").out
    assert three("run", *FIG1, "--policy", "depth").code == 0
    assert numbers(three) == [4]  # a note elsewhere that says 3 means the one that is gone


def test_pruning_leaves_the_latest_and_what_is_noted(three: Abw) -> None:
    assert "0 runs" in three("runs", "prune", "--keep", "3").out
    assert three("runs", "prune", "--keep", "1").code == 0
    assert numbers(three) == [2, 3]


def test_what_differs_between_runs(three: Abw, home: Path) -> None:
    found = three("runs", "diff", "1", "2", "--json").json()
    assert found["options"] == {"policy": ["depth", "agenda"]}
    assert found["counts"]["batches"] == [9, 7]
    assert not found["batches"]["same"] and found["outputs"]["total"]["within"]
    assert found["spec"] == []
    found = three("runs", "diff", "1", "3", "--json").json()
    assert found["options"] == {"dims.embed": [8, 16]}
    assert found["batches"]["same"] and not found["outputs"]["total"]["within"]
    assert found["outputs"]["total"]["error"] > found["tolerance"]
    same = three("runs", "diff", "1", "1")
    assert "bit for bit" in same.out and "the same in the one mini-batch" in same.out
    (home / "runs" / "0003-fig1" / "spec" / "fig1.yaml").write_text("model: other\n")
    assert "+model: other" in three("runs", "diff", "1", "3").out


def test_outputs_a_little_apart_are_within_the_tolerance(three: Abw, home: Path) -> None:
    path = home / "runs" / "0002-fig1" / "outputs.npz"
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    for factor, within in ((1 + 2e-6, True), (1 + 2e-4, False)):
        np.savez(path, **{**arrays, "total": (arrays["total"] * factor).astype(np.float32)})
        found = three("runs", "diff", "1", "2", "--json").json()["outputs"]["total"]
        assert found["within"] == within and 0 < found["error"] < 1e-3
    path.unlink()
    assert "not compared" in three("runs", "diff", "1", "2").out


def test_a_run_that_is_not_kept_leaves_nothing_but_its_outputs(abw: Abw, home: Path, tmp_path: Path) -> None:
    before = set(home.iterdir())
    file = tmp_path / "out.jsonl"
    done = abw("run", *FIG1, "--policy", "depth", "--no-keep", "--output", str(file))
    assert (done.code, done.err, file.read_text().count("\n")) == (0, "", 1)
    assert "results:" not in done.out
    report = abw("run", *FIG1, "--policy", "depth", "--no-keep", "--json").json()
    assert "path" not in report and report["batches"] == 9
    assert set(home.iterdir()) == before
    for flags in (("--report",), ("--note", "x"), ("--tag", "x")):
        assert abw("run", *FIG1, "--no-keep", *flags).code == 2


def test_quiet_is_quiet_and_errors_stay(abw: Abw) -> None:
    for flags in ((), ("--output", "-"), ("--show-kernels", "O"), ("--json",)):
        assert abw("run", *FIG1, *flags).err == ""
    assert abw("run", *FIG1[:-1], "--output", "-").err != ""
    wrong = abw("run", *FIG1, "--data", "nosuch.txt")
    assert (wrong.code, wrong.out) == (1, "") and "nosuch.txt" in wrong.err
