"""Gradients of whole models as PyTorch's autograd has them, kept in tests/golden/torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from abw.core.exec.gradient import gradients_of
from abw.core.exec.params import init_params
from abw.core.exec.registry import get_executor
from abw.core.exec.trained import load_weights, make_params
from abw.core.grad.graph import training_graph
from abw.core.grad.network import training_network
from abw.core.grad.schedule import training_schedule
from abw.core.plan.plan import plan
from abw.core.policy.registry import get_policy
from abw.core.run.workload import load_workload, open_model
from abw.core.spec.load import Overrides

GOLDEN = Path("tests/golden/torch")
# As in make_gradients.py.
SEED = 7
TRAINED = (
    "torch-bilstm",
    "torch-gru",
    "torch-treelstm",
    "torch-childsum",
    "treelstm-attend",
    "attention-nmt",
)
DRAWN = ("lattice", "mvrnn", "lstm-nmt")
# The files are in single precision, and so are weights and what `cpu` computes.
TOLERANCE = {"reference": 1e-6, "cpu": 1e-5}


@pytest.mark.parametrize("executor", TOLERANCE)
@pytest.mark.parametrize("name", [*TRAINED, *DRAWN])
def test_gradients_are_those_of_pytorch(root: Path, name: str, executor: str) -> None:
    spec, golden = root / "specs" / f"{name}.yaml", root / GOLDEN / f"{name}-gradients.npz"
    if name in TRAINED:
        (file,) = (p for p in (root / GOLDEN).glob(f"{name}.*") if p.suffix in (".npz", ".safetensors"))
        sizes, limit = {"hidden": 5, "embed": 6}, 12
        model = open_model(spec, Overrides(dims=sizes, weights=file, limit=limit))
    else:
        sizes, limit = {"hidden": 4}, 6
        model = open_model(spec, Overrides(dims=sizes, limit=limit))
    workload = load_workload(model, "cell")
    network, graph = workload.network, workload.graph(0, len(workload.instances))
    if name in TRAINED:
        params = make_params(network, load_weights(model), 0)
        # what is made of a file's tensors has the gradients of these: they are cut apart and sorted alike
        like = open_model(spec, Overrides(dims=sizes, weights=golden, limit=limit))
        expected = make_params(network, load_weights(like), 0)
        of_params, of_tables = expected.values, expected.tables
    else:
        params = init_params(network, 0)
        with np.load(golden) as found:
            of_params = tuple(found[param.name] for param in network.params)
            of_tables = tuple(found[table.name] for table in network.tables)

    (results,) = graph.results
    training = training_network(network, [results.name])
    shape = training.network.constants[training.losses[results.name]].shape
    drawn = np.random.default_rng(SEED).standard_normal((len(results.reference), *shape), np.float32)
    gradient = np.empty_like(drawn)
    gradient[np.argsort(results.vertex, kind="stable")] = drawn
    made = training_graph(training, graph, {results.name: gradient})
    chosen = get_executor(executor)
    chosen.prepare(training.network, params, 1)
    planned = plan(made.graph, training_schedule(made, get_policy("critical").schedule(graph.dag)))
    vector = gradients_of(made, chosen.run(planned).values, params).vector(params)

    largest = max(float(np.abs(wanted).max()) for wanted in (*of_params, *of_tables))
    wanted = np.concatenate([array.ravel() for array in (*of_params, *of_tables)])
    assert np.abs(vector - wanted).max() < TOLERANCE[executor] * largest
