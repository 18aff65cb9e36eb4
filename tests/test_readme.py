"""The README says what is so."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest


def test_the_model_shown_is_the_one_that_ships(root: Path) -> None:
    shown = re.search(r"```yaml\n(.*?)```", (root / "README.md").read_text(), re.DOTALL)
    assert shown
    assert (root / "specs" / "treelstm.yaml").read_text().endswith(shown[1])


def test_the_example_in_python(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABW_HOME", str(tmp_path))
    monkeypatch.chdir(root)
    told = doctest.testfile("README.md", module_relative=False)
    assert told.attempted == 3
    assert told.failed == 0


def test_every_page_is_listed(root: Path) -> None:
    listed = re.findall(r"^- \[(\w+)\]\(docs/\1\.md\): \S", (root / "README.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(page.stem for page in (root / "docs").glob("*.md"))
