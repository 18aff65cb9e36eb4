"""What is on disk is what is installed."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path


def test_every_package_on_disk_is_named_for_the_build(root: Path) -> None:
    named = set(tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    found = {"abw", "abw.specs"}
    for top in ("bench", "cli", "core", "pqtree", "viz"):
        for init in (root / top).rglob("__init__.py"):
            found.add(".".join(("abw", *init.parent.relative_to(root).parts)))
    assert found == named


def test_the_folders_are_linked_into_the_import_package(root: Path) -> None:
    for top in ("bench", "cli", "core", "pqtree", "specs", "viz"):
        assert (root / "abw" / top).resolve() == (root / top).resolve()


def test_ci_pins_every_dependency_to_the_oldest_version_named(root: Path) -> None:
    said = subprocess.run([sys.executable, ".ci/oldest", "test"], cwd=root, check=True, capture_output=True)
    pinned = dict(line.split("==") for line in said.stdout.decode().splitlines())
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["test"]]
    assert pinned == dict(re.split(">=", requirement) for requirement in wanted)
    steps = (root / ".ci" / "run").read_text()
    assert 'python .ci/oldest test | tee "$work/oldest.txt"' in steps
    assert 'pip install --quiet --constraint "$work/oldest.txt" ".[test]"' in steps
