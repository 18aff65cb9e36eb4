"""`abw train` from end to end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Abw

SMALL = ("--set", "hidden=4", "--threads", "1", "--quiet")


def test_train_then_run_with_what_was_learned(abw: Abw, home: Path, tmp_path: Path) -> None:
    done = abw("train", "sst", *SMALL[:-1], "--epochs", "2")
    assert done.code == 0
    assert "epoch   2: loss" in done.err
    assert "accuracy over root" in done.err
    folder = home / "training" / "0001-sst"
    assert f"weights: {folder}/best.safetensors" in done.out
    for name in ("best", "checkpoint"):
        out = tmp_path / f"{name}.jsonl"
        weights = ("--weights", str(folder / f"{name}.safetensors"))
        ran = abw("run", "sst", "--set", "hidden=4", *weights, "-o", str(out), "--quiet")
        assert ran.code == 0
        assert len(out.read_text().splitlines()) == 48


def test_json_is_the_report(abw: Abw, home: Path) -> None:
    report = abw("train", "sst", *SMALL, "--epochs", "1", "--json").json()
    assert report["steps"] == 2
    assert [row["epoch"] for row in report["curve"]] == [1]
    curve = json.loads((Path(report["path"]) / "curve.json").read_text())
    assert curve["rows"] == report["curve"]
    again = abw("train", "--resume", "last", "--quiet", "--json").json()
    assert again["curve"] == report["curve"]


def test_check_prints_each_parameter(abw: Abw) -> None:
    done = abw("train", "sst", "--set", "hidden=2", "--limit", "1", "--check")
    assert done.code == 0
    assert "leaf.Wi: " in done.out
    assert "gradients are right" in done.out


def test_trainings_are_listed_shown_compared_drawn_and_removed(abw: Abw, home: Path, tmp_path: Path) -> None:
    for seed in ("1", "2"):
        done = abw("train", "sst", *SMALL[:-1], "--epochs", "2", "--seed", seed)
        assert "sst: training loss" in done.out and "accuracy over root" in done.out
    assert abw("runs", "note", "t2", "another seed", "--tag", "seeds").code == 0
    first, second = abw("runs", "--json").json()["trainings"]
    assert (first["name"], second["note"], second["tags"]) == ("t1", "another seed", ["seeds"])
    best = first["best"]["accuracy over root"]
    assert best == max(row["accuracy over root"] for row in first["curve"])
    listed = abw("runs").out
    assert f"accuracy over root {best:.4g}" in listed and "another seed" in listed
    assert [t["name"] for t in abw("runs", "--tag", "seeds", "--json").json()["trainings"]] == ["t2"]
    assert "--seed 2" in abw("runs", "show", "t2").out
    differs = abw("runs", "diff", "t1", "t2", "--json").json()
    assert differs["options"] == {"seed": [1, 2]} and differs["files"] == []
    assert "t2: accuracy over root" in abw("runs", "diff", "t1", "t2").out
    assert "are not compared" in abw("runs", "diff", "1", "t2").err
    assert abw("viz", "t1", "-o", str(tmp_path / "curves.svg")).code == 0
    assert "accuracy over root" in (tmp_path / "curves.svg").read_text()
    assert "sst: training loss" in abw("viz", "t1").out
    assert abw("viz", "t1", "-o", str(tmp_path / "curves.html")).code == 0
    page = (tmp_path / "curves.html").read_text()
    assert page.count("<svg") == 3 and page.count('<tr class="best">') == 1 and "<script" not in page
    assert "accuracy over root" in page and "http://" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "there are curves" in " ".join(abw("viz", "t1", "--graph").err.split())
    assert abw("runs", "rm", "t1").code == 0
    assert "there is no training 't1'" in abw("runs", "show", "t1").err
    (home / "training" / "0002-sst" / "curve.json").write_text("[1")
    assert "damaged" in abw("runs").out
    assert "t2 is damaged" in abw("runs", "show", "t2").err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("treelstm",), "it has no section 'train'"),
        (("sst", "--resume", "1"), "leave out SPEC and other options"),
        (("--resume", "1", "--epochs", "2"), "leave out SPEC and other options"),
        (("--resume", "1", "--policy", "depth"), "leave out SPEC and other options"),
        (("--resume", "1"), "there are no trainings"),
    ],
)
def test_mistakes(abw: Abw, args: tuple[str, ...], message: str) -> None:
    done = abw("train", *args)
    assert done.code != 0
    assert message in " ".join(done.err.replace("│", " ").split())
    assert "Traceback" not in done.err


def test_metrics_of_ones_own_are_told_each_epoch(abw: Abw, tmp_path: Path) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(
        "def roots(outputs, targets):\n"
        "    pairs = list(zip(outputs['classes'], targets['classes']))\n"
        "    return sum(int(s[-1].argmax() == t[-1]) for s, t in pairs) / len(pairs)\n\n"
        "def wrong(outputs, targets):\n    return 1 / 0\n"
    )
    asked = ("train", "sst", *SMALL, "--epochs", "1", "--json")
    row = abw(*asked, "--metric", f"{mine}:roots").json()["curve"][0]
    assert 0 <= row["roots"] <= 1
    again = abw("train", "--resume", "last", "--quiet", "--json").json()
    assert again["curve"] == [row]
    for name, said in {
        f"{mine}:rots": "did you mean 'roots'",
        f"{mine}:wrong": "mine.py:6: ZeroDivisionError",
        "no_such.module:f": "no module",
        "roots": "file.py:function",
    }.items():
        refused = abw(*asked, "--metric", name)
        assert (refused.code, said in refused.err) == (1, True), refused.err


def test_learned_policies_train_to_the_same_bits(abw: Abw, tmp_path: Path) -> None:
    learned = tmp_path / "p.json"
    small = ("sst", "--set", "hidden=4", "--trials", "20", "--encoding", "base", "-q", "-o", str(learned))
    assert abw("learn", *small).code == 0
    curves = []
    for policy in ("sufficient", str(learned), "fsm"):
        report = abw("train", "sst", *SMALL, "--epochs", "1", "--policy", policy, "--json").json()
        curves.append([row | {"instances_per_second": 0} for row in report["curve"]])
    assert curves[0] == curves[1] == curves[2]
    refused = abw("train", "sst", *SMALL, "--policy", "agneda")
    assert "did you mean 'agenda'" in refused.err
