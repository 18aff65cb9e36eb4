"""Weights held on chip: which, where, by whom; and that their steps compute what the reference does."""

from __future__ import annotations

import linecache
import sys
from dataclasses import replace
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import cuda as typed_cuda
from numba import float32, uint32

from abw.core.base.errors import Span
from abw.core.exec.cuda.executor import CudaExecutor
from abw.core.exec.cuda.image import ITEM
from abw.core.exec.cuda.lowering import device_program
from abw.core.exec.cuda.ondevice import intrinsics
from abw.core.exec.cuda.ondevice.tilewalk import next_tile, own_tile
from abw.core.exec.cuda.stationary_weights import HeldColumn, choose_held, recurrent
from abw.core.exec.cuda.steps import Packed
from abw.core.exec.cuda.text.module import HoldText, load_kernels, module_text
from abw.core.exec.cuda.text.stationary_weights import hold_text
from abw.core.exec.cuda.tiles import HOPPER, forms_for
from abw.core.exec.params import init_params
from abw.core.ir.model import Table
from abw.core.ir.network import Constant, Network, Slot
from abw.core.plan.plan import Plan, plan
from abw.core.policy.rules.depth import Depth
from abw.core.run.workload import open_model, open_networks
from abw.core.spec.load import Overrides
from tests.conftest import ROOT
from tests.core.exec.builder import CellBuilder, error, lstm, make_graph, make_network, reference
from tests.core.exec.builder import random_network as any_network
from tests.core.exec.cuda import simgrid
from tests.core.exec.cuda.simgrid import launch
from tests.core.exec.cuda.simulated import SMALL, SimulatedDevice, aligned

pytestmark = pytest.mark.simulated

cuda: Any = typed_cuda
seeds = st.integers(0, 2**32 - 1)


@cache
def two_lstms(size: int) -> Network:
    """Two types over the same words that follow themselves and each other."""
    table = Table("words", 6, (size,), None, None, Span("test", 1))
    constants = (Constant("table", 0, (size,), 0, 6), Constant("zeros", 0, (size,), 6, 1))
    both = tuple(
        Slot(name, (size,), ((0, output), (1, output)), (1,)) for output, name in enumerate(("h", "c"))
    )
    slots = (Slot("x", (size,), (), (0,)), *both)
    types = [(name, lstm(size), None, slots) for name in ("chars", "words")]
    return make_network(types, (table,), constants, [])


def chains(size: int, lanes: tuple[int, int], steps: int, seed: int) -> Plan:
    """Batches of so many lanes of either type, `steps` of each one after the other; a lane reads any of the
    batches before."""
    rng = np.random.default_rng(seed)
    network = two_lstms(size)
    counts = [n * steps for n in lanes]
    operands: list[list[int]] = []
    for t in range(2):
        for node in range(counts[t]):
            step = node // lanes[t]
            other = int(rng.integers(0, 2)) if step else 0
            first = other * counts[0] + (step - 1) * lanes[other]
            read = first + int(rng.integers(0, lanes[other]))
            states = [network.width * read, network.width * read + 1] if step else [-7, -7]
            operands.append([-1 - int(rng.integers(0, 6)), *states])
    graph = make_graph(network, [0] * counts[0] + [1] * counts[1], operands)
    return plan(graph, Depth().schedule(graph.dag))


@pytest.mark.parametrize(
    ("size", "blocks", "columns", "lanes"),
    [
        (6, 3, 1, (5, 2)),  # a column for each block; units that are no multiple of a column
        (13, 5, 2, (11, 30)),  # two groups and a block that is idle; more tiles of lanes than groups
        (16, 2, 2, (30, 1)),  # one group
        (20, 3, 3, (9, 4)),  # no multiple of a warp's share of the elements
        (6, 3, 1, (60, 2)),  # so many lanes that their step is one that reads its weights
        (20, 2, 0, (3, 9)),  # fewer blocks than columns: not held
    ],
)
def test_equals_reference(size: int, blocks: int, columns: int, lanes: tuple[int, int]) -> None:
    forms = replace(SMALL, plan=replace(SMALL.plan, blocks=blocks, held=8192))
    planned = chains(size, lanes, 3, size)
    network = planned.graph.network
    held = choose_held(network, device_program(network, forms).cells, forms.plan)
    assert [one.column.columns for one in held] == [columns] * 2 * (columns > 0)
    params = init_params(network, 0)
    executor = CudaExecutor(device := SimulatedDevice(1, forms), "plan")
    executor.prepare(network, params)
    assert error(executor.run(planned), reference(planned.graph, params)) < 1e-5
    # hoisted products, then a phase for both types' batches of a step
    assert len(device.used) == 2 + 6
    texts = device_program(network, forms).text.split("\ndef part")[1:]
    own = {texts[kernel].partition("(")[2].startswith("staging") for kernel in device.used[2:]}
    assert own == ({True, False} if max(lanes) > 48 else {columns > 0})


def test_what_does_not_fit_is_read_as_it_is_used() -> None:
    planned = chains(13, (4, 4), 2, 3)
    network, params = planned.graph.network, init_params(planned.graph.network, 0)
    roomy = replace(SMALL.plan, shared=2048)
    held = choose_held(network, device_program(network, SMALL).cells, replace(roomy, held=8192))
    one = held[0].column.floats
    for room, count in ((0, 0), (one, 1), (2 * one, 2)):
        forms = replace(SMALL, plan=replace(roomy, held=room))
        program = device_program(network, forms)
        assert program.plan_shared == 4 * (2048 + count * one)
        assert np.count_nonzero(program.plan.held.any(axis=1)) == count
        assert not program.batch.held.any()
        executor = CudaExecutor(SimulatedDevice(2, forms), "plan")
        executor.prepare(network, params)
        assert error(executor.run(planned), reference(planned.graph, params)) < 1e-5


@given(seeds)
@settings(max_examples=5)
def test_runs_are_equal_bit_for_bit(seed: int) -> None:
    """Whatever the order in which threads run, and whatever was in shared memory."""
    planned = chains(7, (5, 9), 2, seed)
    params = init_params(planned.graph.network, 0)
    found = []
    for order in (None, seed):
        executor = CudaExecutor(SimulatedDevice(order, races=False), "plan")
        executor.prepare(planned.graph.network, params)
        result = executor.run(planned)
        found.append([result.value(t, o).copy() for t in range(2) for o in range(2)])
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))


def test_types_that_follow_themselves() -> None:
    def brute(network: Network) -> set[int]:
        after = {
            t: {p for slot in kind.slots for p, _ in slot.producers} for t, kind in enumerate(network.types)
        }
        for _ in after:
            after = {t: before.union(*(after[p] for p in before)) for t, before in after.items()}
        return {t for t, before in after.items() if t in before}

    for seed in range(60):
        network = any_network(np.random.default_rng(seed))
        assert recurrent(network) == brute(network)
    assert recurrent(two_lstms(6)) == {0, 1}


@pytest.mark.parametrize(
    ("spec", "hidden", "held"),
    [
        ("treelstm", 256, [(2, 32)]),
        ("treelstm", 512, [(2, 64)]),
        ("lattice", 512, [(2, 64), (2, 64)]),
        ("treelstm-2type", 256, [(2, 32), (2, 32)]),
        ("treelstm-2type", 512, [(1, 128), (1, 128)]),  # both fit when columns are narrow
    ],
)
def test_what_an_h200_holds(spec: str, hidden: int, held: list[tuple[int, int]]) -> None:
    model = open_model(ROOT / "specs" / f"{spec}.yaml", Overrides(dims={"hidden": hidden}))
    network = open_networks(model, "cell").network
    program = device_program(network, HOPPER)
    found = choose_held(network, program.cells, HOPPER.plan)
    assert [(one.column.across, one.column.columns) for one in found] == held
    assert program.plan_shared <= 227 << 10
    ends = sorted((one.place, one.place + one.column.floats) for one in found)
    assert ends[0][0] >= HOPPER.plan.shared
    assert all(a[1] <= b[0] for a, b in pairwise(ends))
    small = forms_for(40, 64 << 10, False)
    assert device_program(network, small).plan_shared <= 64 << 10


# tiles


@given(
    st.integers(1, 12),
    st.lists(st.tuples(st.integers(1, 5), st.integers(1, 9), st.booleans()), min_size=1, max_size=5),
)
def test_every_tile_is_one_blocks(blocks: int, drawn: list[tuple[int, int, bool]]) -> None:
    """Each tile of free items is taken once; each of held ones by every column of one group of blocks."""
    items, words, first = [], [7], 0
    for columns, high, free in drawn:
        columns = 1 if free else min(columns, blocks)
        wide = 3 if free else columns
        words += [0, 0, first, high * wide, 0, 0, columns, 0, 0, 0]
        items.append((columns, high * wide))
        first += high * wide
    end = len(words)
    out = np.full((blocks, 1 + 2 * first), -1, np.int64)

    def kernel(words, out, end, blocks):
        block = uint32(cuda.blockIdx.x)
        at, tile = own_tile(words, uint32(1), end, block, blocks)
        n = 0
        while at < end:
            out[block, n] = at
            out[block, n + 1] = tile
            n += 2
            at, tile = next_tile(words, at, tile, end, block, blocks)

    launch(
        kernel, blocks, 1, (np.array(words, np.uint32), out, np.uint32(end), np.uint32(blocks)), races=False
    )
    taken: dict[tuple[int, int], list[int]] = {}
    for block, row in enumerate(out.tolist()):
        pairs = [(row[n], row[n + 1]) for n in range(0, len(row) - 1, 2) if row[n] >= 0]
        assert pairs == sorted(pairs)
        for at, tile in pairs:
            taken.setdefault(((at - 1) // ITEM, tile), []).append(block)
    for i, (columns, tiles) in enumerate(items):
        for tile in range(tiles // columns):
            owners = taken.pop((i, tile))
            assert [b % columns for b in owners] == list(range(columns))
            assert len({b // columns for b in owners}) == 1
    assert not taken


# places in shared memory


@given(
    st.integers(1, 5),
    st.integers(1, 2),
    st.integers(1, 21),
    st.lists(st.integers(1, 6), min_size=1, max_size=2),
)
@settings(max_examples=20)
def test_warps_read_the_weights_they_need(gates: int, across: int, units: int, fours: list[int]) -> None:
    """By the layout that `hold` describes, from a packing that says of each weight which it is."""
    cell = weights_of(gates, units, fours)
    column = HeldColumn(cell, across)
    assert column.fits
    number = iter(range(1, 10**6))
    expected = {}
    packed = np.zeros(cell.floats, np.float32)
    for b in range(0, -(-units // cell.block) * cell.block, cell.block):
        at = b // cell.block * cell.block_floats
        at += gates * cell.block * cell.biased
        for element in range(4 * sum(fours)):
            for gate in range(gates):
                for unit in range(b, b + cell.block):
                    packed[at] = expected[element, gate, unit] = next(number)
                    at += 1
    whole: Any = load_kernels(module_text([], [], [HoldText(hold_text(column, 32), 4, 8)]), HOPPER, 0).plan
    hold = whole.py_func.__globals__["hold0"]

    def kernel(weights, out):
        shared = cuda.shared.array(0, float32)
        hold(weights, uint32(4), uint32(8), shared)
        cuda.syncthreads()
        for k in range(cuda.threadIdx.x, len(shared), 32):
            out[cuda.blockIdx.x, k] = shared[k]

    out = np.zeros((column.columns, 8 + column.floats), np.float32)
    weights = aligned(np.concatenate([np.zeros(4, np.float32), packed]))
    launch(kernel, column.columns, 32, (weights, out), shared=4 * out.shape[1])
    for c in range(column.columns):
        for turn in range(column.rounds):
            for k in range(4):
                for thread in range(column.split * column.quads):
                    four = turn * column.split + thread // column.quads
                    gate, beside = divmod(thread % column.quads, across)
                    at = 8 + ((turn * 4 + k) * column.split * column.quads + thread) * 4
                    for e in range(4):
                        unit = (c * across + beside) * 4 + e
                        if four < sum(fours) and unit < units:
                            assert out[c, at + e] == expected[4 * four + k, gate, unit]


def weights_of(gates: int, units: int, fours: list[int]) -> Packed:
    """The weights of a step whose operands all feed all gates."""
    from abw.core.exec.cuda.steps import Segment
    from abw.core.exec.lower.stages import Gate, Part

    segments = tuple(Segment(Part(n, 0, 4 * f), 0, tuple(range(gates))) for n, f in enumerate(fours))
    return Packed(tuple(Gate(n, (), ()) for n in range(gates)), segments, True, units, 16)


# banks


@pytest.mark.parametrize("gates", [1, 2, 3, 4, 5])
def test_products_and_parts_meet_in_no_bank(gates: int) -> None:
    """Of the eight threads that shared memory serves at once, by what each of their accesses touches."""
    taken: dict[tuple[Any, ...], dict[int, int]] = {}
    times: dict[tuple[Any, ...], int] = {}

    def watched(access: Any) -> Any:
        def touch(memory: Any, index: Any, *values: Any) -> Any:
            thread, frame = simgrid._me(), sys._getframe(1)
            line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
            if memory.array is thread.grid.shared.get((thread.block, None)):
                place = thread.block, line, frame.f_lineno, thread.number // 8
                number = times[(*place, thread.number)] = times.get((*place, thread.number), 0) + 1
                taken.setdefault((*place, number), {})[thread.number] = int(index)
            return access(memory, index, *values)

        return touch

    b = CellBuilder()
    h = b.input((24,))
    sums = [b.op("matmul", b.param((24, 24)), h, shape=(24,)) for _ in range(gates)]
    both = sums[0]
    for total in sums[1:]:
        both = b.op("mul", both, b.op("tanh", total, shape=(24,)), shape=(24,))
    cell = b.cell("one", [b.op("tanh", both, shape=(24,))])
    constants = (Constant("zeros", 0, (24,), 0, 1),)
    network = make_network([("one", cell, None, (Slot("h", (24,), ((0, 0),), (0,)),))], (), constants, [])
    graph = make_graph(network, [0] * 22, [[-1]] * 11 + [[i] for i in range(11)])
    forms = replace(SMALL, plan=replace(SMALL.plan, held=8192))
    executor = CudaExecutor(SimulatedDevice(1, forms, races=False), "plan")
    executor.prepare(network, params := init_params(network, 0))
    with pytest.MonkeyPatch.context() as patch:
        for name in ("ld4", "st4"):
            key = id(getattr(intrinsics, name))
            patch.setitem(simgrid._REPLACED, key, watched(simgrid._REPLACED[key]))
        result = executor.run(plan(graph, Depth().schedule(graph.dag)))
    assert error(result, reference(graph, params)) < 1e-5
    roles = set()
    for (_, line, *_), places in taken.items():
        role = next((role for role in ("at_row", "at_weight", "sums[") if role in line), None)
        if role is not None:
            roles.add(role)
            vectors = {index // 4 for index in places.values()}
            assert len({vector % 8 for vector in vectors}) == len(vectors), line
    assert len(roles) == 3
