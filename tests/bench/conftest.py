"""Small data under the names of the real data, and the rows of a bench by table."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from abw.bench.rows import Row, Rows

FILES = {
    "trees/train.txt": "trees.txt",
    "trees/dev.txt": "trees.txt",
    "lattice/train.txt": "lattice.txt",
    "lattice/dev.txt": "lattice.txt",
    "tags/dev.txt": "tags.txt",
    "pairs/tst2012.en-vi.txt": "pairs.txt",
}
Tables = dict[str, list[Row]]


@pytest.fixture(scope="session")
def data(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data that ships, under the names of the real data."""
    folder = tmp_path_factory.mktemp("data")
    for name, shipped in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        shutil.copyfile(root / "specs/data" / shipped, folder / name)
    return folder


def by_table(rows: Rows) -> Tables:
    """The rows of a bench by table."""
    found: Tables = {}
    for row in rows:
        if isinstance(row, Row):
            found.setdefault(row.table, []).append(row)
    return found
