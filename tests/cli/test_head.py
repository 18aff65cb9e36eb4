"""`abw run --data -` where the spec's own data are not there: a pipe's first lines stand in for them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Abw, Outcome
from tests.cli.test_stream import process

FLAGS = ("--set", "hidden=8", "-q", "--no-keep", "--policy", "critical")
TREES = "(3 (2 It) (4 works))\n"


@pytest.fixture
def bare(root: Path, tmp_path: Path) -> Path:
    """The shipped specs without their data."""
    skip = shutil.ignore_patterns("data", "programs")
    return Path(shutil.copytree(root / "specs", tmp_path / "specs", ignore=skip))


def fed(abw: Abw, spec: Path, data: bytes, *flags: str) -> Outcome:
    """`abw run SPEC` with those bytes on its standard input."""
    kept, (reading, writing) = os.dup(0), os.pipe()
    with os.fdopen(writing, "wb") as pipe:
        pipe.write(data)  # shorter than what a pipe holds
    os.dup2(reading, 0)
    os.close(reading)
    try:
        return abw("run", str(spec), "--data", "-", *flags, *FLAGS)
    finally:
        os.dup2(kept, 0)
        os.close(kept)


@pytest.mark.parametrize(
    ("name", "file"), [("treelstm", "trees.txt"), ("lstm-nmt", "pairs.txt"), ("rings", "rings.jsonl")]
)
def test_outputs_are_those_of_the_data(
    abw: Abw, root: Path, bare: Path, tmp_path: Path, name: str, file: str
) -> None:
    data = root / "specs" / "data" / file
    there, piped = tmp_path / "there.jsonl", tmp_path / "piped.jsonl"
    done = abw("run", f"specs/{name}.yaml", "--output", str(there), *FLAGS)
    assert done.code == 0, done.err
    spec = bare / f"{name}.yaml"
    unnamed = spec.read_text().replace(f"path: data/{file}, ", "")
    for text in (spec.read_text(), unnamed):
        spec.write_text(text)
        done = fed(abw, spec, data.read_bytes(), "--output", str(piped))
        assert done.code == 0, done.err
        assert piped.read_bytes() == there.read_bytes() != b""


def test_the_first_answer_waits_for_nothing_more(bare: Path, home: Path) -> None:
    with process(bare, "treelstm.yaml", "--data", "-", "--output", "-", *FLAGS) as run:
        assert run.stdin and run.stdout
        for number in range(3):
            run.stdin.write(TREES.encode())
            run.stdin.flush()
            assert json.loads(run.stdout.readline())["id"] == number
        run.stdin.close()
        assert run.wait() == 0


def test_mistakes_are_told_where_they_stand_in_the_pipe(abw: Abw, bare: Path, tmp_path: Path) -> None:
    told = fed(abw, bare / "treelstm.yaml", TREES.encode() + b"(3 (2 it\n")
    assert told.code == 1
    assert "stdin:2:9: the line ends inside a tree" in told.err
    file = str(tmp_path / "out.jsonl")
    told = fed(abw, bare / "treelstm.yaml", b"(3 (2 it\n" + TREES.encode(), "--skip-bad", "--output", file)
    assert told.code == 0, told.err
    left_out, run = map(json.loads, Path(file).read_text().splitlines())
    assert "stdin:1:9: the line ends inside a tree" in left_out["error"]
    assert (run["id"], run["line"]) == (1, 2)
    assert "stdin:1:1: no instances" in fed(abw, bare / "treelstm.yaml", b"").err


def test_lattices_need_their_own_data(abw: Abw, bare: Path) -> None:
    told = fed(abw, bare / "lattice.yaml", b"1\n")
    assert told.code == 1
    assert "lattices from a pipe need data of the spec's own" in told.err


def test_the_first_lines_are_not_left_behind(bare: Path, home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "tmp"
    folder.mkdir()
    command = [sys.executable, "-m", "abw", "run", str(bare / "treelstm.yaml"), "--data", "-", *FLAGS]
    env = {**os.environ, "TMPDIR": str(folder)}
    done = subprocess.run(command, input=TREES.encode(), env=env, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert not list(folder.iterdir())
