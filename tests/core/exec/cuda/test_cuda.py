"""The executor `cuda` in simulation against the reference: random cells, every spec, both schemes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abw.core.exec.cuda.backend import Scheme
from abw.core.exec.cuda.executor import CudaExecutor
from abw.core.exec.cuda.lowering import device_program
from abw.core.exec.interface import Result
from abw.core.exec.params import Params, init_params
from abw.core.ir.network import Granularity
from abw.core.plan.plan import Plan, plan
from abw.core.policy.rules.sufficient import Sufficient
from abw.core.run.workload import open_model, open_networks, open_workload, read_instances, whole
from abw.core.spec.load import Overrides
from tests.conftest import ROOT
from tests.core.exec import builder
from tests.core.exec.builder import (
    check,
    error,
    fused_graph,
    lstm,
    make_graph,
    random_graph,
    random_network,
    random_schedule,
    reference,
)
from tests.core.exec.corners import (
    check_functions,
    check_lifetime,
    check_nan_and_infinity,
    check_swapped_rows,
    gates_cell,
    once,
    one_by_one,
    one_type,
    products_cell,
    words_network,
)
from tests.core.exec.cuda.simulated import SMALL, SimulatedDevice

seeds = st.integers(0, 2**32 - 1)
schemes = st.sampled_from(["batch", "plan"])

# Sizes of more than one tile, and of parts of tiles.
LARGE = ((5,), (18,), (18,), (21,), (18, 7), (7, 21))


def cuda(
    planned: Plan, params: Params, scheme: Scheme = "plan", seed: int | None = None, *, races: bool = True
) -> Result:
    executor = CudaExecutor(SimulatedDevice(seed, races=races), scheme)
    executor.prepare(planned.graph.network, params)
    return executor.run(planned)


@given(seeds, st.integers(0, 12), schemes, st.booleans())
@settings(max_examples=30)
def test_equals_reference(seed: int, nodes: int, scheme: Scheme, fused: bool) -> None:
    rng = np.random.default_rng(seed)
    graph = fused_graph(rng, nodes) if fused else random_graph(rng, random_network(rng), nodes)
    planned = plan(graph, random_schedule(rng, graph))
    params = init_params(graph.network, seed % 1000)
    check(cuda(planned, params, scheme, seed), graph, params)


@given(seeds, schemes)
@settings(max_examples=8)
def test_equals_reference_at_sizes_of_several_tiles(seed: int, scheme: Scheme) -> None:
    rng = np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builder, "SHAPES", LARGE)
        network = random_network(rng)
    graph = random_graph(rng, network, 6)
    planned = plan(graph, random_schedule(rng, graph))
    params = init_params(network, 0)
    check(cuda(planned, params, scheme, seed), graph, params)


@pytest.mark.parametrize(("gates", "size", "lanes"), [(1, 1, 1), (3, 13, 7), (5, 16, 21), (13, 5, 2)])
def test_any_number_of_gates_and_lanes(gates: int, size: int, lanes: int) -> None:
    graph, network = one_type(gates_cell(gates, size), lanes)
    params = init_params(network, 0)
    assert error(cuda(plan(graph, once(graph)), params, "plan", 1), reference(graph, params)) < 1e-5


def test_products_of_matrices() -> None:
    graph, network = one_type(products_cell(), 2)
    params = init_params(network, 0)
    assert error(cuda(plan(graph, once(graph)), params, "plan", 1), reference(graph, params)) < 1e-5


def test_functions_at_their_ends() -> None:
    check_functions(lambda planned, params: cuda(planned, params, "batch"))


@pytest.mark.parametrize("reduction", ["sum", "mean", "max", "var", "std"])
def test_nan_and_infinity_pass_through(reduction: str) -> None:
    check_nan_and_infinity(cuda, reduction)


@given(seeds)
@settings(max_examples=3)
def test_runs_are_equal_bit_for_bit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    network = random_network(rng)
    small, large = (random_graph(rng, network, nodes) for nodes in (3, 12))
    plans = [plan(graph, random_schedule(rng, graph)) for graph in (small, large)]
    params = init_params(network, 1)
    executor = CudaExecutor(SimulatedDevice(seed), "plan")
    executor.prepare(network, params)
    for planned in (plans[0], plans[1], plans[0]):
        # memory is kept and grows from run to run, and tiles are taken in any order: it must not matter
        again, result = cuda(planned, params, "batch"), executor.run(planned)
        for t, net_type in enumerate(network.types):
            for o in range(len(net_type.outputs)):
                assert np.array_equal(result.value(t, o), again.value(t, o), equal_nan=True)


def test_a_swapped_operand_row_fails_the_comparison() -> None:
    check_swapped_rows(cuda)


def test_a_result_does_not_outlive_the_next_run() -> None:
    check_lifetime(CudaExecutor(SimulatedDevice(), "plan"))


def test_few_lanes_and_many_lanes_have_tiles_of_their_own() -> None:
    forms = replace(SMALL, batch=replace(SMALL.batch, blocks=9))
    graph, network = one_type(lstm(20), 60)
    program = device_program(network, forms)
    (limits,) = program.batch.limit.tolist()
    assert len(limits) == 3 and limits == sorted(limits)
    params = init_params(network, 0)
    for lanes, kernel in zip((limits[0], limits[0] + 1, limits[1] + 1), program.batch.kernel[0], strict=True):
        graph, network = one_type(lstm(20), lanes)
        executor = CudaExecutor(device := SimulatedDevice(1, forms, races=False), "batch")
        executor.prepare(network, params)
        result = executor.run(plan(graph, once(graph)))
        assert error(result, reference(graph, params)) < 1e-5
        assert result.counts.launches == 1
        assert device.used == [kernel]


def test_products_with_words_are_hoisted_before_all_batches() -> None:
    network = words_network()
    graph = make_graph(network, [0] * 3, [[-1, -7, -7], [-2, 0, 1], [-3, 2, 3]])
    params = init_params(network, 0)
    program = device_program(network, SMALL)
    assert program.batch.hoisted.tolist() == [True, False]
    assert program.batch.early.tolist() == [[True, False, False]]
    # hoisted: the four products with x; a batch: those with h, which is a node's or zero
    assert [len(step.packed.group.segments) for step in program.cells[0].steps] == [1, 1]  # type: ignore[union-attr]
    executor = CudaExecutor(SimulatedDevice(2), "batch")
    executor.prepare(network, params)
    result = executor.run(plan(graph, one_by_one(graph)))
    assert result.counts.launches == 1 + 3
    assert error(result, reference(graph, params)) < 1e-5


SPECS = [
    *sorted(path.stem for path in (ROOT / "specs").glob("*.yaml") if path.stem != "subgraph"),
    *sorted(f"plans/{path.stem}" for path in (ROOT / "specs/plans").glob("*.yaml")),
]


@pytest.mark.simulated
@pytest.mark.parametrize(
    ("spec", "granularity", "fuse"),
    [
        *((spec, "cell", False) for spec in SPECS),
        ("lattice", "cell", True),
        ("lattice-gru", "cell", True),
        ("fig1", "op", False),
    ],
)
def test_every_spec_on_its_own_data(spec: str, granularity: Granularity, fuse: bool, root: Path) -> None:
    model = open_model(root / "specs" / f"{spec}.yaml", Overrides(dims={"hidden": 6}))
    networks = open_networks(model, granularity, fuse=fuse)
    workload = whole(open_workload(model, read_instances(model.data, 5), networks))
    # the shortest, and no search for races, which is in the other tests: to simulate is slow
    graph = min((workload.graph(i, i + 1) for i in range(len(workload.instances))), key=len)
    planned = plan(graph, Sufficient().schedule(graph.dag))
    params = init_params(workload.network, 0)
    assert error(cuda(planned, params, "plan", 5, races=False), reference(graph, params)) < 1e-5


def test_the_scheme_is_chosen_by_launches_barriers_and_arithmetic() -> None:
    network = words_network()
    graph = make_graph(network, [0] * 3, [[-1, -7, -7], [-2, 0, 1], [-3, 2, 3]])
    executor = CudaExecutor(SimulatedDevice(races=False), "auto")
    executor.prepare(network, init_params(network, 0))
    small = plan(graph, one_by_one(graph))
    assert executor.run(small).counts.launches == 1
    # so much arithmetic that a tenth of it outweighs four launches
    assert executor.run(replace(small, product_flops=10**12)).counts.launches == 4
