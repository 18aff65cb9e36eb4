"""What docs/extending.md says is done in a copy, by the letter, and then works."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FOLDERS = ("abw", "bench", "cli", "core", "pqtree", "specs", "tests", "viz")
BLOCK = re.compile(
    r"^<!-- test: ([\w ]+) -->\n```(python|diff)\n(?:#|\+\+\+) (\S+)\n(.*?)^```", re.DOTALL | re.MULTILINE
)

MODEL = """
model: walk
dims: {hidden: 8}
data: {format: series, path: series.txt, batch: 2}
tables: {numbers: {dim: hidden, rows: 10}}
types:
  step: {per: step, cell: cell.yaml, inputs: {x: "numbers[value]", h: prev.h or zeros}}
outputs: {h: step.h}
"""
CELL = """
cell: walk
dims: [hidden]
inputs: {x: hidden, h: hidden}
equations: |
  y = hardtanh(x - h) + hardtanh(-2)
outputs: {h: y}
"""
SERIES = "3 1 4\n\n1 5 9 2\n6\n"


def change(text: str, hunk: str) -> str:
    """The text with a hunk's lines in and out, at the one place that it can mean."""
    lines = hunk.splitlines(keepends=True)
    before, after = ("".join(line[1:] for line in lines if line[0] in f" {sign}") for sign in "-+")
    assert text.count(before) == 1, f"not once in the file:\n{before}"
    return text.replace(before, after)


@pytest.fixture(scope="module")
def extended(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the packages in which everything on the page is done."""
    copy = tmp_path_factory.mktemp("extended")
    for name in FOLDERS:
        shutil.copytree(root / name, copy / name, symlinks=True)
    done = set()
    for thing, language, name, block in BLOCK.findall((root / "docs" / "extending.md").read_text()):
        path = copy / name
        if language == "python":
            assert not path.exists()
            path.write_text(block)
        else:
            for hunk in block.split("@@\n"):
                path.write_text(change(path.read_text(), hunk))
        done.add(thing)
    assert done == {"operation", "policy", "executor", "data format"}
    for name, text in (("model.yaml", MODEL), ("cell.yaml", CELL), ("series.txt", SERIES)):
        (copy / name).write_text(text)
    return copy


def run(folder: Path, *words: str) -> str:
    """What Python prints there. Nothing is compiled by numba: that would take most of the time."""
    own = {"ABW_HOME": str(folder / "home"), "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(folder)}
    command, env = [sys.executable, *words], {**os.environ, **own}
    ended = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_the_operation_is_right_in_every_executor_and_the_data_are_read(extended: Path) -> None:
    right = run(extended, "-m", "tests.extended").split()
    assert right == ["reference", "blas", "cpu", "cuda", "steps", "series"]


def test_policy_format_and_executor_can_be_named(extended: Path) -> None:
    names = ("--policy", "largest", "--executor", "single")
    shown = run(extended, "-m", "abw", "run", "model.yaml", *names, "--verify")
    assert "3 instances in 2 mini-batches of 2; 8 nodes" in shown
    assert "executor single" in shown and "verified" in shown
    assert re.search(r"^largest +5 ", shown, re.MULTILINE)  # batches: 4 and 1
