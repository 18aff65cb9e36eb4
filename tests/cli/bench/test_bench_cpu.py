"""The benchmark of the executor `cpu`: what it reports, and that it refuses wrong outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from abw.bench.executors import cpu
from abw.bench.executors.blas import refuse_different
from abw.bench.executors.cpu import bench_cpu, least_seconds
from abw.bench.workloads import mini_batch
from abw.core.base.errors import AbwError
from abw.core.run.footprint import packed_bytes


class Fixed:
    """A contender with given outputs."""

    def __init__(self, value: float) -> None:
        self.value = value

    def run(self) -> None:
        """Nothing to compute."""

    def outputs(self) -> np.ndarray:
        return np.array([self.value])


def test_rows_of_both_models(shared_data: Path, root: Path) -> None:
    report = bench_cpu(shared_data, [32], [2], 3, root / "specs", threads=(1, 2))
    assert [(row["model"], row["threads"]) for row in report["rows"]] == [
        ("TreeLSTM", 1),
        ("TreeLSTM", 2),
        ("LatticeLSTM", 1),
        ("LatticeLSTM", 2),
    ]
    assert report["peak_gflops"] > 1
    for row in report["rows"]:
        assert 0 < row["share_of_peak"] < 1
        assert row["seconds"] * row["instances_per_second"] == pytest.approx(2)
    assert all(row["torch_seconds"] is None for row in report["rows"][1:])
    assert [row["allowed_share"] is None for row in report["rows"]] == [False, True, False, True]


def test_products_take_no_less_than_reading_weights_for_each_batch(
    shared_data: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planned, _ = mini_batch("TreeLSTM", root / "specs", shared_data, 4, 16)
    monkeypatch.setattr(cpu, "read_seconds", lambda size: size * 1e-9)
    slow, quick = least_seconds(planned, 1.0), least_seconds(planned, 1e18)
    assert slow == pytest.approx(planned.product_flops)
    packed = packed_bytes(planned.graph.network)
    assert quick == pytest.approx(1e-9 * sum(packed[t] for t in planned.schedule.type.tolist()))


def test_narrower_vectors_have_a_peak_of_their_own(shared_data: Path, root: Path) -> None:
    report = bench_cpu(shared_data, [16], [2], 3, root / "specs", models=("TreeLSTM",), target="plain")
    assert report["target"] == "plain"
    assert all(0 < row["share_of_peak"] < 1 for row in report["rows"])


def test_other_outputs_are_refused() -> None:
    refuse_different({"a": Fixed(1.0), "b": Fixed(1.00001)}, "a", 64)
    with pytest.raises(AbwError, match=r"outputs of b and a differ by 1\.0e"):
        refuse_different({"a": Fixed(1.0), "b": Fixed(1.001)}, "a", 64)
