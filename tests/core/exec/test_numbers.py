"""How right the numbers are: functions against 60 digits, long sums against exact ones, in every executor."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, localcontext

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.base.errors import Span
from abw.core.cell.evaluate import evaluate
from abw.core.exec.blas.executor import BlasExecutor
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.cuda.executor import CudaExecutor
from abw.core.exec.interface import Executor
from abw.core.exec.params import Params
from abw.core.ir.cell import Op
from abw.core.ir.model import SPREADS, Reduction, Table
from abw.core.ir.network import Constant, Slot
from abw.core.plan.plan import plan
from abw.core.policy.schedule import Schedule
from tests.core.exec.builder import make_graph, make_network, reference
from tests.core.exec.cpu.test_cpu import HERE
from tests.core.exec.cuda.simulated import SimulatedDevice


def _sigmoid(x: Decimal) -> Decimal:
    return 1 / (1 + (-x).exp())


def _tanh(x: Decimal) -> Decimal:
    return ((2 * x).exp() - 1) / ((2 * x).exp() + 1)


# By definition, in as many digits as the context has.
EXACT: dict[str, Callable[[Decimal], Decimal]] = {"sigmoid": _sigmoid, "tanh": _tanh, "exp": Decimal.exp}

numbers = st.floats(-700, 700)


@pytest.mark.parametrize("name", EXACT)
@given(numbers)
def test_the_reference_is_right_to_all_but_the_last_digits(name: str, x: float) -> None:
    found = float(evaluate(Op(name, (0,), (1,)), [np.array([x])])[0])
    with localcontext() as context:
        # tanh of the smallest numbers takes the difference of two that agree in 308 digits
        context.prec = 700 if name == "tanh" else 60
        expected = EXACT[name](Decimal(x))
        # what is below the smallest normal number has fewer digits
        assert abs(Decimal(found) - expected) <= Decimal("1e-14") * abs(expected) + Decimal("1e-307")


@given(st.lists(numbers, min_size=1, max_size=8))
def test_the_reference_of_softmax_is(xs: list[float]) -> None:
    found = evaluate(Op("softmax", (0,), (len(xs),)), [np.array(xs)]).tolist()
    with localcontext() as context:
        context.prec = 60
        powers = [Decimal(x).exp() for x in xs]
        for value, power in zip(found, powers, strict=True):
            expected = power / sum(powers)
            assert abs(Decimal(value) - expected) <= Decimal("1e-14") * expected + Decimal("1e-307")


def test_the_reference_at_its_ends() -> None:
    ends = np.array([-math.inf, -1000.0, 1000.0, math.inf, math.nan])
    with np.errstate(over="ignore"):
        found = evaluate(Op("sigmoid", (0,), (5,)), [ends])
    assert np.array_equal(found, [0, 0, 1, 1, math.nan], equal_nan=True)


def executors() -> dict[str, Callable[[], Executor]]:
    """Those that add in single precision, cpu's for each processor."""
    found: dict[str, Callable[[], Executor]] = {f"cpu-{t}": lambda t=t: CpuExecutor(t) for t in HERE}  # type: ignore[misc]
    return {**found, "blas": BlasExecutor}


def summed(make: Callable[[], Executor] | None, reduction: Reduction, counts: list[int], rows: int) -> float:
    """How far the sums (or means) of lists of rows of a table are from exact ones.

    Relative to the same of the absolute values. Without an executor: the reference.
    """
    rng = np.random.default_rng(sum(counts))
    size = 5
    table = rng.standard_normal((rows, size)).astype(np.float32)
    slot = Slot("s", (size,), (), (0,))
    network = make_network(
        [("reduce", None, reduction, (slot,))],
        (Table("t", rows, (size,), None, None, Span("test", 1)),),
        (Constant("table", 0, (size,), 0, rows),),
        [],
    )
    params = Params((), (table,))
    members = [rng.integers(rows, size=count) for count in counts]
    graph = make_graph(network, [0] * len(counts), [(-1 - m).tolist() for m in members])
    if make is None:
        found = reference(graph, params).value(0, 0)
    else:
        schedule = Schedule(
            np.zeros(1, np.int32),
            np.array([0, len(counts)], np.int32),
            np.arange(len(counts), dtype=np.int32),
        )
        executor = make()
        executor.prepare(network, params, 1)
        found = executor.run(plan(graph, schedule)).value(0, 0)
    worst = 0.0
    for row, member in zip(found, members, strict=True):
        columns = table[member].astype(np.float64).T.tolist()
        exact = np.array([math.fsum(column) for column in columns])
        size_of = np.array([math.fsum(map(abs, column)) for column in columns])
        if reduction == "mean":
            exact, size_of = exact / len(member), size_of / len(member)
        elif reduction in SPREADS:
            means = (exact / len(member)).tolist()
            pairs = zip(columns, means, strict=True)
            exact = np.array([math.fsum((x - mean) ** 2 for x in column) for column, mean in pairs])
            exact = size_of = exact / len(member) if rows > 1 else np.ones(size)
            exact = np.zeros(size) if rows == 1 else np.sqrt(exact) if reduction == "std" else exact
        worst = max(worst, float(np.max(np.abs(row - exact) / size_of)))
    return worst


@pytest.mark.parametrize("reduction", ["sum", "mean", "var", "std"])
@pytest.mark.parametrize("rows", [1, 1000], ids=["equal", "random"])
@pytest.mark.parametrize("name", executors())
def test_long_sums(name: str, rows: int, reduction: Reduction) -> None:
    make = executors()[name]
    assert summed(make, reduction, [100_000], rows) < 1e-6
    assert summed(make, reduction, [2, 100_000, 8, 9, 17, 20_000], rows) < 1e-6


@pytest.mark.parametrize("reduction", ["sum", "mean", "var", "std"])
@pytest.mark.parametrize("rows", [1, 1000], ids=["equal", "random"])
def test_long_sums_on_a_simulated_device(rows: int, reduction: Reduction) -> None:
    counts = [2, 3000, 8, 9]  # one after the other it is off by 2e-5
    assert summed(lambda: CudaExecutor(SimulatedDevice(races=False), "plan"), reduction, counts, rows) < 1e-6


@pytest.mark.parametrize("reduction", ["sum", "mean", "var", "std"])
def test_long_sums_of_the_reference(reduction: Reduction) -> None:
    assert summed(None, reduction, [2, 100_000, 9], 1) < 1e-14
    assert summed(None, reduction, [2, 100_000, 9], 1000) < 1e-14
