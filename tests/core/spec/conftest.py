"""The fixture of the spec tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.spec.writing import Folder


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """A folder with two cells and a data file."""
    return Folder(tmp_path)
