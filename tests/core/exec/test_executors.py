"""Executors against each other, against formulas, and on real data."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abw.core.base.errors import AbwError
from abw.core.cell.evaluate import run_cell
from abw.core.cell.layout import COPIED, Arrangement
from abw.core.cell.program import CellProgram, assemble, cell_program
from abw.core.exec.blas.calls import CellKernel
from abw.core.exec.blas.executor import BlasExecutor
from abw.core.exec.interface import Result
from abw.core.exec.params import Params, init_params
from abw.core.exec.registry import get_executor
from abw.core.ir.cell import Param
from abw.core.ir.network import Granularity
from abw.core.plan.plan import Plan, plan
from tests.core.exec.builder import (
    CellBuilder,
    check,
    error,
    fused_graph,
    make_graph,
    random_cell,
    random_graph,
    random_network,
    random_schedule,
    reference,
)
from tests.core.exec.corners import (
    batches,
    check_lifetime,
    check_nan_and_infinity,
    check_swapped_rows,
    one_by_one,
    words_network,
)

seeds = st.integers(0, 2**32 - 1)


def random_plan(rng: np.random.Generator, nodes: int, *, fused: bool = False) -> Plan:
    graph = fused_graph(rng, nodes) if fused else random_graph(rng, random_network(rng), nodes)
    return plan(graph, random_schedule(rng, graph))


def blas(planned: Plan, params: Params) -> Result:
    executor = BlasExecutor()
    executor.prepare(planned.graph.network, params, 1)
    return executor.run(planned)


@given(seeds, st.integers(0, 30), st.booleans())
def test_blas_equals_reference(seed: int, nodes: int, fused: bool) -> None:
    planned = random_plan(np.random.default_rng(seed), nodes, fused=fused)
    params = init_params(planned.graph.network, seed)
    result = blas(planned, params)
    assert result.counts == planned.counts
    check(result, planned.graph, params)


@settings(max_examples=40)
@given(seeds)
def test_runs_are_equal_bit_for_bit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    small, large = (random_graph(rng, network, nodes) for nodes in (5, 25))
    plans = [plan(graph, random_schedule(rng, graph)) for graph in (small, large, small)]
    params = init_params(network, 1)
    executor = BlasExecutor()
    executor.prepare(network, params, 1)
    for planned in (plans[0], plans[1], plans[0]):
        # memory is kept and grows from run to run: what lay there before must not matter
        again = blas(planned, params)
        result = executor.run(planned)
        for t, net_type in enumerate(network.types):
            for o in range(len(net_type.outputs)):
                assert np.array_equal(result.value(t, o), again.value(t, o), equal_nan=True)


def lanes_of(program: CellProgram) -> tuple[tuple[int, ...], ...]:
    return tuple(batch.result.values for batch in program.batches)


@given(seeds)
def test_any_layout_computes_the_cell(seed: int) -> None:
    rng = np.random.default_rng(seed)
    cell = random_cell(rng, "cell")
    program = cell_program(cell)
    held = [v for v, p in enumerate(program.position) if p >= 0]
    position = list(program.position)
    for held_value, rank in zip(held, rng.permutation(len(held)).tolist(), strict=True):
        position[held_value] = rank
    program = assemble(program.normal, Arrangement(lanes_of(program), tuple(position)))
    params = [rng.standard_normal(p.shape).astype(np.float32) for p in cell.params]
    kernel = CellKernel(program, params)
    lanes = int(rng.integers(1, 4))
    kernel.bind(np.empty(kernel.width * 4, np.float32), 4)
    values = [rng.standard_normal((lanes, *p.shape)).astype(np.float32) for p in cell.inputs]
    for place, value in zip(kernel.inputs, values, strict=True):
        place[:lanes] = value
    inputs = [kernel.inputs[i][:lanes] if program.staged[i] else v for i, v in enumerate(values)]
    outputs = [np.empty((lanes, *p.shape), np.float32) for p in cell.output_ports]
    kernel.run(lanes, inputs, outputs)
    assert kernel.copies == program.copies
    assert kernel.copied_floats == program.copied_floats
    for row in range(lanes):
        operands = [value[row].astype(np.float64) for value in values]
        expected = run_cell(cell, operands, [param.astype(np.float64) for param in params])
        for output, wanted in zip(outputs, expected, strict=True):
            np.testing.assert_allclose(output[row], wanted, rtol=1e-3, atol=1e-4)


def test_layouts_with_copies_are_among_those_tested() -> None:
    copied = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        program = cell_program(random_cell(rng, "cell"))
        order = rng.permutation(len(program.position)).tolist()
        position = tuple(p if p < 0 else order[p] for p in program.position)
        made = assemble(program.normal, Arrangement(lanes_of(program), position))
        copied += sum(o.status == COPIED for b in made.batches for o in b.operands)
    assert copied > 0


def test_the_reference_is_an_lstm() -> None:
    network = words_network()
    graph = make_graph(network, [0, 0], [[-2, -7, -7], [-5, 0, 1]])
    params = init_params(network, 3)
    result = reference(graph, params)
    p = [v.astype(np.float64) for v in params.values]
    h = c = np.zeros(3)
    for node, word in enumerate((1, 4)):
        x = params.tables[0][word].astype(np.float64)
        i, f, o, u = (p[3 * g] @ x + p[3 * g + 1] @ h + p[3 * g + 2] for g in range(4))
        c = c / (1 + np.exp(-f)) + np.tanh(u) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
        np.testing.assert_allclose(result.value(0, 0)[node], h, rtol=1e-12)
        np.testing.assert_allclose(result.value(0, 1)[node], c, rtol=1e-12)
    # by reference: h of node 1, row 4 of the words
    np.testing.assert_allclose(result.values(np.array([2, -5])), [h, params.tables[0][4]], rtol=1e-12)
    found = blas(plan(graph, one_by_one(graph)), params).values(np.array([2, -5, -7]))
    np.testing.assert_allclose(found, [h, params.tables[0][4], np.zeros(3)], rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("reduction", ["sum", "mean", "max", "var", "std"])
def test_reductions_of_repeated_and_mixed_operands(reduction: str) -> None:
    network = words_network(reduction)
    first = [[-1, -7, -7], [-2, -7, -7]]
    graph = make_graph(network, [0, 0, 1, 1, 1], [*first, [0, 0, 2], [2, -3], [0, 2]])
    schedule = batches([0, 1], [0, 2, 5])
    params = init_params(network, 3)
    result = blas(plan(graph, schedule), params)
    h, word = result.value(0, 0), params.tables[0][2]
    lists = [np.stack(rows) for rows in ([h[0], h[0], h[1]], [h[1], word], [h[0], h[1]])]
    expected = {
        "sum": [rows.sum(0) for rows in lists],
        "mean": [rows.sum(0) / len(rows) for rows in lists],
        "max": [rows.max(0) for rows in lists],
        "var": [np.square(rows - rows.mean(0)).mean(0) for rows in lists],
        "std": [np.sqrt(np.square(rows - rows.mean(0)).mean(0)) for rows in lists],
    }[reduction]
    np.testing.assert_allclose(result.value(1, 0), expected, rtol=1e-5)
    assert error(result, reference(graph, params)) < 1e-5


def test_a_swapped_operand_row_fails_the_comparison() -> None:
    check_swapped_rows(blas)


@pytest.mark.parametrize("reduction", ["sum", "mean", "max", "var", "std"])
def test_nan_and_infinity_pass_through(reduction: str) -> None:
    check_nan_and_infinity(blas, reduction)


def test_a_missing_nan_is_an_error() -> None:
    network = words_network()
    graph = make_graph(network, [0], [[-1, -7, -7]])
    params = init_params(network, 0)
    table = params.tables[0].copy()
    table[0] = np.nan
    wrong = reference(graph, Params(params.values, (table,)))
    right = reference(graph, params)
    assert error(wrong, right) == error(right, wrong) == float("inf")


def test_a_result_does_not_outlive_the_next_run() -> None:
    check_lifetime(BlasExecutor())


NAMES = ("sigmoid", "softmax", "tanh", "relu")


def test_operations_at_their_ends() -> None:
    x = np.array([-1e4, -1.0, 0.0, 1.0, 1e4])
    b = CellBuilder()
    value = b.input((5,))
    outputs = [b.op(name, value, shape=(5,)) for name in NAMES]
    cell = b.cell("ends", outputs)
    with np.errstate(over="ignore"):
        meant = run_cell(cell, [x], [])
    np.testing.assert_allclose(meant[0], [0, 1 / (1 + np.e), 0.5, np.e / (1 + np.e), 1], rtol=1e-12)
    np.testing.assert_allclose(meant[1], [0, 0, 0, 0, 1])
    np.testing.assert_allclose(meant[3], [0, 0, 0, 1, 1e4])
    kernel = CellKernel(cell_program(cell), [])
    kernel.bind(np.empty(kernel.width, np.float32), 1)
    found = [np.empty((1, 5), np.float32) for _ in outputs]
    kernel.run(1, [x[None].astype(np.float32)], found)
    for got, wanted in zip(found, meant, strict=True):
        np.testing.assert_allclose(got[0], wanted, rtol=1e-6, atol=1e-7)


def test_parameters_come_from_seed_and_name_alone() -> None:
    network = words_network()
    params, other = init_params(network, 5), init_params(network, 6)
    backwards = replace(network, params=network.params[::-1])
    for a, b, c in zip(params.values, init_params(backwards, 5).values[::-1], other.values, strict=True):
        assert np.array_equal(a, b)
        assert not np.array_equal(a, c)
    assert not np.array_equal(params.values[0], params.values[1])
    fixed = replace(network, params=(Param("b", (3,), -1.0), *network.params[1:]))
    assert init_params(fixed, 5).values[0].tolist() == [-1, -1, -1]
    assert np.array_equal(init_params(fixed, 5).values[1], params.values[1])


def test_executors_by_name() -> None:
    assert get_executor("blas").name == "blas"
    assert get_executor("reference").name == "reference"
    with pytest.raises(AbwError, match="no executor is called 'bals'") as caught:
        get_executor("bals")
    assert "did you mean 'blas'?" in caught.value.hint


SPECS = ("treelstm", "treegru", "mvrnn", "treelstm-2type", "lattice", "lattice-gru", "bilstm", "lstm-nmt")
FOLDER = {"lattice": "lattice/train.txt", "bilstm": "tags/dev.txt", "lstm": "pairs/tst2012.en-vi.txt"}


@pytest.mark.parametrize("granularity", ["cell", "op"])
@pytest.mark.parametrize("spec", SPECS)
def test_real_workloads(spec: str, granularity: Granularity, root: Path, shared_data: Path) -> None:
    from abw.core.plan.check import check_plan
    from abw.core.policy.rules.sufficient import Sufficient
    from abw.core.run.workload import open_model, open_networks, open_workload, read_instances
    from abw.core.spec.load import Overrides

    source = shared_data / FOLDER.get(spec.split("-")[0], "trees/train.txt")
    model = open_model(root / "specs" / f"{spec}.yaml", Overrides(data=source, dims={"hidden": 32}))
    networks = open_networks(model, granularity)
    workload = open_workload(model, read_instances(model.data, 8), networks)
    graph = workload.graph(0, 8)
    planned = plan(graph, Sufficient().schedule(graph.dag))
    check_plan(graph, planned)
    params = init_params(workload.network, 0)
    result, expected = blas(planned, params), reference(graph, params)
    assert result.counts == planned.counts
    assert error(result, expected) < 1e-5
    if granularity == "cell":
        for t, net_type in enumerate(workload.network.types):
            for o in range(len(net_type.outputs)):
                values = expected.value(t, o)
                if len(values):
                    assert 0.05 < np.sqrt(np.mean(np.square(values))) < 2
