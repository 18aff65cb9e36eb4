"""`abw run program.py:function --check-finite`: the first number that is NaN or infinite."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.cli.conftest import Abw

LIBRARY = """\
library: logs
dims: {hidden: 3}
params: {start: hidden}
cells:
  log: {dims: [hidden], inputs: {x: hidden}, equations: "y = log(x)", outputs: {y: y}}
  double: {dims: [hidden], inputs: {x: hidden}, equations: "y = x + x", outputs: {y: y}}
"""
PROGRAM = """
import abw

net = abw.cells("logs.yaml")


def logs(number):
    found = net.double([1, 1, 1])
    for _ in range(3):
        found = net.double(net.log([number, 1, 1]))
        if number < 3:
            found.argmax()
    return number
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "logs.yaml").write_text(LIBRARY)
    (tmp_path / "logs.py").write_text(PROGRAM)
    (tmp_path / "good.jsonl").write_text("1\n2\n3\n")
    (tmp_path / "bad.jsonl").write_text("1\n4\n\n0\n-1\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


RUN = ("run", "logs.py:logs", "--threads", "1", "--check-finite", "--no-keep", "-q", "--data")


@pytest.mark.parametrize("more", [(), ("--granularity", "op"), ("--policy", "depth"), ("--executor", "blas")])
def test_the_first_one_is_named(abw: Abw, folder: Path, more: tuple[str, ...]) -> None:
    assert abw(*RUN, "good.jsonl", *more).code == 0
    done = abw(*RUN, "bad.jsonl", *more)
    said = " ".join(done.err.split())
    assert done.code == 1 and "bad.jsonl:4 (instance 2): output" in said and "of log" in said
    assert "is -inf; what it reads is finite" in said
    alone = abw(*RUN, "bad.jsonl", "--batch", "1", "--skip-bad", *more)
    assert "bad.jsonl:4 (instance 2)" in " ".join(alone.err.split())


def test_weights_are_looked_at_first(abw: Abw, folder: Path) -> None:
    np.savez(folder / "weights.npz", start=np.array([1, np.nan, 2], np.float32))
    done = abw(*RUN, "good.jsonl", "--weights", "weights.npz")
    assert done.code == 1 and "start[1] is nan" in " ".join(done.err.split())
