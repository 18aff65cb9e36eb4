"""What is on disk is what is installed."""

from __future__ import annotations

import tomllib
from pathlib import Path


def test_every_package_on_disk_is_named_for_the_build(root: Path) -> None:
    named = set(tomllib.loads((root / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"])
    found = {"abw", "abw.specs"}
    for top in ("cli", "core", "pqtree", "viz"):
        for init in (root / top).rglob("__init__.py"):
            found.add(".".join(("abw", *init.parent.relative_to(root).parts)))
    assert found == named


def test_the_folders_are_linked_into_the_import_package(root: Path) -> None:
    for top in ("cli", "core", "pqtree", "specs", "viz"):
        assert (root / "abw" / top).resolve() == (root / top).resolve()
