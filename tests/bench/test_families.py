"""The families of graphs: what they are made of, and what is told of the policies on them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from abw.bench.graphs.families import families
from abw.bench.graphs.grouping import POLICIES, grouping
from abw.bench.graphs.policies import policies
from abw.core.graph.bounds import topological_order
from tests.bench.conftest import by_table


def test_same_seed_same_graphs_and_all_are_dags() -> None:
    first, second, other = (list(families(6, seed)) for seed in (0, 0, 1))
    assert len(first) == 21
    counts = [len(f.types) for f in families(64, 0)]
    assert min(counts) == 3 and max(counts) == 300
    assert len({f.name for f in first}) == len(first)
    for a, b, c in zip(first, second, other, strict=True):
        dag, again, another = a.dag(0, 6), b.dag(0, 6), c.dag(0, 6)
        topological_order(dag)  # no cycle
        assert np.array_equal(dag.type, again.type)
        assert np.array_equal(dag.succ, again.succ)
        assert not (np.array_equal(dag.type, another.type) and np.array_equal(dag.succ, another.succ))
        assert len(a.dag(2, 4)) < len(dag)


def test_each_family_is_compared_with_the_best(tmp_path: Path) -> None:
    rows = by_table(policies(tmp_path, batch=4, synthetic=True, mini_batches=2, named="strings, 4"))
    row, mean, worst, _ = rows["batches over the fewest known"]
    assert row["types"] == 4 and row["bound"] <= row["best"]
    assert row["depth"] == worst["depth"] > 1
    assert abs(mean["auto"] - row["auto"]) < 1e-9
    assert all(chosen["file_bytes"] < 1e6 for chosen in rows["chosen"])


def test_groups_have_fewer_launches_of_more_batches() -> None:
    rows = by_table(grouping(8, 4, 1, "dependency trees, 40"))[""]
    plain, grouped = ([r for r in rows if r["grouped"] == which] for which in ("no", "yes"))
    assert [r["policy"] for r in plain] == [r["policy"] for r in grouped] == list(POLICIES)
    for one, other in zip(plain, grouped, strict=True):
        assert one["launches"] == one["batches"] and other["launches"] <= one["launches"]
        assert plain[0]["phases"] <= min(one["phases"], other["phases"])  # by depth there are the fewest
        assert min(one["cpu_seconds"], other["blas_seconds"]) > 0
