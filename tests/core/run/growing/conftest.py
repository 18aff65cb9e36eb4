"""Folders of models that are drawn."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.run.growing.drafts import CELL, DATA, SCORES


@pytest.fixture(scope="module")
def random_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cells and the data that drafts name."""
    folder = tmp_path_factory.mktemp("random")
    for name, text in (("rnn.yaml", CELL), ("scores.yaml", SCORES), ("d.txt", DATA)):
        (folder / name).write_text(text)
    return folder
