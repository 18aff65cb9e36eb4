"""Steps on tensor cores, in simulation: right at odd sizes, all barriers and waits needed, no bank conflicts,
as exact as float32."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from abw.core.exec.cuda import available
from abw.core.exec.cuda import executor as executor_module
from abw.core.exec.cuda.backend import Kernels, Scheme
from abw.core.exec.cuda.driver.device import Device
from abw.core.exec.cuda.driver.driver import Driver
from abw.core.exec.cuda.executor import CudaExecutor
from abw.core.exec.cuda.lowering import device_program
from abw.core.exec.cuda.ondevice import intrinsics
from abw.core.exec.cuda.text.module import load_kernels
from abw.core.exec.cuda.tiles import HOPPER, Forms, Sizes, TensorTile, forms_for, tensor_tile
from abw.core.exec.interface import Result
from abw.core.exec.params import Params, init_params
from abw.core.exec.registry import get_executor
from abw.core.graph.graph import Graph
from abw.core.ir.cell import Cell
from abw.core.ir.network import Network
from abw.core.plan.plan import plan
from tests.core.exec import builder
from tests.core.exec.builder import (
    CellBuilder,
    check,
    error,
    lstm,
    random_graph,
    random_network,
    random_schedule,
    reference,
)
from tests.core.exec.corners import gates_cell, once, one_type
from tests.core.exec.cuda import fakedriver, simgrid
from tests.core.exec.cuda.fakedriver import FakeLibrary
from tests.core.exec.cuda.simtensor import cut, split
from tests.core.exec.cuda.simulated import SimulatedDevice

pytestmark = pytest.mark.simulated

Floats = NDArray[np.float32]

# No block runs at once: so every batch has many lanes, and tiles are those for many.
SIZES = Sizes(threads=64, packed=16, sums=32, shared=5000, slab=8, blocks=0, tensor=True)
FORMS = Forms(SIZES, SIZES)
# Two warps side by side.
WIDE = replace(SIZES, packed=32, shared=8000)


def executed(graph: Graph, forms: Forms, scheme: Scheme, seed: int) -> tuple[Result, Params]:
    params = init_params(graph.network, seed % 1000)
    executor = CudaExecutor(SimulatedDevice(seed, forms, blocks=2), scheme)
    executor.prepare(graph.network, params)
    rng = np.random.default_rng(seed)
    return executor.run(plan(graph, random_schedule(rng, graph))), params


def run(graph: Graph, forms: Forms, scheme: Scheme, seed: int) -> float:
    """How far the executor's values are from the reference's."""
    result, params = executed(graph, forms, scheme, seed)
    return error(result, reference(graph, params))


def on_tensor_cores(network: Network, forms: Forms) -> int:
    """How many of the plan's parts multiply on tensor cores."""
    return sum("mma(" in text for text in device_program(network, forms).text.split("\ndef part")[1:])


@pytest.mark.parametrize(
    ("gates", "size", "lanes", "sizes", "scheme"),
    [
        (1, 1, 1, SIZES, "batch"),
        (2, 21, 35, SIZES, "plan"),
        (3, 13, 17, WIDE, "plan"),
        (4, 46, 5, SIZES, "batch"),
        (2, 9, 40, replace(WIDE, threads=128), "batch"),
        (1, 5, 40, replace(WIDE, threads=256, shared=12000), "plan"),
    ],
)
def test_equals_reference_at_odd_sizes(
    gates: int, size: int, lanes: int, sizes: Sizes, scheme: Scheme
) -> None:
    # some gates are fed by one operand, some by two; elements, units and lanes end within fragments
    graph, network = one_type(gates_cell(gates, size), lanes)
    assert on_tensor_cores(network, Forms(sizes, sizes)) >= 2
    assert run(graph, Forms(sizes, sizes), scheme, 1) < 2e-6


@given(st.integers(0, 2**32 - 1), st.sampled_from(["batch", "plan"]))
@settings(max_examples=6)
def test_equals_reference(seed: int, scheme: Scheme) -> None:
    rng = np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(builder, "SHAPES", ((5,), (18,), (18,), (37,), (18, 7)))
        graph = random_graph(rng, random_network(rng), 6)
    result, params = executed(graph, FORMS, scheme, seed)
    check(result, graph, params)


# ---- which steps


def test_batches_of_many_lanes_run_on_tensor_cores_where_there_are_any() -> None:
    _, network = one_type(lstm(64), 3)
    with_them, without = (
        device_program(network, HOPPER),
        device_program(network, forms_for(132, False)),
    )
    assert "mma(" not in without.text.partition("def ")[2]
    for mine, other in ((with_them.batch, without.batch), (with_them.plan, without.plan)):
        assert mine.limit.tolist() == other.limit.tolist()
        assert mine.limit.shape[1] == 3
    parts = re.split(r"\ndef step\d+", with_them.text.partition("\ndef part")[0])[1:]
    assert ["mma(" in text for text in parts] == [False, False, True]


@pytest.mark.parametrize(
    ("arch", "wanted", "used"),
    [
        ((9, 0), True, True),
        ((8, 0), True, True),
        ((9, 0), False, False),
        ((8, 9), True, False),
        ((7, 0), True, False),
    ],
)
def test_they_are_used_where_they_are_there_and_wanted(
    arch: tuple[int, int], wanted: bool, used: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for attribute, number in zip((75, 76), arch, strict=True):
        monkeypatch.setitem(fakedriver._ATTRIBUTES, attribute, number)
    monkeypatch.setattr(available, "open_device", lambda: Device(Driver(FakeLibrary())))
    executor: Any = get_executor("cuda", tensor_cores=wanted)
    forms = executor._backend.forms
    assert (forms.batch.tensor, forms.plan.tensor) == (used, used)


def test_tiles_that_registers_or_shared_memory_do_not_hold_are_not_chosen() -> None:
    sizes = HOPPER.batch
    assert tensor_tile(sizes, 5, 5) == TensorTile(2, 2, 2)
    assert tensor_tile(sizes, 4, 4) == TensorTile(2, 2, 2)
    assert tensor_tile(sizes, 1, 1) == TensorTile(2, 2, 4)
    assert tensor_tile(sizes, 6, 6) == TensorTile(2, 2, 1)
    assert tensor_tile(sizes, 7, 7) is None  # shared memory
    assert tensor_tile(sizes, 11, 1) is None  # registers
    assert tensor_tile(replace(sizes, tensor=False), 4, 4) is None
    assert tensor_tile(replace(sizes, packed=8), 4, 4) is None
    assert tensor_tile(replace(sizes, threads=32), 4, 4) is None
    for gates in range(1, 6):
        tile = tensor_tile(HOPPER.plan, gates, gates)
        assert tile is not None and tile.threads == HOPPER.plan.threads


def test_rows_that_begin_within_a_vector_are_left_to_other_tiles() -> None:
    b = CellBuilder()
    x = b.input((12,))
    parts = [b.op("slice", x, attr=(first, first + 4), shape=(4,)) for first in (4, 3)]
    cells = [b.op("matmul", b.param((5, 4)), part, shape=(5,)) for part in parts]
    graph, network = one_type(b.cell("parts", [b.op("tanh", c, shape=(5,)) for c in cells]), 3)
    assert run(graph, FORMS, "plan", 1) < 1e-5
    assert on_tensor_cores(network, FORMS) == 0
    b = CellBuilder()
    part = b.op("slice", b.input((12,)), attr=(4, 8), shape=(4,))
    cell = b.cell("part", [b.op("tanh", b.op("matmul", b.param((5, 4)), part, shape=(5,)), shape=(5,))])
    graph, network = one_type(cell, 3)
    assert on_tensor_cores(network, FORMS) == 1
    assert run(graph, FORMS, "plan", 1) < 1e-5


# ---- barriers and waits

NEEDED = re.compile(r"^ *(cuda\.syncthreads|end_copies|few_copies_left)\(\)")


def two_operands() -> Cell:
    """A gate of an operand of five slabs and one of two."""
    b = CellBuilder()
    x, y = b.input((72,)), b.input((20,))
    products = [b.op("matmul", b.param((8, n)), value, shape=(8,)) for value, n in ((x, 72), (y, 20))]
    return b.cell("two", [b.op("tanh", b.op("add", *products, shape=(8,)), shape=(8,))])


GRAPH, NETWORK = one_type(two_operands(), 70)
NARROW = replace(SIZES, sums=8)
TEXT = device_program(NETWORK, Forms(NARROW, NARROW)).text
LINES = TEXT.split("\n")
PART = next(i for i, line in enumerate(LINES) if line.startswith("def part"))
END = next(i for i, line in enumerate(LINES) if line.startswith("def batch"))
LINES_NEEDED = [i for i in range(PART, END) if NEEDED.match(LINES[i])]


def run_text(text: str, seed: int) -> None:
    """Run a text's kernel of a whole plan. Raises for a wrong result, and what the simulation raises."""

    def mutated(_: str, forms: Forms, plan_shared: int) -> Kernels:
        return load_kernels(text, forms, plan_shared)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executor_module, "load_kernels", mutated)
        assert run(GRAPH, Forms(NARROW, NARROW), "plan", seed) < 2e-6


def test_right_in_any_order() -> None:
    assert len(LINES_NEEDED) == 11
    for seed in range(2):
        run_text(TEXT, seed)


@pytest.mark.parametrize("line", LINES_NEEDED)
def test_no_barrier_and_no_wait_can_be_left_out(line: int) -> None:
    indent = len(LINES[line]) - len(LINES[line].lstrip())
    text = "\n".join([*LINES[:line], " " * indent + "pass", *LINES[line + 1 :]])
    with pytest.raises((AssertionError, IndexError)):
        for seed in range(3):
            run_text(text, seed)


# ---- shared memory


@pytest.mark.parametrize("gates", [1, 3])
@pytest.mark.parametrize("sizes", [SIZES, WIDE])
def test_loads_from_shared_memory_have_no_bank_conflicts(gates: int, sizes: Sizes) -> None:
    loads: dict[tuple[Any, ...], list[tuple[int, int]]] = defaultdict(list)
    times: dict[tuple[Any, ...], int] = defaultdict(int)

    def recorded(load: Callable[..., Any], floats: int) -> Callable[..., Any]:
        def loading(memory: Any, index: Any) -> Any:
            thread = simgrid._me()
            if any(memory.array is array for array in thread.grid.shared.values()):
                frame = sys._getframe(1)
                place = thread.block, thread.warp, frame.f_code, frame.f_lasti, floats
                times[place, thread.number] += 1
                loads[*place, times[place, thread.number]].append((thread.number % 32, int(index)))
            return load(memory, index)

        return loading

    graph, _ = one_type(gates_cell(gates, 16), 20)
    with pytest.MonkeyPatch.context() as patch:
        for name, floats in (("ld2", 2), ("ld4", 4)):
            key = id(getattr(intrinsics, name))
            load: Any = simgrid._REPLACED[key]
            patch.setitem(simgrid._REPLACED, key, recorded(load, floats))
        run(graph, Forms(sizes, sizes), "batch", 1)
    assert {key[4] for key in loads} == {2, 4}
    for (*_, floats, _), places in loads.items():
        at_once = 32 // floats  # threads whose floats are as many as there are banks
        assert len(places) == 32
        for first in range(0, 32, at_once):
            begins = [index for lane, index in places if first <= lane < first + at_once]
            assert len({(begin + k) % 32 for begin in begins for k in range(floats)}) == 32


# ---- accuracy


def product(a: Floats, b: Floats, *, slab: int = 16, small: bool = True) -> Floats:
    """As the kernels compute it: sums cut off within so many elements, rounded between them."""
    (a_large, a_small), (b_large, b_small) = split(a), split(b)
    sums = np.zeros((len(a), b.shape[1]), np.float32)
    for begin in range(0, a.shape[1], slab):
        c = np.zeros_like(sums)
        steps = [slice(k, k + 8) for k in range(begin, min(begin + slab, a.shape[1]), 8)]
        terms = [(left, right, s) for s in steps for left, right in ((a_small, b_large), (a_large, b_small))]
        for left, right, s in [*(terms if small else ()), *((a_large, b_large, s) for s in steps)]:
            c = cut(left[:, s].astype(np.float64) @ right[s].astype(np.float64) + c)
        sums += c
    return sums


def in_float32(a: Floats, b: Floats) -> Floats:
    """Element after element by fused multiply-adds, as the other tiles do."""
    sums = np.zeros((len(a), b.shape[1]), np.float32)
    for k in range(a.shape[1]):
        sums = (sums + a[:, k : k + 1].astype(np.float64) * b[k]).astype(np.float32)
    return sums


@cache
def errors(elements: int, positive: bool) -> dict[str, float]:
    """Of each way to multiply: the root mean square of its errors, over that of the exact result."""
    rng = np.random.default_rng(elements)
    a, b = (rng.normal(size=s).astype(np.float32) for s in ((64, elements), (elements, 48)))
    if positive:
        a, b = np.abs(a), np.abs(b)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    ways = {
        "float32": in_float32(a, b),
        "ours": product(a, b),
        "kept in the core": product(a, b, slab=elements),
        "TF32": product(a, b, small=False),
    }
    scale = np.sqrt(np.mean(exact**2))
    return {name: float(np.sqrt(np.mean((found - exact) ** 2)) / scale) for name, found in ways.items()}


@pytest.mark.parametrize("elements", [64, 256, 1024])
@pytest.mark.parametrize("positive", [False, True])
def test_products_are_as_exact_as_in_float32(elements: int, positive: bool) -> None:
    found = errors(elements, positive)
    assert found["ours"] < found["float32"]
    assert found["TF32"] > 20 * found["float32"]
    assert found["kept in the core"] > 1.5 * found["float32"]


def test_the_kernel_is_as_exact_as_that() -> None:
    b = CellBuilder()
    y = b.op("matmul", b.param((16, 256)), b.input((256,)), shape=(16,))
    graph, network = one_type(b.cell("product", [b.op("identity", y, shape=(16,))]), 32)
    params = init_params(network, 0)
    executor = CudaExecutor(SimulatedDevice(forms=FORMS, blocks=2, races=False), "batch")
    executor.prepare(network, params)
    found = executor.run(plan(graph, once(graph))).value(0, 0)
    exact = reference(graph, params).value(0, 0)
    rms = np.sqrt(np.mean((found - exact) ** 2) / np.mean(exact**2))
    assert rms < errors(256, False)["float32"]
