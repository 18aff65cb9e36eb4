"""The PyTorch baseline computes what the reference executor does, on every workload."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from abw.bench.executors.torch_levels import TorchLevels
from abw.bench.workloads import CASES, Case
from abw.core.exec.params import init_params
from abw.core.exec.reference import ReferenceExecutor
from abw.core.plan.plan import plan
from abw.core.policy.rules.sufficient import Sufficient
from abw.core.run.workload import load_workload, open_model
from abw.core.spec.load import Overrides


@pytest.mark.parametrize("split", [False, True], ids=["side by side", "split"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_outputs_are_the_references(case: Case, split: bool, root: Path, shared_data: Path) -> None:
    torch = pytest.importorskip("torch", reason="compares with PyTorch")
    overrides = Overrides(data=shared_data / case.data, batch=3, limit=3, dims={"hidden": 8})
    workload = load_workload(open_model(root / "specs" / case.spec, overrides), "cell")
    graph = workload.graph(0, 3)
    params = init_params(workload.network, 0)
    reference = ReferenceExecutor()
    reference.prepare(workload.network, params)
    expected = reference.run_graph(graph)
    planned = plan(graph, Sufficient().schedule(graph.dag))
    theirs = TorchLevels(torch, planned, params, split=split)
    for _ in range(2):
        theirs.run()
    for refs in graph.results:
        found, right = theirs.values(refs.reference), expected.values(refs.reference)
        assert np.abs(found - right).max() < 1e-5
