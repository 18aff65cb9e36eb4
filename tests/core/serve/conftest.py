"""What servers in tests keep."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, kernels_home: Path) -> Path:
    """A folder for a module's servers, with the kernels of all tests."""
    folder = tmp_path_factory.mktemp("serve")
    (kernels_home / "kernels").mkdir(exist_ok=True)
    (folder / "kernels").symlink_to(kernels_home / "kernels")
    return folder
