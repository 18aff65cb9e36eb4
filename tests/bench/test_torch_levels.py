"""The PyTorch baseline computes what the reference executor does, on every workload."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from abw.bench.executors.torch_levels import TorchLevels
from abw.bench.workloads import CASES, Case
from abw.core.exec.params import init_params
from abw.core.plan.plan import plan
from abw.core.policy.rules.sufficient import Sufficient
from abw.core.run.workload import load_workload, open_model
from abw.core.spec.load import Overrides
from tests.core.exec.builder import reference
from tests.core.exec.corners import once
from tests.core.exec.test_operations import lanes


@pytest.mark.parametrize("split", [False, True], ids=["side by side", "split"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_outputs_are_the_references(case: Case, split: bool, root: Path, shared_data: Path) -> None:
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    overrides = Overrides(data=shared_data / case.data, batch=3, limit=3, dims={"hidden": 8})
    workload = load_workload(open_model(root / "specs" / case.spec, overrides), "cell")
    graph = workload.graph(0, 3)
    params = init_params(workload.network, 0)
    expected = reference(graph, params)
    planned = plan(graph, Sufficient().schedule(graph.dag))
    theirs = TorchLevels(torch, planned, params, split=split)
    for _ in range(2):
        theirs.run()
    for refs in graph.results:
        found, right = theirs.values(refs.reference), expected.values(refs.reference)
        assert np.abs(found - right).max() < 1e-5


@pytest.mark.parametrize("split", [False, True], ids=["side by side", "split"])
def test_all_operations_are_pytorchs(split: bool) -> None:
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    graph, params = lanes("cell", 5)
    planned = plan(graph, once(graph))
    theirs = TorchLevels(torch, planned, params, split=split)
    theirs.run()
    right = reference(graph, params)
    for o in range(len(graph.network.types[0].outputs)):
        refs = np.arange(5) * graph.network.width + o
        np.testing.assert_allclose(theirs.values(refs), right.values(refs), 1e-4, 1e-5)
