"""Hoisted models compute what the models compute, with smaller cells in the loop."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from abw.core.cell.hoist import SubCell, hoist, split
from abw.core.exec.params import init_params
from abw.core.exec.reference import ReferenceExecutor
from abw.core.graph.cells import cell_network
from abw.core.ir.cell import Cell
from abw.core.ir.network import loops_of
from abw.core.ir.operations import OPERATIONS, Arrays
from abw.core.plan.plan import plan
from abw.core.policy.rules.sufficient import Sufficient
from abw.core.run.workload import load_workload, open_model
from abw.core.spec.load import Overrides, load_cell
from tests.core.exec.builder import random_cell

Array = NDArray[np.float64]
SPECS = Path(__file__).resolve().parents[3] / "specs"
MODELS = sorted(
    path for path in [*SPECS.glob("*.yaml"), *SPECS.glob("plans/*.yaml")] if path.stem != "subgraph"
)
CHAINS = ("fwd1", "bwd1", "fwd2", "bwd2")
HOISTED = {
    "bilstm": CHAINS,
    "bilstm-chars": (*(f"char-{name}" for name in CHAINS), *CHAINS),
    "lattice": ("char", "word"),
    "lattice-gru": ("char", "word"),
    "lstm-nmt": ("encoder", "decoder"),
    "attention-nmt": ("encoder", "decoder"),
    "bidag": ("up",),
    "dag": ("operation",),
    "beam": ("encoder", "decoder"),
    "drnn": ("down", "across"),
    "greedy": ("encoder", "decoder"),
    "greedy-attention": ("encoder", "decoder"),
    "words": ("fwd", "bwd"),
    "ner": ("char", "word", "back"),
    "seq2seq": ("encoder", "decoder"),
    "stackrnn": ("buffer", "stack", "history"),
    "stackrnn-gold": ("buffer", "stack", "history"),
    "torch-bilstm": CHAINS,
    "torch-childsum": ("node", "forget"),
    "torch-greedy": ("encoder", "decoder"),
    "torch-beam": ("encoder", "decoder"),
    "torch-gru": ("gru",),
    "torch-lstm": ("lstm",),
    "treelstm-cost": ("state", "kept"),
    "uneven": ("a",),
}


def evaluate(cell: Cell, inputs: list[Array], params: list[Array]) -> dict[str, Array]:
    """A cell's outputs in float64, straight from its operations."""
    values: list[Array] = [*inputs, *params]
    for op in cell.ops:
        args = [values[a] for a in op.args]
        values.append(np.asarray(OPERATIONS[op.name].meaning(Arrays(np), *args, *op.attr)))
    return {name: values[value] for name, value in cell.outputs}


def of(part: SubCell, inputs: list[Array], params: list[Array]) -> tuple[list[Array], list[Array]]:
    return [inputs[i] for i in part.inputs], [params[i] for i in part.params]


@given(st.integers(0, 2**32 - 1), st.integers(0, 255))
def test_the_parts_of_a_random_cell_compute_the_cell(seed: int, mask: int) -> None:
    rng = np.random.default_rng(seed)
    cell = random_cell(rng, "cell")
    early = [bool(mask >> i & 1) for i in range(len(cell.inputs))]
    inputs = [rng.standard_normal(p.shape) for p in cell.inputs]
    params = [rng.standard_normal(p.shape) for p in cell.params]
    with np.errstate(all="ignore"):
        expected = evaluate(cell, inputs, params)
        parts = split(cell, early)
        if parts is None:
            return
        first, rest = parts
        assert all(early[i] for i in first.inputs)
        assert any(op.name == "matmul" for op in first.cell.ops)
        handed_over = range(len(rest.inputs), len(rest.cell.inputs))
        assert not any(value in handed_over for _, value in rest.cell.outputs)
        between = evaluate(first.cell, *of(first, inputs, params))
        given_inputs, given_params = of(rest, inputs, params)
        found = evaluate(rest.cell, [*given_inputs, *between.values()], given_params)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)


def test_an_lstm_parts_into_four_products_and_the_rest() -> None:
    cell = load_cell(SPECS / "cells/lstm.yaml", {"embed": 3, "hidden": 4})
    parts = split(cell, [port.name == "x" for port in cell.inputs])
    assert parts
    first, rest = parts
    assert [op.name for op in first.cell.ops] == ["matmul"] * 4
    assert sum(op.name == "matmul" for op in rest.cell.ops) == 4
    assert [cell.inputs[i].name for i in rest.inputs] == ["h", "c"]
    assert sorted(first.params + rest.params) == list(range(len(cell.params)))


def test_nothing_early_or_nothing_multiplied_is_no_part() -> None:
    cell = load_cell(SPECS / "cells/lstm.yaml", {"embed": 3, "hidden": 4})
    assert split(cell, [False] * len(cell.inputs)) is None
    assert split(cell, [port.name == "c" for port in cell.inputs]) is None


@pytest.mark.parametrize("path", MODELS, ids=lambda path: path.stem)
def test_a_hoisted_model_gives_the_models_results(path: Path) -> None:
    model = open_model(path, Overrides(dims={"hidden": 8}, limit=6, batch=6))
    hoisted = hoist(model)
    names = [t.name for t in hoisted.types[len(model.types) :]]
    assert names == [f"{name}-hoisted" for name in HOISTED.get(path.stem, ())]
    if not names:
        assert hoisted is model
        return
    results = []
    for one in (model, hoisted):
        workload = load_workload(one, "cell")
        graph = workload.graph(0, len(workload.instances))
        executor = ReferenceExecutor()
        executor.prepare(workload.network, init_params(workload.network, 3))
        result = executor.run(plan(graph, Sufficient().schedule(graph.dag)))
        results.append([result.values(r.reference) for r in graph.results])
    for before, after in zip(*results, strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-12)
    loop = loops_of(cell_network(hoisted))
    assert (loop[len(model.types) :] == -1).all()
