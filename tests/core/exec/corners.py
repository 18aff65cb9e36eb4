"""Cells and batches at the corners of what an executor has to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from abw.core.base.errors import Span
from abw.core.exec.interface import Executor, Result
from abw.core.exec.params import Params, init_params
from abw.core.graph.graph import Graph
from abw.core.ir.cell import Cell
from abw.core.ir.model import Table
from abw.core.ir.network import Constant, Network, Slot
from abw.core.plan.kernels import GATHERED
from abw.core.plan.plan import Plan, plan
from abw.core.policy.schedule import Schedule
from tests.core.exec.builder import UNARY, CellBuilder, error, lstm, make_graph, make_network, reference


def one_type(cell: Cell, lanes: int) -> tuple[Graph, Network]:
    """A batch of nodes whose inputs are rows of tables, each another one."""
    shapes = list(dict.fromkeys(port.shape for port in cell.inputs))
    tables = tuple(Table(f"t{i}", 50, s, None, None, Span("test", 1)) for i, s in enumerate(shapes))
    constants = tuple(Constant("table", i, s, 50 * i, 50) for i, s in enumerate(shapes))
    slots = tuple(Slot(p.name, p.shape, (), (shapes.index(p.shape),)) for p in cell.inputs)
    network = make_network([(cell.name, cell, None, slots)], tables, constants, [])
    rng = np.random.default_rng(0)
    operands = [
        [-1 - 50 * shapes.index(p.shape) - int(rng.integers(50)) for p in cell.inputs] for _ in range(lanes)
    ]
    return make_graph(network, [0] * lanes, operands), network


def once(graph: Graph) -> Schedule:
    """All nodes in one batch."""
    n = len(graph)
    return Schedule(np.zeros(1, np.int32), np.array([0, n], np.int32), np.arange(n, dtype=np.int32))


def gates_cell(gates: int, size: int) -> Cell:
    """Many gates of two inputs of other sizes, a product of what is computed, and a peephole."""
    b = CellBuilder()
    x, y = b.input((size + 3,)), b.input((7,))
    sums = []
    for g in range(gates):
        total = b.op("matmul", b.param((size, size + 3)), x, shape=(size,))
        if g % 2:
            total = b.op("add", b.param((size,)), total, shape=(size,))
            total = b.op("add", total, b.op("matmul", b.param((size, 7)), y, shape=(size,)), shape=(size,))
        sums.append(b.op(("tanh", "sigmoid")[g % 2], total, shape=(size,)))
    product = sums[0]
    for value in sums[1:]:
        product = b.op("add", product, b.op("mul", value, b.param((size,)), shape=(size,)), shape=(size,))
    again = b.op("matmul", b.param((size, size)), product, shape=(size,))
    both = b.op("concat", again, y, shape=(size + 7,))
    last = b.op("matmul", b.param((3, size + 7)), both, shape=(3,))
    return b.cell("gates", [b.op("tanh", again, shape=(size,)), last, both])


def products_cell() -> Cell:
    """Matrices by matrices and by vectors, of the lanes and of parameters, turned, cut and joined."""
    b = CellBuilder()
    a, v = b.input((18, 33)), b.input((33,))
    w = b.op("matmul", a, v, shape=(18,))
    turned = b.op("transpose", a, shape=(33, 18))
    square = b.op("matmul", turned, a, shape=(33, 33))
    cut = b.op("slice", square, shape=(5, 33), attr=(20.0, 25.0))
    joined = b.op("concat", cut, a, shape=(23, 33))
    mixed = b.op("matmul", b.param((4, 23)), joined, shape=(4, 33))
    part = b.op("slice", v, shape=(20,), attr=(13.0, 33.0))
    small = b.op("matmul", b.param((6, 20)), part, shape=(6,))
    fixed = b.op("matmul", a, b.param((33,)), shape=(18,))
    chances = b.op("softmax", mixed, shape=(4, 33))
    return b.cell("products", [w, square, chances, small, fixed, cut])


def words_network(reduction: str | None = None) -> Network:
    """LSTM over words and states; with a reduction, its h is reduced over nodes and words."""
    constants = (Constant("table", 0, (3,), 0, 6), Constant("zeros", 0, (3,), 6, 1))
    slots = (
        Slot("x", (3,), (), (0,)),
        Slot("h", (3,), ((0, 0),), (1,)),
        Slot("c", (3,), ((0, 1),), (1,)),
    )
    table = Table("words", 6, (3,), None, None, Span("test", 1))
    types = [("lstm", lstm(3), None, slots)]
    if reduction:
        types.append(("all", None, reduction, (Slot("h", (3,), ((0, 0),), (0,)),)))  # type: ignore[arg-type]
    return make_network(types, (table,), constants, [])


def batches(types: list[int], ptr: list[int]) -> Schedule:
    """The nodes in the order of their numbers, cut at `ptr`."""
    return Schedule(np.array(types, np.int32), np.array(ptr, np.int32), np.arange(ptr[-1], dtype=np.int32))


def one_by_one(graph: Graph) -> Schedule:
    """A batch for each node, in the order of their numbers."""
    n = len(graph)
    return Schedule(graph.dag.type, np.arange(n + 1, dtype=np.int32), np.arange(n, dtype=np.int32))


def check_nan_and_infinity(run: Callable[[Plan, Params], Result], reduction: str) -> None:
    """They pass through a cell and a reduction as NumPy passes them."""
    network = words_network(reduction)
    operands = [[-1, -7, -7], [-2, -7, -7], [-3, -7, -7], [-4, 0, 1], [0, 4], [2, 4, -3]]
    graph = make_graph(network, [0] * 4 + [1] * 2, operands)
    params = init_params(network, 0)
    table = params.tables[0].copy()
    table[0, 1], table[1, 0] = np.nan, np.inf
    params = Params(params.values, (table,))
    with np.errstate(all="ignore"):
        found, expected = run(plan(graph, one_by_one(graph)), params), reference(graph, params)
        assert np.isnan(expected.value(0, 0)[0]).all()
        assert np.isfinite(expected.value(0, 0)[2]).all()
        assert error(found, expected) < 1e-5


def check_swapped_rows(run: Callable[[Plan, Params], Result]) -> None:
    """Operands are read through their index arrays, and the comparison sees it if one is wrong."""
    network = words_network()
    graph = make_graph(network, [0] * 4, [[-1, -7, -7], [-2, -7, -7], [-3, 0, 1], [-4, 2, 3]])
    params = init_params(network, 0)
    planned = plan(graph, batches([0, 0], [0, 2, 4]))
    expected = reference(graph, params)
    assert error(run(planned, params), expected) < 1e-5
    for operand in (0, 3):
        begin = planned.index_ptr[operand]
        index = planned.index.copy()
        index[[begin, begin + 1]] = index[[begin + 1, begin]]
        status = planned.status.copy()
        status[operand] = GATHERED
        assert error(run(replace(planned, index=index, status=status), params), expected) > 1e-2


def check_lifetime(executor: Executor) -> None:
    """A result cannot be read after the next run, nor a plan of another network be run."""
    network = words_network()
    graph = make_graph(network, [0], [[-1, -7, -7]])
    executor.prepare(network, init_params(network, 0))
    planned = plan(graph, one_by_one(graph))
    first = executor.run(planned)
    executor.run(planned)
    with pytest.raises(RuntimeError, match="run again"):
        first.value(0, 0)
    with pytest.raises(ValueError, match="another network"):
        executor.run(plan(make_graph(words_network(), [0], [[-1, -7, -7]]), planned.schedule))


EDGES = [0.0, -0.0, 1e-30, -1e-6, 0.3, -5.0, 8.5, -20.0, 60.0, 87.0, -87.0, 88.6, -95.0, 104.0, 2e4, -2e4,
         3e38, np.inf, -np.inf, np.nan]  # fmt: skip


def functions(numbers: Sequence[float], names: Sequence[str] = UNARY) -> tuple[Plan, Params]:
    """Functions of one number, each an output, of every one of the numbers, each a node."""
    x = np.array(numbers, np.float32)
    b = CellBuilder()
    value = b.input((1,))
    graph, network = one_type(b.cell("ends", [b.unary(name, value) for name in names]), len(x))
    table = replace(network.tables[0], rows=len(x))
    network = replace(network, tables=(table,), constants=(Constant("table", 0, (1,), 0, len(x)),))
    graph = replace(graph, network=network, operand=-1 - np.arange(len(x), dtype=np.int32))
    return plan(graph, once(graph)), Params((), (x[:, None],))


def check_functions(run: Callable[[Plan, Params], Result]) -> None:
    """Element-wise functions of all kinds of numbers, to single precision."""
    planned, params = functions([*EDGES, *np.linspace(-30, 30, 1001), *np.geomspace(1e-8, 10, 200)])
    found, expected = run(planned, params), reference(planned.graph, params)
    for o, name in enumerate(UNARY):
        got, wanted = found.value(0, o)[:, 0], expected.value(0, o)[:, 0]
        with np.errstate(over="ignore"):
            wanted = wanted.astype(np.float32)
        # the reference's sigmoid is exact to 1e-16, absolutely
        atol = 1e-15 if name == "sigmoid" else 1e-37
        np.testing.assert_allclose(got, wanted, rtol=4e-6, atol=atol, err_msg=name)
