"""A folder in which commands are run and hurt, and the check of what is left of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Self

import numpy as np

from abw.core.policy.learned.policyfile import read_any
from abw.core.store.runs import REPORT

ROOT = Path(__file__).resolve().parents[2]
SPEC = str(ROOT / "specs/treelstm.yaml")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
# Seconds after which a command is one that hangs.
PATIENCE = 300.0
SMALL = ("--set", "hidden=4", "--quiet")
# What is hurt: every command that keeps something, by what it is called here.
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "run": ("run", SPEC, *SMALL, "--limit", "24", "--batch", "4"),
    "run into arrays": ("run", SPEC, *SMALL, "--batch", "4", "--output", "out.npz"),
    "run into lines": ("run", SPEC, *SMALL, "--batch", "2", "--output", "out.jsonl"),
    "learn": ("learn", SPEC, *SMALL, "--encoding", "sort", "--trials", "20", "-o", "policy.json"),
    "viz": ("viz", SPEC, *SMALL, "--limit", "4", "--output", "page.html"),
    "calibrate": ("calibrate", SPEC, *SMALL, "--limit", "4", "--output", "costs.yaml"),
}

# Of a file: which it is, its size, its time.
State = tuple[int, int, int]


@dataclass(frozen=True)
class Ended:
    """How a command ended: exit code (negative: by that signal), what it said, and after how many seconds."""

    code: int
    said: str
    seconds: float


@dataclass
class Bench:
    """A folder with the files that commands write, beside a workbench's folder `home`.

    `before` has what every file of a finished run and every finished file was, `left` the drafts of commands
    that were killed.
    """

    folder: Path
    home: Path
    before: dict[Path, State] = field(default_factory=dict)
    left: list[Path] = field(default_factory=list)

    def call(self, command: Sequence[str], by: int = 0, after: float = 0.0, *, alone: bool = False) -> Ended:
        """Run a command, and send it a signal `by` after some seconds.

        It is a fork of a process that has imported all of abw, or `alone` one of its own from the start.
        """
        return self._alone(command, by, after) if alone else self._forked(command, by, after)

    def _alone(self, command: Sequence[str], by: int, after: float) -> Ended:
        begun = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, "-m", "abw", *command],
            cwd=self.folder,
            env={**ENVIRONMENT, "ABW_HOME": str(self.home)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        if by:
            try:
                process.wait(after)
            except subprocess.TimeoutExpired:
                process.send_signal(by)
        said = process.communicate(timeout=PATIENCE)[1].decode()
        return Ended(process.returncode, said, time.perf_counter() - begun)

    def _forked(self, command: Sequence[str], by: int, after: float) -> Ended:
        asked = {"command": command, "folder": str(self.folder), "home": str(self.home)}
        server = self._server
        assert server.stdin and server.stdout
        server.stdin.write(json.dumps({**asked, "signal": by, "after": after}) + "\n")
        server.stdin.flush()
        return Ended(**json.loads(server.stdout.readline()))

    @cached_property
    def _server(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "tests.faults.server"],
            cwd=ROOT,
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """End the process of which commands are forks."""
        self._server.communicate()

    def note(self) -> None:
        """Take what is there for finished."""
        self.before = {path: state(path) for path in self._kept()}

    def wrong(self) -> list[str]:
        """What is half done, damaged or gone."""
        found = [f"{path} is gone" for path in self.before if not path.exists()]
        for path in self._kept():
            if self.before.get(path) == state(path):
                continue
            if path in self.before and path.is_relative_to(self.home / "runs"):
                found.append(f"{path} changed")
            try:
                require_whole(path)
            except Exception as error:  # whatever a reader finds wrong
                found.append(f"{path}: {error!r}")
        return found + [f"{run} has no report" for run in self._runs() if not (run / REPORT).is_file()]

    def drafts(self) -> list[Path]:
        """What no finished command leaves behind."""
        places = (self.folder, self.home / "runs", self.home / "policies")
        return [p for place in places if place.is_dir() for p in place.iterdir() if p.name.startswith(".")]

    def _runs(self) -> Iterator[Path]:
        if (self.home / "runs").is_dir():
            yield from (p for p in (self.home / "runs").iterdir() if not p.name.startswith("."))

    def _kept(self) -> list[Path]:
        """All finished files."""
        files = [p for run in self._runs() for p in run.rglob("*") if p.is_file()]
        policies = self.home / "policies"
        for place in (self.folder, policies):
            if place.is_dir():
                files += [p for p in place.iterdir() if p.is_file() and not p.name.startswith(".")]
        return files


def state(path: Path) -> State:
    """What changes when a file is written: which it is, its size, its time."""
    about = path.stat()
    return about.st_ino, about.st_size, about.st_mtime_ns


def require_whole(path: Path) -> None:
    """Raise an error for a file that is not what its name promises."""
    match path.suffix:
        case ".npz":
            with np.load(path) as arrays:
                assert arrays.files
                for name in arrays.files:
                    assert arrays[name] is not None
        case ".jsonl":
            lines = path.read_bytes()
            assert not lines or lines.endswith(b"\n"), "half a line"
            for number, line in enumerate(lines.splitlines()):
                assert json.loads(line)["id"] == number
        case ".json" if path.name == REPORT:
            assert json.loads(path.read_text())["schema_version"] == 1
        case ".json":
            read_any(path)
        case ".html":
            assert path.read_text().rstrip().endswith("</html>")
        case ".yaml" if path.name == "costs.yaml":
            assert path.read_text().count("launch:") == 3, "not all types"
        case _:
            assert path.stat().st_size
