"""The data that ships is what its makers say."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

import pytest

from abw.core.data.read import read


@pytest.mark.parametrize("maker", ["expressions", "lattice", "molecules", "plans", "rings", "transitions"])
def test_data_are_what_their_makers_make(maker: str, root: Path, tmp_path: Path) -> None:
    script = tmp_path / "tests/shipped" / f"{maker}.py"
    script.parent.mkdir(parents=True)
    shutil.copy(root / "tests/shipped" / script.name, script)
    folders = [Path("specs/data"), Path("specs/plans/data")]
    for folder in folders:
        shutil.copytree(root / folder, tmp_path / folder)
    runpy.run_path(str(script), run_name="__main__")
    for folder in folders:
        for file in (tmp_path / folder).iterdir():
            assert file.read_bytes() == (root / folder / file.name).read_bytes()


def test_the_lattices_have_words_and_tags(root: Path) -> None:
    here = root / "specs/data"
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
