"""No command writes over a file that it reads, whatever the file is called."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.cli.conftest import Abw

READ = ("treelstm.yaml", "data/trees.txt", "cells/treelstm.yaml")


@pytest.fixture
def specs(root: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "specs"
    shutil.copytree(root / "specs", folder)
    return folder


@pytest.mark.parametrize("file", READ)
@pytest.mark.parametrize("linked", [False, True], ids=["itself", "a link"])
@pytest.mark.parametrize(
    "command",
    [
        ("learn", "{spec}", "--output", "{file}"),
        ("calibrate", "{spec}", "--output", "{file}"),
        ("compare", "{spec}", "--plot", "{file}"),
        ("viz", "{spec}", "--text", "--output", "{file}"),
        ("run", "{spec}", "--output", "{file}"),
    ],
    ids=lambda command: command[0],
)
def test_what_is_read_is_not_written(
    abw: Abw, specs: Path, command: tuple[str, ...], file: str, linked: bool
) -> None:
    target = specs / file
    before = target.read_bytes()
    if linked or command[0] in ("viz", "run"):  # these take the format from the name's ending
        target = specs / f"link.{'txt' if command[0] == 'viz' else 'jsonl'}"
        target.symlink_to(specs / file)
    words = [word.format(spec=specs / "treelstm.yaml", file=target) for word in command]
    done = abw(*words, "--set", "hidden=4", "--limit", "4") if command[0] != "learn" else abw(*words)
    assert done.code == 2, done.err
    assert "would be overwritten" in done.err
    assert (specs / file).read_bytes() == before


def test_a_policy_and_a_file_of_costs_are_not_written_over(abw: Abw, specs: Path, tmp_path: Path) -> None:
    spec, policy = str(specs / "treelstm.yaml"), tmp_path / "p.json"
    assert abw("learn", spec, "--set", "hidden=4", "--encoding", "base", "-o", str(policy)).code == 0
    before = policy.read_bytes()
    for name in ("out.jsonl", "picture.svg", "costs.yaml"):
        (tmp_path / name).symlink_to(policy)
    done = abw("run", spec, "--set", "hidden=4", "--policy", str(policy), "-o", str(tmp_path / "out.jsonl"))
    assert (done.code, "would be overwritten" in done.err) == (2, True)
    done = abw("viz", str(policy), "-o", str(tmp_path / "picture.svg"))
    assert (done.code, "would be overwritten" in done.err) == (2, True)
    done = abw("compare", spec, "--cost", str(policy), "--plot", str(tmp_path / "costs.yaml"))
    assert (done.code, "would be overwritten" in done.err) == (2, True)
    assert policy.read_bytes() == before


def test_a_picture_of_a_layout_does_not_take_the_place_of_its_cell(abw: Abw, specs: Path) -> None:
    cell = specs / "cells/treelstm.yaml"
    before = cell.read_bytes()
    done = abw("layout", str(cell), "--svg", str(cell))
    assert (done.code, "would be overwritten" in done.err) == (2, True)
    assert cell.read_bytes() == before
