"""A command line inside the test's process, with a workbench folder of its own."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer

from abw.cli.main import main


@dataclass(frozen=True)
class Outcome:
    """What a command left: exit code, standard output, standard error."""

    code: int
    out: str
    err: str

    def json(self) -> Any:  # noqa: ANN401
        return json.loads(self.out)


Abw = Callable[..., Outcome]
# Builds the command line once for all tests: typer takes 0.1 s for it, at each call.
BUILT = functools.cache(typer.main.get_command)


@pytest.fixture
def home(tmp_path: Path, kernels_home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The workbench's folder, with the machine code of other tests."""
    folder = tmp_path / "abw-home"
    folder.mkdir()
    (kernels_home / "kernels").mkdir(exist_ok=True)
    (folder / "kernels").symlink_to(kernels_home / "kernels")
    monkeypatch.setenv("ABW_HOME", str(folder))
    monkeypatch.setenv("COLUMNS", "160")
    return folder


@pytest.fixture
def abw(home: Path, root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Abw:
    """Runs `abw ARGS` in the repository."""
    monkeypatch.chdir(root)
    monkeypatch.setattr("typer.main.get_command", BUILT)

    def call(*args: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["abw", *args])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        said = capsys.readouterr()
        return Outcome(code, said.out, said.err)

    return call
