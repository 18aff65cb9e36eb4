"""Weights in bfloat16 and int8: bit for bit what NumPy makes of their definition, on every target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from abw.core.base.errors import AbwError
from abw.core.exec.cpu import executor as of_executor
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.cpu.target import TARGETS, Target, TargetName, get_target
from abw.core.exec.params import Params, constant_value, init_params
from abw.core.exec.precision import ALLOWED, Precision
from abw.core.exec.registry import get_executor
from abw.core.exec.registry import settings as settings_of
from abw.core.graph.graph import Graph
from abw.core.ir.cell import Cell
from abw.core.plan.plan import Plan, plan
from abw.core.policy.rules.sufficient import Sufficient
from abw.core.run.workload import open_model, open_networks, open_workload, read_instances, whole
from abw.core.spec.load import Overrides
from tests.core.exec.builder import CellBuilder, error, lstm, reference
from tests.core.exec.corners import gates_cell, once, one_type

Floats = NDArray[np.float32]
HERE = TARGETS[TARGETS.index(get_target().name) :]
LOW: tuple[Precision, ...] = ("bf16", "int8")


def run(
    planned: Plan, params: Params, target: TargetName | None, precision: Precision, threads: int = 1
) -> Floats:
    """All outputs of the only type, one behind the other."""
    executor = CpuExecutor(target, precision)
    executor.prepare(planned.graph.network, params, threads)
    result = executor.run(planned)
    outputs = range(len(planned.graph.network.types[0].outputs))
    return np.concatenate([result.value(0, o).astype(np.float32) for o in outputs], axis=1)


# what is meant, number by number


def rounded(x: Floats) -> Floats:
    """The nearest number with 8 significant bits; of two the one whose last bit is 0."""
    down = (x.view(np.uint32) & 0xFFFF0000).view(np.float32)
    with np.errstate(all="ignore"):
        up = (down.view(np.uint32) + 0x10000).view(np.float32)
        below, above = np.abs(x.astype(float) - down), np.abs(up - x.astype(float))
        odd = (down.view(np.uint32) >> 16 & 1).astype(bool)
        near = np.where((above < below) | ((above == below) & odd), up, down)
    return np.where(np.isfinite(x), near, x)


def whole_numbers(row: Floats) -> tuple[NDArray[np.int64], np.float32]:
    """A row in int8, and its scale."""
    largest = np.float32(max(np.abs(row)))
    if not np.isfinite(row).all():
        return np.zeros(len(row), np.int64), np.float32(np.nan)
    if largest < 2.0**-100:
        return np.zeros(len(row), np.int64), np.float32(0)
    return np.rint(row * (np.float32(127) / largest)).astype(np.int64), largest / np.float32(127)


def product(weights: Floats, x: Floats, total: Floats, precision: Precision) -> Floats:
    """`total + weights @ x`."""
    if precision == "bf16":
        w, row = rounded(weights), rounded(x)
        for k in (np.arange(len(x) + len(x) % 2) ^ 1).tolist():  # of each pair the second first
            if k < len(x):
                total = total + w[:, k] * row[k]
        return total
    q, scale = whole_numbers(x)
    result = []
    for row, before in zip(weights, total, strict=True):
        p, own = whole_numbers(row)
        result.append(before + np.float32(int(p @ q)) * (scale * own))
    return np.array(result, np.float32)


def sums_cell(size: int, first: int, second: int, gates: int) -> Cell:
    """Gates W @ x + U @ y + b; x is a part of an input, and every other gate reads it and y concatenated."""
    b = CellBuilder()
    whole, y = b.input((first + 3,)), b.input((second,))
    x = b.op("slice", whole, shape=(first,), attr=(2.0, first + 2.0))
    both = b.op("concat", x, y, shape=(first + second,))
    outputs = []
    for g in range(gates):
        if g % 2:
            total = b.op("matmul", b.param((size, first + second)), both, shape=(size,))
        else:
            left = b.op("matmul", b.param((size, first)), x, shape=(size,))
            right = b.op("matmul", b.param((size, second)), y, shape=(size,))
            total = b.op("add", left, right, shape=(size,))
        outputs.append(b.op("add", total, b.param((size,)), shape=(size,)))
    return b.cell("sums", outputs)


def meant(graph: Graph, params: Params, cell: tuple[int, int, int], precision: Precision) -> Floats:
    """The outputs of `sums_cell`, of these lengths of operands and so many gates."""
    first, _, gates = cell
    rows = []
    for operands in graph.operand.reshape(-1, 2).tolist():
        x, y = (constant_value(graph.network, params, reference) for reference in operands)
        left, out = list(params.values), []
        for g in range(gates):
            w = left.pop(0)
            both = (w[:, :first], w[:, first:]) if g % 2 else (w, left.pop(0))
            total = left.pop(0)
            for matrix, part in zip(both, (x[2 : first + 2], y), strict=True):
                total = product(matrix, part, total, precision)
            out.append(total)
        rows.append(np.concatenate(out))
    return np.array(rows)


@settings(max_examples=12, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from((1, 2, 16, 23, 38)),
    st.tuples(
        st.sampled_from((1, 3, 16, 37, 70)), st.sampled_from((1, 8, 33, 64)), st.sampled_from((1, 2, 7))
    ),
    st.sampled_from((1, 3, 12)),
    st.sampled_from(HERE),
    st.sampled_from(LOW),
)
def test_sums_are_what_is_meant(
    seed: int, size: int, cell: tuple[int, int, int], lanes: int, target: TargetName, precision: Precision
) -> None:
    graph, network = one_type(sums_cell(size, *cell), lanes)
    rng = np.random.default_rng(seed)
    params = init_params(network, seed)
    for table in params.tables:
        table *= np.exp2(rng.integers(-20, 20, (len(table), 1))).astype(np.float32)
        table[rng.random(table.shape) < 0.1] = 0
        table[rng.random(len(table)) < 0.1] = 0
        table[rng.random(len(table)) < 0.05, -1] = np.nan
    params.values[0][0] *= np.float32(1e-33 if rng.integers(2) else 1)
    found = run(plan(graph, once(graph)), params, target, precision)
    with np.errstate(all="ignore"):
        expected = meant(graph, params, cell, precision)
    assert np.array_equal(found, expected, equal_nan=True)


def without(name: str, feature: str) -> Target:
    """A target whose processor lacks an instruction."""
    target = get_target(name)
    return replace(target, features=target.features.replace(f"+{feature}", f"-{feature}"))


@pytest.mark.parametrize("precision", LOW)
def test_the_same_bits_however_they_are_computed(precision: Precision, always_shared: None) -> None:
    """Without the instruction for it, with weights asked for ahead, by several threads."""
    for cell in (gates_cell(3, 37), sums_cell(38, 37, 70, 5)):
        graph, network = one_type(cell, 61)
        planned, params = plan(graph, once(graph)), init_params(network, 0)
        expected = run(planned, params, None, precision)
        assert run(planned, params, None, precision, threads=2).tobytes() == expected.tobytes()
        whole, few = get_target(), without(get_target().name, "avx512vnni")
        for other in (replace(whole, cache=0), replace(few, cache=1 << 40)):
            with patch.object(of_executor, "get_target", lambda _, other=other: other):
                assert run(planned, params, None, precision).tobytes() == expected.tobytes()


@pytest.mark.parametrize("precision", LOW)
def test_memory(precision: Precision) -> None:
    _, network = one_type(lstm(256), 1)
    sizes = {}
    for kept in ("float32", precision):
        executor = CpuExecutor(precision=kept)
        executor.prepare(network, init_params(network, 0), 1)
        sizes[kept] = executor.packed_bytes
    share = sizes[precision] / sizes["float32"]
    assert share < (0.51 if precision == "bf16" else 0.27)


def test_other_weights(root: Path) -> None:
    """`update` packs them in the same precision."""
    graph, network = one_type(lstm(20), 7)
    planned, old, new = plan(graph, once(graph)), init_params(network, 0), init_params(network, 1)
    for precision in LOW:
        executor = CpuExecutor(precision=precision)
        executor.prepare(network, old, 1)
        executor.update(new)
        assert (
            executor.run(planned).value(0, 0).tobytes()
            == run(planned, new, None, precision)[:, :20].tobytes()
        )


SPECS = ("lattice", "gat", "mvrnn", "greedy")


@pytest.mark.parametrize("spec", SPECS)
def test_specs_stay_within_what_is_allowed(spec: str, root: Path) -> None:
    model = open_model(root / "specs" / f"{spec}.yaml", Overrides(dims={"hidden": 38}))
    workload = whole(open_workload(model, read_instances(model.data, 4), open_networks(model, "cell")))
    graph = workload.graph(0, min(4, len(workload.instances)))
    planned = plan(graph, Sufficient().schedule(graph.dag))
    params = init_params(workload.network, 0)
    expected = reference(graph, params)
    for precision in LOW:
        executor = CpuExecutor(precision=precision)
        executor.prepare(graph.network, params, 1)
        found = error(executor.run(planned), expected)
        assert 1e-4 < found < ALLOWED[precision] / 2


def test_who_has_it_and_who_refuses() -> None:
    assert get_executor("cpu").precision == "float32"
    assert get_executor("cpu", precision="int8").precision == "int8"
    assert settings_of("cpu", precision="bf16")["precision"] == "bf16"
    for name in ("reference", "blas", "cuda"):
        with pytest.raises(AbwError, match=f"executor '{name}' has no choice of precisions") as caught:
            get_executor(name, precision="int8")
        assert caught.value.hint == "that needs --executor cpu"
