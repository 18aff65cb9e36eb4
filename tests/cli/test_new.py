"""`abw new`: projects that work from the first command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import abw as package
from abw.core.tools.project import TEMPLATES
from tests.cli.conftest import Abw


@pytest.mark.parametrize("template", TEMPLATES)
def test_a_new_project_runs_and_verifies(
    abw: Abw, template: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = abw("new", template, "my-model")
    assert done.code == 0, done.err
    assert "next: cd my-model && abw run model.yaml" in done.out
    monkeypatch.chdir(tmp_path / "my-model")
    named = {line for line in done.out.splitlines() if line.startswith("my-model/")}
    assert named == {f"my-model/{p.relative_to('.')}" for p in Path().rglob("*") if p.is_file()}
    report = abw("run", "model.yaml", "--verify", "--set", "hidden=8", "--json", "-q").json()
    assert report["model"] == "my-model"
    assert report["max_error"] < 1e-5
    assert abw("check", "model.yaml").code == 0
    assert json.loads(Path("abw.schema.json").read_text()) == json.loads(abw("schema").out)
    # the README's commands exist, and name files that do
    told = Path("README.md").read_text()
    assert all(f"`{path.name}" in told for path in Path().iterdir() if path.name not in ("README.md", ".abw"))
    assert package.load("model.yaml", dims={"hidden": 8}).spec.name == "my-model"
    assert ("abw train model.yaml" in told) == ("\ntrain:\n" in Path("model.yaml").read_text())


def test_there_are_models_that_grow_and_models_that_learn(
    abw: Abw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert abw("new", "growing", str(tmp_path / "mine")).code == 0
    monkeypatch.chdir(tmp_path / "mine")
    assert "\ngrow:\n" in Path("model.yaml").read_text()
    size = ("--set", "hidden=8")
    assert abw("train", "model.yaml", *size, "--epochs", "1", "--quiet").code == 0
    assert abw("run", "model.yaml", *size, "--weights", "t1", "--quiet").code == 0
    assert abw("new", "classifier", str(tmp_path / "other")).code == 0
    assert "\ntrain:\n" in (tmp_path / "other" / "model.yaml").read_text()


@pytest.mark.parametrize("name", ["7 trees", "ä.b"])
def test_any_folder_name_is_a_model(abw: Abw, tmp_path: Path, name: str) -> None:
    assert abw("new", "tree", str(tmp_path / name)).code == 0
    assert abw("check", str(tmp_path / name / "model.yaml")).code == 0


def test_nothing_is_written_over(abw: Abw, tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("mine")
    done = abw("new", "tree", str(tmp_path / "full"))
    assert done.code == 1
    assert "already exists" in done.err
    assert [p.name for p in tmp_path.rglob("*") if p.is_file()] == ["mine.txt"]
    (tmp_path / "empty").mkdir()
    assert abw("new", "tree", str(tmp_path / "empty")).code == 0
    assert abw("new", "grid", str(tmp_path / "other")).code == 2


def test_the_folder_one_is_in(abw: Abw, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    assert abw("new", "tree", ".").code == 0
    assert Path("model.yaml").is_file() and "model: mine\n" in Path("model.yaml").read_text()
    assert list(tmp_path.glob(".abw-new-*")) == []
