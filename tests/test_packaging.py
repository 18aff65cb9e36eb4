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
    own = (init for folder in ("torch",) for init in (root / "abw" / folder).rglob("__init__.py"))
    found |= {".".join(init.parent.relative_to(root).parts) for init in own}
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


def test_what_is_said_of_extras_works_from_a_clone(root: Path) -> None:
    extras = set(tomllib.loads((root / "pyproject.toml").read_text())["project"]["optional-dependencies"])
    pages = [root / "README.md", root / "CONTRIBUTING.md", *(root / "docs").glob("*.md")]
    sources = [p for top in ("abw", "bench", "cli", "core", "viz") for p in (root / top).glob("**/*.py")]
    named: set[str] = set()
    for path in (*pages, *sources):
        text = path.read_text()
        for line in text.splitlines():  # no package index has abw
            assert "--no-index" in line or not re.search(r"pip install [^`]*abw\[", line), f"{path}: {line}"
        for found in re.findall(r"""['"]\.\[([\w,]+)\]['"]|\binstall\(['"](\w+)['"]\)""", text):
            named |= set("".join(found).split(","))
    assert {"serve", "images", "cuda", "ray", "programs"} <= named <= extras
