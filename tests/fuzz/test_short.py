"""A short run of all targets: `python -m tests.fuzz` is the long one."""

from __future__ import annotations

from tests.fuzz.harness import run
from tests.fuzz.target import load_targets

CASES = 40
FORMATS = [name for name in load_targets() if name != "commands" and not name.startswith("_")]


def test_damaged_files_and_objects() -> None:
    found = run(FORMATS, CASES, seed=1)
    assert {name: one.failures for name, one in found.items() if one.failures} == {}
    assert all(one.cases >= CASES * load_targets()[name].share - 1 for name, one in found.items())


def test_command_lines() -> None:
    found = run(["commands"], 1500, seed=1)["commands"]
    assert found.failures == {} and found.cases == 30
