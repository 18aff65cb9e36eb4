"""The benchmark of the executor `cpu`: what it reports, and that it refuses wrong outputs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from abw.bench.executors.blas import refuse_different
from abw.bench.executors.cpu import bench_cpu
from abw.core.base.errors import AbwError


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


def test_narrower_vectors_have_a_peak_of_their_own(shared_data: Path, root: Path) -> None:
    report = bench_cpu(shared_data, [16], [2], 3, root / "specs", models=("TreeLSTM",), target="plain")
    assert report["target"] == "plain"
    assert all(0 < row["share_of_peak"] < 1 for row in report["rows"])


def test_other_outputs_are_refused() -> None:
    refuse_different({"a": Fixed(1.0), "b": Fixed(1.00001)}, "a", 64)
    with pytest.raises(AbwError, match=r"outputs of b and a differ by 1\.0e"):
        refuse_different({"a": Fixed(1.0), "b": Fixed(1.001)}, "a", 64)
