"""All operations of cells in every executor, as cells and one by one."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from abw.core.cell.evaluate import run_cell
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.cpu.target import TARGETS, TargetName, get_target
from abw.core.exec.cuda.executor import CudaExecutor
from abw.core.exec.interface import Executor, Result
from abw.core.exec.params import Params, init_params
from abw.core.exec.registry import get_executor
from abw.core.graph.graph import Graph
from abw.core.graph.ops import expand, op_network
from abw.core.ir.cell import Param, Port
from abw.core.ir.network import Granularity
from abw.core.plan.check import check_plan
from abw.core.plan.plan import plan
from abw.core.policy.rules.sufficient import Sufficient
from tests.core.exec.builder import error, reference
from tests.core.exec.corners import EDGES, functions, one_type
from tests.core.exec.cuda.simulated import SimulatedDevice
from tests.core.exec.operations import by_numpy, operations_cell

HERE: list[TargetName] = [name for name in TARGETS if TARGETS.index(name) >= TARGETS.index(get_target().name)]
EXECUTORS: dict[str, Callable[[], Executor]] = {
    "blas": lambda: get_executor("blas"),
    **{name: lambda name=name: CpuExecutor(name) for name in HERE},  # type: ignore[misc]
    "cuda": lambda: CudaExecutor(SimulatedDevice(1, races=False), "plan"),
}


def lanes(granularity: Granularity, count: int) -> tuple[Graph, Params]:
    """Nodes of the cell, and parameters that are not zero."""
    graph, network = one_type(operations_cell(), count)
    if granularity == "op":
        ops = op_network(network)
        graph, network = expand(graph, ops), ops.network
    rng = np.random.default_rng(3)
    drawn = init_params(network, 0)
    values = tuple(rng.standard_normal(value.shape).astype(np.float32) for value in drawn.values)
    tables = tuple(rng.standard_normal(table.shape).astype(np.float32) for table in drawn.tables)
    return graph, Params(values, tables)


def test_the_reference_computes_what_numpy_does() -> None:
    cell, rng = operations_cell(), np.random.default_rng(0)
    for _ in range(20):
        ports: list[Port | Param] = [*cell.inputs, *cell.params]
        values = {port.name: np.asarray(rng.standard_normal(port.shape)) for port in ports}
        inputs = [values[port.name] for port in cell.inputs]
        found = run_cell(cell, inputs, [values[param.name] for param in cell.params])
        expected = by_numpy(**values)
        for port, got in zip(cell.output_ports, found, strict=True):
            assert got.shape == port.shape
            np.testing.assert_allclose(got, expected[port.name], rtol=1e-11, atol=1e-12, err_msg=port.name)


def run(name: str, graph: Graph, params: Params) -> Result:
    planned = plan(graph, Sufficient().schedule(graph.dag))
    check_plan(graph, planned)
    executor = EXECUTORS[name]()
    with np.errstate(all="ignore"):
        executor.prepare(graph.network, params, 1)
        return executor.run(planned)


@pytest.mark.parametrize("granularity", ["cell", "op"])
@pytest.mark.parametrize("name", EXECUTORS)
def test_every_executor_computes_what_the_reference_does(name: str, granularity: Granularity) -> None:
    graph, params = lanes(granularity, 3 if name == "cuda" else 67)
    assert error(run(name, graph, params), reference(graph, params)) < 1e-5


@pytest.mark.parametrize("name", EXECUTORS)
def test_what_is_no_number_or_infinite_ends_as_in_numpy(name: str) -> None:
    graph, params = lanes("cell", 4 if name == "cuda" else 40)
    vectors, small, matrices = (table.copy() for table in params.tables[:3])
    assert (vectors.shape[1:], small.shape[1:], matrices.shape[1:]) == ((5,), (2,), (2, 5))
    vectors[:, 0], vectors[::2, 2], vectors[1::2, 3] = np.inf, np.nan, -np.inf
    matrices[::2, 0, 1], matrices[1::2, 1, ::2] = np.nan, [np.inf, 1.0, -np.inf]
    params = Params(params.values, (vectors, small, matrices, *params.tables[3:]))
    with np.errstate(all="ignore"):
        expected = reference(graph, params)
        outputs = [expected.value(0, o) for o in range(len(operations_cell().outputs))]
        assert sum(bool(np.isnan(value).any()) for value in outputs) > 8
        assert sum(bool(np.isinf(value).any()) for value in outputs) > 5
        assert error(run(name, graph, params), expected) < 1e-5


EXACT = ("log", "sqrt", "rsqrt", "square", "abs", "silu", "gelu", "softplus", "elu", "leaky_relu",
         "erf", "sin", "cos", "floor", "ceil", "round", "sign")  # fmt: skip


@pytest.mark.parametrize("target", [name for name in HERE if get_target(name).fused])
def test_functions_are_right_to_a_millionth(target: TargetName) -> None:
    numbers = [
        *np.linspace(-110, 90, 3001),
        *np.geomspace(1e-44, 3e38, 2001),
        *-np.geomspace(1e-44, 20, 2001),
    ]
    planned, params = functions([*EDGES, *numbers, *np.linspace(0.9, 1.1, 501)], EXACT)
    executor = CpuExecutor(target)
    executor.prepare(planned.graph.network, params, 1)
    found, expected = executor.run(planned), reference(planned.graph, params)
    for o, name in enumerate(EXACT):
        with np.errstate(over="ignore"):
            wanted = expected.value(0, o).astype(np.float32)
        np.testing.assert_allclose(found.value(0, o), wanted, rtol=1e-6, atol=6e-45, err_msg=name)
