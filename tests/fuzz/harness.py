"""Runs targets in worker processes, and keeps what failed."""

from __future__ import annotations

import json
import os
import re
import reprlib
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzz.target import ROOT, load_targets, put
from tests.fuzz.worker import INTACT, case_of

_REPR = reprlib.Repr()
_REPR.maxlevel, _REPR.maxstring, _REPR.maxlist, _REPR.maxtuple, _REPR.maxdict, _REPR.maxother = (50,) * 6
_STARTING = 60.0
# A case is ended after so many times its CPU time by the clock, and not before so many seconds.
_SLACK, _LEAST = 6.0, 60.0


@dataclass(slots=True)
class Found:
    """What a target's cases gave: how many ran, and which failed, by what their failures have in common."""

    cases: int = 0
    seconds: float = 0.0
    failures: dict[str, list[tuple[int, str]]] = field(default_factory=dict)

    def add(self, number: int, said: str) -> None:
        """Note a failure."""
        self.failures.setdefault(kind_of(said), []).append((number, said))


def kind_of(said: str) -> str:
    """What failures of one cause have in common: the error and the last place in abw that it went through."""
    places = re.findall(r'File "[^"]*?/((?:abw|cli|core|pqtree|viz|tests)/[^"]*)", line (\d+)', said)
    if "Traceback" not in said:
        return re.sub(r"\d+", "N", said.split(":")[0])
    last = said.strip().splitlines()[-1].split(":")[0]
    return f"{last} at {places[-1][0]}:{places[-1][1]}" if places else last


def run(
    names: Sequence[str],
    cases: int,
    seed: int,
    *,
    first: int = 0,
    tell: Callable[[str, int], None] = lambda name, number: None,
) -> dict[str, Found]:
    """Run so many cases of each target, from number `first` on."""
    targets = load_targets()
    found = {name: Found() for name in names}
    patience = max(_LEAST, *(_SLACK * targets[name].seconds for name in names))
    jobs = [(name, first, first + max(1, round(cases * targets[name].share))) for name in names]
    while jobs:
        name, number = jobs[0][0], jobs[0][1] - 1
        with tempfile.TemporaryFile() as errors:
            modules = sorted({targets[name].attempt.__module__ for name, *_ in jobs})
            worker = _start(modules, jobs, seed, errors.fileno())
            begun, ended = time.perf_counter(), "the worker died"
            try:
                for event in _events(worker, patience):
                    if "done" in event:
                        jobs = []
                        continue
                    now = time.perf_counter()
                    found[name].seconds += now - begun
                    begun = now
                    name, number = event["target"], event["case"]
                    if "failure" in event:
                        found[name].add(number, event["failure"])
                    else:
                        found[name].cases += number != INTACT
                        tell(name, number)
                code = worker.wait()
            except TimeoutError:
                ended = f"no end after {patience:.0f} s"
            finally:
                worker.kill()
                code = worker.wait()
                if worker.stdout:
                    worker.stdout.close()
            if jobs:
                errors.seek(max(0, errors.seek(0, os.SEEK_END) - 4000))
                said = errors.read().decode(errors="replace")
                found[name].add(number, f"{ended} ({code}){f': {said}' if said else ''}")
                jobs = _left(jobs, name, number)
    return found


def _left(jobs: list[tuple[str, int, int]], name: str, number: int) -> list[tuple[str, int, int]]:
    """The jobs behind a case; a target whose corpus itself ends the worker is given up."""
    at = next(i for i, job in enumerate(jobs) if job[0] == name)
    if number == INTACT or number + 1 >= jobs[at][2]:
        return jobs[at + 1 :]
    return [(name, number + 1, jobs[at][2]), *jobs[at + 1 :]]


def _start(
    modules: list[str], jobs: list[tuple[str, int, int]], seed: int, errors: int
) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.fuzz.worker", json.dumps(modules), json.dumps(jobs), str(seed)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors)


def _events(worker: subprocess.Popen[bytes], patience: float) -> Iterator[dict[str, Any]]:
    """What the worker says. Raises TimeoutError where it says nothing for too long."""
    assert worker.stdout
    rest, waits = b"", patience + _STARTING
    while True:
        if not select.select([worker.stdout], [], [], waits)[0]:
            raise TimeoutError
        waits = patience
        more = os.read(worker.stdout.fileno(), 1 << 16)
        if not more:
            return
        *lines, rest = (rest + more).split(b"\n")
        yield from map(json.loads, lines)


def save(folder: Path, name: str, seed: int, number: int, said: str) -> Path:
    """Write a case that failed, with what it gave, to a folder of its own."""
    target = load_targets()[name]
    here = folder / f"{name}-{seed}-{number}"
    here.mkdir(parents=True, exist_ok=True)
    (here / "failure.txt").write_text(
        f"python -m tests.fuzz --target {name} --seed {seed} --case {number}\n\n{said}\n"
    )
    if number != INTACT:
        case = case_of(target, seed, number, list(target.corpus()))
        if isinstance(case, bytes):
            (here / "case").write_bytes(case)
        elif isinstance(case, dict):
            put(here / "case", case)
        else:
            (here / "case.txt").write_text(_REPR.repr(case))
    return here
