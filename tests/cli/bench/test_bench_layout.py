"""The figures of `abw bench layout`: those of the plan, and on little data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.bench.graphs.layout import boundaries_of, boundary
from abw.core.plan.counts import programs_of
from abw.core.plan.plan import plan
from tests.core.exec.builder import random_graph, random_network, random_schedule


@pytest.mark.parametrize("name", ["TreeLSTM", "TreeGRU", "MV-RNN", "LSTM-NMT", "LatticeLSTM"])
def test_copies_between_cells(name: str, root: Path, shared_data: Path) -> None:
    row = boundaries_of(name, root / "specs", shared_data, 4)
    assert row["before"]["inside"] > row["after"]["inside"] == 0
    assert row["before"]["moved"] == 0
    assert row["after"]["gathers"] == row["before"]["gathers"]
    assert row["after"]["bytes"] < row["before"]["bytes"]
    assert row["after"]["kernels"] <= row["before"]["kernels"]


@given(st.integers(0, 2**32 - 1))
def test_boundaries_are_the_plans_counts(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, random_network(rng), int(rng.integers(1, 20)))
    planned = plan(graph, random_schedule(rng, graph))
    copied = boundary(planned, "planned")
    copies = sum(int(programs_of(graph.network).copies[t]) for t in planned.schedule.type.tolist())
    # apart from copies between a cell's own variables, these are all the memory kernels there are
    assert copied.gathers + copied.moved == planned.counts.memory_kernels - copies
    assert copied.inside <= copies
