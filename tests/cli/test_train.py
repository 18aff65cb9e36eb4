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


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("treelstm",), "it has no section 'train'"),
        (("sst", "--resume", "1"), "a spec, or --resume"),
        (("--resume", "1", "--epochs", "2"), "leave the other options out"),
        (("--resume", "1"), "there are no trainings"),
        (("sst", "--policy", "fsm"), "the policy fsm must be learned first"),
    ],
)
def test_mistakes(abw: Abw, args: tuple[str, ...], message: str) -> None:
    done = abw("train", *args)
    assert done.code != 0
    assert message in " ".join(done.err.replace("│", " ").split())
    assert "Traceback" not in done.err
