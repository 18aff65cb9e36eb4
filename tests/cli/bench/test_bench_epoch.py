"""`abw bench epoch`: whole epochs; PyTorch's losses where it is installed."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from abw.bench.libraries.levels import heights, levels
from abw.bench.whole.epoch import trees_of
from abw.core.run.workload import open_model, read_instances
from abw.core.spec.load import Overrides
from tests.cli.conftest import Abw


def test_an_epoch(abw: Abw, root: Path, tmp_path: Path) -> None:
    (tmp_path / "trees").mkdir()
    for name in ("train", "dev"):
        (tmp_path / "trees" / f"{name}.txt").write_bytes((root / "specs/data/trees.txt").read_bytes())
    report = abw("bench", "epoch", "--data", str(tmp_path), "--hidden", "8", "--epochs", "1", "--json").json()
    (row,) = report["rows"]
    assert (row["hidden"], row["batch"]) == (8, 25)
    assert row["seconds"] > 0
    assert row["share_of_peak"] > 0
    assert (row["torch_seconds"] is None) == (report["torch"] is None)
    assert row["difference"] is None or row["difference"] < 1e-4


def test_trees_are_taken_apart(root: Path) -> None:
    model = open_model(root / "specs/sst.yaml", Overrides())
    instances = read_instances(model.data, 4)
    trees = trees_of(instances, model.tables[0])
    for number, tree in enumerate(trees):
        assert len(tree.word) == instances.start[number + 1] - instances.start[number] - 1
        assert ((tree.word >= 0) == (tree.children[:, 0] < 0)).all()
        inner = tree.children[:, 0] >= 0
        below = tree.height[tree.children[inner]].max(axis=1)
        assert (tree.height[inner] == below + 1).all()
        assert (tree.height == tree.height.max()).sum() == 1
        order, rows = levels(tree.height, tree.children)
        assert sorted(order.tolist()) == list(range(len(tree.word)))
        read = [order[each].reshape(-1, 2) for each in rows]
        above = [tree.children[order[tree.height[order] == h + 1]] for h in range(len(rows))]
        assert all((a == b).all() for a, b in zip(read, above, strict=True))


def test_heights() -> None:
    assert heights(np.array([[0, 1], [3, 2]]), 3).tolist() == [0, 0, 0, 1, 2]
