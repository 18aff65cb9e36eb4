"""A BERT with PyTorch's weights leaves early where PyTorch does, with its scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from abw.core.exec.params import Params
from abw.core.exec.trained import load_weights, make_params
from abw.core.run.workload import Workload, open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides
from tests.core.run.growing.runs import grown, ready, values_by_instance
from tests.core.run.growing.test_rounds import check_same, driven


def trained(root: Path) -> tuple[Workload, Params]:
    """It with PyTorch's weights, on all of its data."""
    overrides = Overrides(dims={"hidden": 8}, weights=root / "tests/golden/torch/berxit.npz")
    model = open_model(root / "specs/berxit.yaml", overrides)
    workload = open_workload(model, read_instances(model.data, None), open_networks(model, "cell"))
    return workload, make_params(workload.network, load_weights(model), 0)


@pytest.mark.parametrize("executor", ["reference", "blas", "cpu"])
def test_it_leaves_where_pytorch_leaves(root: Path, executor: str) -> None:
    workload, params = trained(root)
    made = grown(workload, ready(workload, executor, params))
    with np.load(root / "tests/golden/torch/berxit-expected.npz") as file:
        layers, classes = file["layers"], file["classes"]
    kind = made.instances.schema.kinds.index("layer")
    counts = [int((part == kind).sum()) for part in np.split(made.instances.kind, made.instances.start[1:-1])]
    assert counts == layers.tolist() and len(set(counts)) > 4
    (scores,) = (refs for refs in made.graph.results if refs.name == "classes")
    np.testing.assert_allclose(made.result.values(scores.reference), classes, 1e-4, 1e-5)
    assert made.cut == {"layer": counts.count(12)}


def test_compiled_rounds_have_the_bits_of_those_that_python_drives(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In mini-batches of 48, 8 and 1, on one thread and two, with some layers and with twelve."""
    workload, params = trained(root)
    monkeypatch.setattr("abw.core.exec.cpu.partition.APART_FLOPS", 1)
    alone, two = ready(workload, "cpu", params, 1), ready(workload, "cpu", params, 2)
    for first, last in ((0, 48), (8, 16), (3, 4)):
        expected = driven(workload, params, monkeypatch, first, last)
        check_same(grown(workload, alone, first, last), expected)
        check_same(grown(workload, two, first, last), expected, lanes=False)
    together = values_by_instance(grown(workload, alone, 0, 16))
    assert values_by_instance(grown(workload, two, 8, 16)) == together[8:]
    assert values_by_instance(grown(workload, alone, 3, 4)) == together[3:4]
