"""The data that ships is what its makers say."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

import pytest

from abw.core.data.read import read


def test_the_lattices_are_what_their_script_makes(root: Path, tmp_path: Path) -> None:
    here = root / "specs/data"
    for name in ("make_lattice.py", "lattice-words.txt"):
        shutil.copy(here / name, tmp_path / name)
    runpy.run_path(str(tmp_path / "make_lattice.py"), run_name="__main__")
    assert (tmp_path / "lattice.txt").read_bytes() == (here / "lattice.txt").read_bytes()
    lattices = read(here / "lattice.txt", "lattice")
    assert 0 <= lattices.fields["tag"].max() < 28
    words = (here / "lattice-words.txt").read_text("utf-8").split()
    assert len(words) == len(set(words)) and min(map(len, words)) == 2
    assert lattices.fields["id"].max() < len(words)


@pytest.mark.parametrize(("name", "children"), [("trees", {2}), ("nary-trees", {1, 2, 3})])
def test_the_trees_have_the_children_they_should(name: str, children: set[int], root: Path) -> None:
    trees = read(root / f"specs/data/{name}.txt", "trees")
    many = trees.links["children"].indptr
    assert many is not None
    internal = trees.kind == trees.schema.kinds.index("internal")
    assert set((many[1:] - many[:-1])[internal].tolist()) == children
