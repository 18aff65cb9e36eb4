"""Products of quotients at every end, and rows side by side: the same bits wherever a row is."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.cpu.target import TargetName
from abw.core.exec.params import Params, init_params
from abw.core.plan.plan import plan
from tests.core.exec.builder import CellBuilder, lstm, reference
from tests.core.exec.corners import EDGES, once, one_type
from tests.core.exec.cpu.test_cpu import HERE, cpu

PAIRS = [("sigmoid", "tanh"), ("tanh", "sigmoid"), ("sigmoid", "sigmoid"), ("tanh", "tanh")]


@pytest.mark.parametrize("target", HERE)
def test_products_of_quotients_at_their_ends(target: TargetName) -> None:
    b = CellBuilder()
    x, y = b.input((1,)), b.input((1,))
    found = [b.op("mul", b.unary(p, x), b.unary(q, y), shape=(1,)) for p, q in PAIRS]
    found += [b.op("mul", y, b.unary(name, x), shape=(1,)) for name in ("sigmoid", "tanh")]
    for name in ("sigmoid", "tanh"):
        square = b.unary(name, x)
        found.append(b.op("mul", square, square, shape=(1,)))
    numbers = np.array(EDGES, np.float32)
    graph, network = one_type(b.cell("quotients", found), len(numbers) ** 2)
    table, constant = replace(network.tables[0], rows=len(numbers)), network.constants[0]
    network = replace(network, tables=(table,), constants=(replace(constant, rows=len(numbers)),))
    left, right = np.divmod(np.arange(len(graph), dtype=np.int32), np.int32(len(numbers)))
    graph = replace(graph, network=network, operand=-1 - np.stack([left, right], axis=1).ravel())
    params = Params((), (numbers[:, None],))
    got, exact = cpu(plan(graph, once(graph)), params, target), reference(graph, params)
    # infinity times what is smaller than any number is none
    usual = np.isfinite(numbers[right])
    for output in range(len(found)):
        values, wanted = got.value(0, output)[:, 0], exact.value(0, output)[:, 0]
        if output in (4, 5):
            size = np.fmax(np.abs(numbers[right][usual]), 1)
            values, wanted = values[usual] / size, wanted[usual] / size
        np.testing.assert_allclose(values, wanted, rtol=8e-6, atol=1e-15, err_msg=str(output))


@pytest.mark.parametrize("target", HERE)
def test_a_row_is_the_same_bits_whatever_rows_are_beside_it(target: TargetName) -> None:
    graph, network = one_type(lstm(37), 23)
    params = init_params(network, 0)
    executor = CpuExecutor(target)
    executor.prepare(network, params, 1)
    together = executor.run(plan(graph, once(graph)))
    expected = [together.value(0, output).tobytes() for output in (0, 1)]
    for size in range(1, 12):
        ends = np.append(np.arange(0, 23, size), 23).astype(np.int32)
        schedule = replace(once(graph), type=np.zeros(len(ends) - 1, np.int32), ptr=ends)
        apart = executor.run(plan(graph, schedule))
        assert [apart.value(0, output).tobytes() for output in (0, 1)] == expected
