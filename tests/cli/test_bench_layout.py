"""The figures of `abw bench layout`, on little data."""

from __future__ import annotations

from pathlib import Path

import pytest

from abw.cli.bench.layout import boundaries_of, whole_of


@pytest.mark.parametrize("name", ["TreeLSTM", "TreeGRU", "MV-RNN", "LSTM-NMT", "LatticeLSTM"])
def test_copies_between_cells(name: str, root: Path, shared_data: Path) -> None:
    row = boundaries_of(name, root / "specs", shared_data, 4)
    assert row["before"]["inside"] > row["after"]["inside"] == 0
    assert row["before"]["moved"] == 0
    assert row["after"]["gathers"] == row["before"]["gathers"]
    assert row["after"]["bytes"] < row["before"]["bytes"]
    assert row["after"]["kernels"] <= row["before"]["kernels"]
    assert row["together"]["batches"] >= row["batches"]


def test_whole_graphs(root: Path, shared_data: Path) -> None:
    row = whole_of("TreeLSTM", root / "specs", shared_data, 4, 1)
    for part in (row["whole"], row["split"]):
        assert 0 < part["result_contiguous"] < part["planned"] <= 1
        assert part["bytes"][1] < part["bytes"][0]
        assert part["run_ms"] > 0
    assert row["split"]["batches"] >= row["whole"]["batches"]
    assert row["split"]["planned"] >= row["whole"]["planned"]
