"""The executor `cpu` on every target against the reference: random cells, every spec, values at the edge."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abw.core.base.errors import AbwError
from abw.core.cell.layout import BROADCAST, CONTIGUOUS
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.cpu.llvm import compiled
from abw.core.exec.cpu.target import TARGETS, TargetName, get_target
from abw.core.exec.interface import Result
from abw.core.exec.params import Params, init_params
from abw.core.graph.fuse import fuse, fuse_network
from abw.core.ir.network import Granularity
from abw.core.plan.kernels import GATHERED
from abw.core.plan.plan import Plan, plan
from abw.core.policy.rules.sufficient import Sufficient
from abw.core.run.workload import open_model, open_networks, open_workload, read_instances, whole
from abw.core.spec.load import Overrides
from tests.conftest import ROOT
from tests.core.exec import builder
from tests.core.exec.builder import (
    CellBuilder,
    check,
    error,
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
    one_type,
    products_cell,
)

seeds = st.integers(0, 2**32 - 1)
# The targets that this machine can run.
HERE = [name for name in TARGETS if TARGETS.index(name) >= TARGETS.index(get_target().name)]
targets = st.sampled_from(HERE)


def cpu(planned: Plan, params: Params, target: TargetName | None = None) -> Result:
    executor = CpuExecutor(target)
    executor.prepare(planned.graph.network, params, 1)
    return executor.run(planned)


# Sizes that are no multiple of any vector, below and above one.
LARGE = ((5,), (19,), (19,), (33,), (19, 7), (19, 19), (7, 35))


@settings(max_examples=25)
@given(
    seeds,
    st.tuples(*2 * [st.integers(0, 30)]),
    targets,
    st.booleans(),
    st.booleans(),
    st.sampled_from([0, 2]),
)
def test_equals_reference(
    seed: int, sizes: tuple[int, int], target: TargetName, large: bool, fused: bool, level: int
) -> None:
    rng = np.random.default_rng(seed)
    with patch.object(builder, "SHAPES", LARGE if large else builder.SHAPES):
        network = random_network(rng)
        while fused and not fuse_network(network).gone.any():
            network = random_network(rng)
    for nodes in sizes:  # of one network: it is compiling that takes the time
        graph = random_graph(rng, network, nodes)
        graph = fuse(graph, fuse_network(network)) if fused else graph
        planned = plan(graph, random_schedule(rng, graph))
        params = init_params(graph.network, seed)
        with patch.object(compiled, "LEVEL", level):
            result = cpu(planned, params, target)
        assert result.counts.batches == result.counts.launches == len(planned.schedule)
        check(result, graph, params)


GATES, SIZES = (1, 3, 5, 8, 13), (1, 37, 64)
# Every number of gates with every size, on every target, and every size on every target.
SQUARE = [(g, SIZES[(i + t) % 3], HERE[t % len(HERE)]) for i, g in enumerate(GATES) for t in range(3)]


@pytest.mark.parametrize(("gates", "size", "target"), SQUARE)
def test_any_number_of_gates_and_rows(gates: int, size: int, target: TargetName) -> None:
    lanes = {1: 1, 3: 7, 5: 61, 8: 130, 13: 11}[gates]
    graph, network = one_type(gates_cell(gates, size), lanes)
    params = init_params(network, 0)
    assert error(cpu(plan(graph, once(graph)), params, target), reference(graph, params)) < 1e-5


@pytest.mark.parametrize("target", HERE)
def test_products_of_matrices(target: TargetName) -> None:
    graph, network = one_type(products_cell(), 9)
    params = init_params(network, 0)
    assert error(cpu(plan(graph, once(graph)), params, target), reference(graph, params)) < 1e-5


@pytest.mark.parametrize("target", HERE)
def test_functions_at_their_ends(target: TargetName) -> None:
    check_functions(lambda planned, params: cpu(planned, params, target))


@pytest.mark.parametrize("target", HERE)
@pytest.mark.parametrize("reduction", ["sum", "mean", "max", "var", "std"])
def test_nan_and_infinity_pass_through(reduction: str, target: TargetName) -> None:
    check_nan_and_infinity(lambda planned, params: cpu(planned, params, target), reduction)


@settings(max_examples=15)
@given(seeds, targets)
def test_runs_are_equal_bit_for_bit(seed: int, target: TargetName) -> None:
    rng = np.random.default_rng(seed)
    # of few networks: compiling takes time, and it is plans and memory that matter here
    network = random_network(np.random.default_rng(seed % 10))
    small, large = (random_graph(rng, network, nodes) for nodes in (5, 25))
    plans = [plan(graph, random_schedule(rng, graph)) for graph in (small, large)]
    params = init_params(network, 1)
    executor = CpuExecutor(target)
    executor.prepare(network, params, 1)
    for planned in (plans[0], plans[1], plans[0]):
        # memory is kept and grows from run to run: what lay there before must not matter
        again = cpu(planned, params, target)
        result = executor.run(planned)
        for t, net_type in enumerate(network.types):
            for o in range(len(net_type.outputs)):
                assert np.array_equal(result.value(t, o), again.value(t, o), equal_nan=True)


def test_memory_that_grows_is_not_there_twice() -> None:
    builder = CellBuilder()
    cell = builder.cell("wide", [builder.op("tanh", builder.input((4096,)), shape=(4096,))])
    _, network = one_type(cell, 1)
    executor = CpuExecutor()
    executor.prepare(network, init_params(network, 0), 1)
    tracemalloc.start()
    try:
        for lanes in (100, 250):
            graph = make_graph(network, [0] * lanes, [[-1 - lane % 50] for lane in range(lanes)])
            planned = plan(graph, once(graph))
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            executor.run(planned)
            after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    row = 4 * 4096
    assert before > 100 * row and after > before + 150 * row
    assert peak < after + 10 * row


def test_evenly_spaced_operands_use_no_index_array() -> None:
    rng = np.random.default_rng(4)
    graph, network = one_type(lstm(20), 40)
    rows = np.stack([np.arange(40), np.full(40, 7), rng.permutation(40)], 1)
    graph = replace(graph, operand=(-1 - rows).astype(np.int32).ravel())
    planned = plan(graph, once(graph))
    params = init_params(network, 0)
    expected = cpu(planned, params)
    index = planned.index.copy()
    index[planned.index_ptr[0] : planned.index_ptr[2]] = -1
    found = cpu(replace(planned, index=index), params)
    assert planned.status.tolist() == [CONTIGUOUS, BROADCAST, GATHERED]
    assert all(np.array_equal(found.value(0, o), expected.value(0, o)) for o in (0, 1))


def test_a_swapped_operand_row_fails_the_comparison() -> None:
    check_swapped_rows(cpu)


def test_a_result_does_not_outlive_the_next_run() -> None:
    check_lifetime(CpuExecutor())


def test_a_target_that_the_machine_has_not() -> None:
    best: dict[str, bool] = {"sse2": True}
    with patch("llvmlite.binding.get_host_cpu_features", lambda: best):
        get_target.cache_clear()
        assert get_target().name == "plain"
        with pytest.raises(AbwError, match="has no avx2"):
            get_target("avx2")
    get_target.cache_clear()


REAL = {"lattice": "lattice/train.txt", "bilstm": "tags/dev.txt"}
SPECS = [
    *sorted(path.stem for path in (ROOT / "specs").glob("*.yaml") if path.stem != "subgraph"),
    *sorted(f"plans/{path.stem}" for path in (ROOT / "specs/plans").glob("*.yaml")),
]


# The specs some of whose reductions only cells read.
REDUCING = ("lattice", "lattice-gru")
# Hidden vectors of every spec: a vector and a part.
WIDTH = 22


@pytest.mark.parametrize("granularity", ["cell", "op"])
@pytest.mark.parametrize(("spec", "fuse"), [*((s, False) for s in SPECS), *((s, True) for s in REDUCING)])
def test_every_spec_on_its_own_data(
    spec: str, granularity: Granularity, fuse: bool, root: Path, request: pytest.FixtureRequest
) -> None:
    model = open_model(root / "specs" / f"{spec}.yaml", Overrides(dims={"hidden": WIDTH}))
    if model.growth and granularity == "op":
        pytest.skip("rounds are of cells")
    networks = open_networks(model, granularity, fuse=fuse)
    assert (networks.network is not networks.unfused) == fuse
    # the reference takes a millisecond for a word's operations
    count = 8 if granularity == "cell" else 2
    workload = whole(open_workload(model, read_instances(model.data, count), networks))
    graph = workload.graph(0, min(count, len(workload.instances)))
    planned = plan(graph, Sufficient().schedule(graph.dag))
    params = init_params(workload.network, 0)
    expected = reference(graph, params)
    if granularity == "cell":  # for another target, in turn; then for the best one, as users have it
        turn = 1 + (SPECS.index(spec) + fuse) % 2
        for target in HERE[turn : turn + 1]:
            assert error(cpu(planned, params, target), expected) < 1e-5
        request.getfixturevalue("optimised")
    assert error(cpu(planned, params, HERE[0]), expected) < 1e-5


@pytest.mark.usefixtures("optimised")
@pytest.mark.parametrize("spec", ["treelstm", "treegru", "mvrnn", "lattice", "lattice-gru", "bilstm-chars"])
def test_real_data(spec: str, root: Path, shared_data: Path) -> None:
    source = shared_data / REAL.get(spec.split("-")[0], "trees/train.txt")
    model = open_model(root / "specs" / f"{spec}.yaml", Overrides(data=source, dims={"hidden": 38}))
    workload = open_workload(model, read_instances(model.data, 16), open_networks(model, "cell"))
    graph = workload.graph(0, 16)
    planned = plan(graph, Sufficient().schedule(graph.dag))
    params = init_params(workload.network, 0)
    assert error(cpu(planned, params), reference(graph, params)) < 1e-5
