"""The families of graphs: what they are made of, and what is told of the policies on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from abw.bench.graphs.families import families
from abw.bench.graphs.quality import bench_families
from abw.core.base.progress import Quiet
from abw.core.graph.bounds import topological_order


def test_same_seed_same_graphs_and_all_are_dags(tmp_path: Path) -> None:
    first, second, other = (list(families(tmp_path, 6, seed)) for seed in (0, 0, 1))
    assert len(first) == 21  # without the trees, which are real data
    assert len({f.name for f in first}) == len(first)
    for a, b, c in zip(first, second, other, strict=True):
        dag, again, another = a.dag(0, 6), b.dag(0, 6), c.dag(0, 6)
        topological_order(dag)  # no cycle
        assert np.array_equal(dag.type, again.type)
        assert np.array_equal(dag.succ, again.succ)
        assert not (np.array_equal(dag.type, another.type) and np.array_equal(dag.succ, another.succ))
        assert len(a.dag(2, 4)) < len(dag)


def test_trees_are_read_from_the_data(tmp_path: Path) -> None:
    (tmp_path / "trees").mkdir()
    (tmp_path / "trees" / "train.txt").write_text("(3 (2 a) (4 (1 b) (0 c)))\n" * 3)
    family = next(families(tmp_path, 3, 0))
    dag = family.dag(0, 1)
    names = [dag.types[t] for t in dag.type]
    assert sorted(names) == ["internal3", "internal4", *["leaf"] * 3, *["output"] * 5]
    assert int((dag.indegree == 2).sum()) == 2


def test_what_is_told(tmp_path: Path) -> None:
    report = bench_families(tmp_path, 4, 1e-5, 2, "strings, 4", Quiet())
    (row,) = report["rows"]
    assert row["types"] == 4
    assert row["lower_bound"] <= row["best"] == min(row["batches"].values())
    assert report["worst"]["depth"] == row["batches"]["depth"] / row["best"] > 1
    assert abs(report["geometric_mean"]["auto"] - report["worst"]["auto"]) < 1e-9
    assert row["file_bytes"] < 1e6
