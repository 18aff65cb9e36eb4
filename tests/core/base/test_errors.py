"""Hints of errors, and errors of other processes."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from abw.core.base.errors import AbwError, DataError, InstanceError, Problem, Span, SpecError, missing_file


def test_a_missing_file_has_the_nearest_name_else_those_of_its_kind(tmp_path: Path) -> None:
    for name in "abcdefg":
        (tmp_path / f"{name}.pt").touch()
    (tmp_path / "train.txt").touch()
    (tmp_path / "folder.npz").mkdir()
    assert missing_file(tmp_path / "trian.txt") == "did you mean 'train.txt'?"
    assert missing_file(tmp_path / "weights.txt") == f"the folder {tmp_path} holds train.txt"
    assert missing_file(tmp_path / "weights.pt").endswith(" holds a.pt, b.pt, c.pt, d.pt, e.pt, …")
    assert missing_file(tmp_path / "weights.npz") == f"the folder {tmp_path} holds no file *.npz"
    assert missing_file(tmp_path / "no/weights.pt") == f"there is no folder {tmp_path / 'no'}"


def test_an_ending_alone_makes_no_name_near(tmp_path: Path) -> None:
    (tmp_path / "bom.txt").touch()
    assert missing_file(tmp_path / "vocab.txt") == f"the folder {tmp_path} holds bom.txt"
    assert missing_file(tmp_path / "bom.tx") == "did you mean 'bom.txt'?"
    assert missing_file(tmp_path / "boom.txt") == "did you mean 'bom.txt'?"
    (tmp_path / "model.yaml").touch()
    assert missing_file(tmp_path / "model.yml") == "did you mean 'model.yaml'?"


def test_a_missing_file_in_this_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert missing_file(Path("weights.pt")) == f"the folder {tmp_path} holds no file *.pt"


@pytest.mark.parametrize(
    "error",
    [
        AbwError("no", hint="yes", exit_code=2),
        SpecError([Problem("wrong", Span("a.yaml", 3, 2)), Problem("also wrong", None, "mend it")]),
        InstanceError(Problem("wrong", None), 4),
        DataError([Problem("wrong", Span("a.txt", 7))]),
    ],
)
def test_an_error_of_another_process_is_the_same(error: AbwError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error) and vars(again) == vars(error)
