"""A BERT with PyTorch's weights leaves early where PyTorch does, with its scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from abw.core.exec.trained import load_weights, make_params
from abw.core.run.workload import open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides
from tests.core.run.test_growing import grown, ready


@pytest.mark.parametrize("executor", ["reference", "blas", "cpu"])
def test_it_leaves_where_pytorch_leaves(root: Path, executor: str) -> None:
    golden = root / "tests/golden/torch"
    overrides = Overrides(dims={"hidden": 8}, weights=golden / "berxit.npz")
    model = open_model(root / "specs/berxit.yaml", overrides)
    workload = open_workload(model, read_instances(model.data, None), open_networks(model, "cell"))
    made = grown(workload, ready(workload, executor, make_params(workload.network, load_weights(model), 0)))
    with np.load(golden / "berxit-expected.npz") as file:
        layers, classes = file["layers"], file["classes"]
    kind = made.instances.schema.kinds.index("layer")
    counts = [int((part == kind).sum()) for part in np.split(made.instances.kind, made.instances.start[1:-1])]
    assert counts == layers.tolist() and len(set(counts)) > 4
    (scores,) = (refs for refs in made.graph.results if refs.name == "classes")
    np.testing.assert_allclose(made.result.values(scores.reference), classes, 1e-4, 1e-5)
    assert made.cut == {"layer": counts.count(12)}
