"""`abw viz` as a user meets it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Abw

FIG1 = ("specs/fig1.yaml", "--set", "hidden=4")


def test_the_latest_run_without_an_argument(abw: Abw) -> None:
    assert abw("run", *FIG1, "--encoding", "base").code == 0
    done = abw("viz")
    assert done.code == 0, done.err
    assert "run 1: fig1" in done.out
    assert "LIIIOR" in done.out
    done = abw("viz", "--policy")
    assert "states, encoding base" in done.out
    assert "LIIIOR" not in done.out


def test_a_spec_is_learned_and_drawn(abw: Abw) -> None:
    done = abw("viz", *FIG1, "--batches")
    assert done.code == 0, done.err
    assert "LOIIIOR" in done.out
    picked = abw("run", *FIG1, "--json").json()["picked"]
    assert f"fig1 (auto: {picked})" in done.out
    assert "policy fsm" in abw("viz", *FIG1, "--policy", "--encoding", "base").out


def test_a_misspelt_model_is_told_its_name(abw: Abw) -> None:
    for command in (("viz", "gatt", "--model"), ("explain", "gatt")):
        done = abw(*command)
        assert done.code == 1
        assert "did you mean 'gat'?" in done.err


def test_json_has_every_picture_and_nothing_else_on_standard_output(abw: Abw) -> None:
    kinds = ("policy", "graph", "frontier", "batches", "memory", "pqtree", "model")
    done = abw("viz", *FIG1, *(f"--{kind}" for kind in kinds), "--json")
    document = done.json()
    assert document.keys() == {"schema_version", "title", "arena", *kinds}
    assert [lane["policy"] for lane in document["batches"][0]["lanes"]] == ["auto", "depth", "agenda"]
    assert len(document["graph"][0]["type"]) == 15


def test_a_model_is_drawn_without_its_data_being_batched(abw: Abw, home: Path, tmp_path: Path) -> None:
    done = abw("viz", "greedy", "--model")
    assert done.code == 0, done.err
    assert "add step unless next == </s>" in done.out
    assert not (home / "policies").exists()
    document = abw("viz", "lattice", "--model", "--set", "hidden=8", "--json").json()
    (model,) = document["model"]
    char = next(block for block in model["blocks"] if block["name"] == "char")
    assert char["numbers"] == 4 * (8 * 8 + 8 * 8 + 8)
    for format, begin in (("svg", "<svg"), ("dot", "digraph")):
        file = tmp_path / f"model.{format}"
        assert abw("viz", "gat", "--model", "-o", str(file)).code == 0
        assert file.read_text(encoding="utf-8").startswith(begin)


def test_the_model_of_a_run(abw: Abw) -> None:
    assert abw("run", *FIG1).code == 0
    done = abw("viz", "--model", "--batches")
    assert done.code == 0, done.err
    assert "cell fig1" in done.out or "cell " in done.out
    assert "LOIIIOR" in done.out


def test_another_policys_picture(abw: Abw) -> None:
    done = abw("viz", *FIG1, "--policy", "--frontier", "--by", "agenda", "--json")
    document = done.json()
    assert document["policy"][0]["policy"] == "agenda"
    assert len(document["frontier"][0]["ready"]) == 7
    done = abw("viz", *FIG1, "--by", "agenta")
    assert done.code == 2
    assert "did you mean 'agenda'" in done.err


def test_policies_to_compare_with(abw: Abw) -> None:
    document = abw("viz", *FIG1, "--against", "sufficient", "--batches", "--json").json()
    assert [lane["policy"] for lane in document["batches"][0]["lanes"]] == ["auto", "sufficient"]


def test_a_policys_file_alone(abw: Abw, home: Path) -> None:
    assert abw("learn", *FIG1, "--encoding", "base").code == 0
    file = next((home / "policies").iterdir())
    done = abw("viz", str(file), "--json")
    assert done.json()["policy"][0]["steps"] == []
    assert "5 states" in abw("viz", str(file)).out
    damaged = home / "damaged.json"
    damaged.write_text(json.dumps({"format": "other"}))
    done = abw("viz", str(damaged))
    assert (done.code, "not a policy" in done.err) == (1, True)
    done = abw("viz", str(home / "absent.json"))
    assert (done.code, "does not exist" in done.err) == (1, True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "there are no runs"),
        (("7",), "there are no runs"),
        (("specs/absent.yaml",), "absent.yaml"),
        ((*FIG1, "--mini-batch", "5"), "there is no mini-batch 5"),
    ],
)
def test_mistakes_are_told_without_a_traceback(abw: Abw, arguments: tuple[str, ...], said: str) -> None:
    done = abw("viz", *arguments)
    assert done.code == 1
    assert said in done.err
    assert "Traceback" not in done.err
    assert done.out == ""


def test_a_run_writes_its_report(abw: Abw, home: Path) -> None:
    done = abw("run", *FIG1, "--report")
    assert done.code == 0, done.err
    file = home / "runs" / "0001-fig1" / "report.html"
    assert f"report: {file}" in done.out
    assert file.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert abw("run", *FIG1, "--report", "--json").json()["report"].endswith("report.html")


@pytest.mark.parametrize("format", ["html", "svg", "dot", "text"])
def test_every_format_as_a_file(abw: Abw, tmp_path: Path, format: str) -> None:
    file = tmp_path / f"picture.{format if format != 'text' else 'txt'}"
    done = abw("viz", *FIG1, "--policy", "-o", str(file))
    assert done.code == 0, done.err
    begin = {"html": "<!doctype html>", "svg": "<svg", "dot": "digraph", "text": "fig1 (auto: "}[format]
    assert file.read_text(encoding="utf-8").lstrip("/").startswith(begin)
    if format != "text":
        assert str(file) in done.out


def test_svg_and_dot_go_to_standard_output_without_a_file(home: Path, root: Path) -> None:
    command = [sys.executable, "-c", "from abw.cli.main import main; main()", "viz", *FIG1, "--graph"]
    for flag, begin in (("--svg", b"<svg"), ("--dot", b"digraph")):
        done = subprocess.run([*command, flag], cwd=root, capture_output=True, check=True)
        assert done.stdout.startswith(begin)


@pytest.mark.parametrize("name", ["picture.foo", "picture"])
def test_a_file_whose_ending_says_no_format(abw: Abw, tmp_path: Path, name: str) -> None:
    done = abw("viz", *FIG1, "--policy", "-o", str(tmp_path / name))
    assert done.code == 2 and ".html, .svg, .dot, .png, .pdf, .txt" in done.err
    assert not list(tmp_path.glob("picture*"))
    done = abw("viz", *FIG1, "--policy", "--dot", "-o", str(tmp_path / name))
    assert done.code == 0 and (tmp_path / name).read_text(encoding="utf-8").lstrip("/").startswith("digraph")


def test_formats_that_contradict_each_other_are_a_usage_error(abw: Abw, home: Path) -> None:
    for arguments in (("--svg", "--dot"), ("--svg", "-o", "x.png")):
        done = abw("viz", *FIG1, *arguments)
        assert done.code == 2
        assert "different formats" in done.err
    assert abw("learn", *FIG1, "--encoding", "base").code == 0
    file = next((home / "policies").iterdir())
    assert abw("viz", str(file), "--html").code == 2


def test_a_picture_that_cannot_be_had_says_what_can(abw: Abw) -> None:
    done = abw("viz", *FIG1, "--batches", "--dot")
    assert (done.code, "--svg, --png and --pdf draw all" in done.err) == (1, True)
