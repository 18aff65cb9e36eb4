"""Memory that is given again: nothing that is needed is lost, and little is taken beyond what must be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abw.core.base.errors import CheckError
from abw.core.exec.blas.executor import BlasExecutor
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.cpu.partition import sort
from abw.core.exec.interface import Executor
from abw.core.exec.params import init_params
from abw.core.exec.reference import ReferenceExecutor
from abw.core.graph.graph import Graph
from abw.core.plan.check import check_plan
from abw.core.plan.lifetimes import _pack
from abw.core.plan.plan import GIVEN_AGAIN, Plan, outputs_to_keep, plan, results_of
from abw.core.policy.check import check_schedule
from abw.core.policy.rules.critical import Critical
from abw.core.run.workload import load_workload, open_model
from abw.core.spec.load import Overrides
from tests.core.exec.builder import check_values, random_graph, random_network, random_schedule
from tests.core.exec.cpu.test_threads import instances_graph
from tests.core.plan.test_plan import chains

Ints = np.ndarray

seeds = st.integers(0, 2**32 - 1)


def some_values(rng: np.random.Generator, graph: Graph) -> Ints:
    """References to keep: none, some or all outputs of some nodes, and constants among them."""
    width = graph.network.width
    type_of = np.repeat(np.arange(len(graph.network.types)), np.diff(graph.type_ptr))
    all_values = [
        v * width + o for v, t in enumerate(type_of) for o in range(len(graph.network.types[t].outputs))
    ]
    share = rng.choice([0.0, 0.2, 0.5, 1.0])
    kept = [value for value in all_values if rng.random() < share]
    constants = [r for r in graph.operand.tolist() if -(2**30) < r < 0][:3]
    return rng.permutation(np.array(kept + constants, np.int32)).astype(np.int32)


def live_rows(plan: Plan, keep: Ints) -> Ints:
    """The most rows of each arena that are needed at one time by any plan of this schedule."""
    graph, schedule, arenas = plan.graph, plan.schedule, plan.arenas
    width, batches = graph.network.width, len(schedule)
    change = np.zeros((len(plan.rows), batches + 1), np.int64)
    batch_of = np.empty(len(graph), np.int64)
    for b in range(batches):
        batch_of[schedule.nodes[schedule.ptr[b] : schedule.ptr[b + 1]]] = b
    last = np.repeat(batch_of, width)
    for v in range(len(graph)):
        for read in graph.operand[graph.operand_ptr[v] : graph.operand_ptr[v + 1]].tolist():
            for value in graph.values_of(read):
                if value >= 0:
                    last[value] = max(last[value], batch_of[v])
    last[keep[keep >= 0]] = batches
    for v in range(len(graph)):
        t = int(np.searchsorted(graph.type_ptr, v, side="right")) - 1
        for o in range(len(graph.network.types[t].outputs)):
            arena = arenas.output_arena[t, o]
            change[arena, batch_of[v]] += 1
            if last[v * width + o] < batches:
                change[arena, last[v * width + o] + 1] -= 1
    return np.asarray(arenas.head + np.cumsum(change, axis=1)[:, :batches].max(axis=1, initial=0))


@given(seeds, st.integers(0, 40))
def test_random_plans_keep_what_they_shall(seed: int, nodes: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, random_network(rng), nodes)
    schedule, keep = random_schedule(rng, graph), some_values(rng, graph)
    made = plan(graph, schedule, keep)
    check_schedule(graph.dag, made.schedule)
    check_plan(graph, made, keep)
    whole = plan(graph, schedule)
    assert (made.rows <= whole.rows).all()
    assert (made.rows >= live_rows(made, keep)).all()
    assert made.product_flops == whole.product_flops


@given(seeds, st.integers(1, 40))
def test_all_is_kept_of_what_is_small(seed: int, nodes: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, random_network(rng), nodes)
    made = plan(graph, random_schedule(rng, graph))
    rows = (made.rows - made.arenas.head).astype(np.int64)
    for arena, _, given_rows in made.given:
        rows[arena] -= len(given_rows)
    values = 4 * int(rows @ made.arenas.row_floats)
    assert outputs_to_keep(graph, GIVEN_AGAIN // values) is None
    found = outputs_to_keep(graph, GIVEN_AGAIN // values + 1)
    assert found is not None and found.tolist() == results_of(graph).tolist()


@given(seeds, st.integers(2, 4))
def test_parts_share_no_rows_within_a_section(seed: int, parts: int) -> None:
    rng = np.random.default_rng(seed)
    graph = instances_graph(rng)
    schedule = sort(graph, random_schedule(rng, graph), parts)
    assert schedule is not None
    assert schedule.split is not None
    keep = some_values(rng, graph)
    made = plan(graph, schedule, keep)
    check_schedule(graph.dag, made.schedule)
    check_plan(graph, made, keep)
    assert made.schedule.split is schedule.split
    for b in range(len(schedule)):
        for p in range(parts):
            lanes = slice(*(schedule.ptr[b] + schedule.split[b, p : p + 2]))
            assert sorted(made.schedule.nodes[lanes]) == sorted(schedule.nodes[lanes])


EXECUTORS: dict[str, Callable[[], Executor]] = {
    "reference": ReferenceExecutor,
    "blas": BlasExecutor,
    "cpu": CpuExecutor,
}


@pytest.mark.parametrize("name", EXECUTORS)
@settings(max_examples=15)
@given(seeds)
def test_executors_give_what_is_kept_and_nothing_else(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, random_network(rng), int(rng.integers(1, 40)))
    params = init_params(graph.network, seed)
    executor = EXECUTORS[name]()
    executor.prepare(graph.network, params, 1)
    schedule, keep = random_schedule(rng, graph), some_values(rng, graph)
    expected = ReferenceExecutor()
    expected.prepare(graph.network, params)
    right = expected.run_graph(graph)
    for _ in range(2):
        result = executor.run(plan(graph, schedule, keep))
        for value in keep.tolist():
            handle = np.array([value])
            check_values(result.values(handle), right, handle, graph, params)
        width = graph.network.width
        lost = [v * width for v in range(len(graph)) if v * width not in keep]
        if lost:
            with pytest.raises(RuntimeError, match=f"node {lost[0] // width} .* was not kept"):
                result.values(np.array(lost[:1]))


def test_a_chain_needs_two_steps_at_a_time() -> None:
    graph, schedule = chains([[0, 1, 2, 3, 4, 5, 0, 1]] * 5)
    last = np.array([2 * 7, 2 * 15, 2 * 23, 2 * 31, 2 * 39], np.int32)
    made = plan(graph, schedule, last)
    check_plan(graph, made, last)
    # beside its row of zeros each of h and c has those of a step and of the one before
    assert sorted(made.rows.tolist()) == [6, 11, 11]
    assert (made.row >= 0).sum() == 5


def test_what_ends_early_lies_behind() -> None:
    # the longer chains go on: the others' rows are the last of a step, and free for the next
    graph, schedule = chains([[0], [0, 1], [0], [0, 1, 2], [0, 1, 2]])
    made = plan(graph, schedule, np.zeros(0, np.int32))
    check_plan(graph, made, np.zeros(0, np.int32))
    first = made.schedule.nodes[:5].tolist()
    assert sorted(first[3:]) == [0, 3]
    assert made.rows.tolist() == live_rows(made, np.zeros(0, np.int32)).tolist()


def test_the_checker_catches_rows_given_too_early() -> None:
    graph, schedule = chains([[0, 1, 2]] * 2)
    keep = np.array([4], np.int32)
    made = plan(graph, schedule, keep)
    check_plan(graph, made, keep)
    with pytest.raises(CheckError, match="not kept where `row` says"):
        check_plan(graph, made, np.array([4, 8], np.int32))
    with pytest.raises(CheckError, match="rows of values that are not kept"):
        check_plan(graph, replace(made, row=plan(graph, schedule).row), keep)
    base = made.base.copy()
    base[1, 0] = base[0, 0]
    with pytest.raises(CheckError, match="overwrites what its launch reads"):
        check_plan(graph, replace(made, base=base), keep)


def test_the_checker_catches_parts_that_overwrite_each_other() -> None:
    graph, schedule = chains([[0, 1, 2, 3, 4, 5]] * 4)
    graph = replace(graph, instance=np.repeat(np.arange(4), 6).astype(np.int32), instances=4)
    split = sort(graph, schedule, 2)
    assert split is not None
    keep = np.zeros(0, np.int32)
    made = plan(graph, split, keep)
    check_plan(graph, made, keep)
    assert len(made.sections) > 3
    # a block of six rows, of which each part has another half than of the block that lay there before
    base = made.base.copy()
    base[2:, 0] -= 1
    with pytest.raises(CheckError):
        check_plan(graph, replace(made, base=base), keep)
    shifted = replace(made, sections=np.array([0, len(schedule)], np.int32))
    assert split.split is not None
    swapped = split.split.copy()
    swapped[3:, 1] = 1
    with pytest.raises(CheckError, match="same section"):
        check_plan(graph, replace(shifted, schedule=replace(made.schedule, split=swapped)), keep)


# When it begins, when its rows are free, how many it has.
Block = tuple[int, int, int]


def packed(blocks: list[Block]) -> tuple[list[int], int]:
    """What `_pack` does with blocks that begin one after the other."""
    count = len(blocks)
    ends: list[list[int]] = [[] for _ in range(count)]
    for b, (_, end, _) in enumerate(blocks):
        if end < count:
            ends[end].append(b)
    ptr = np.cumsum([0, *(size for *_, size in blocks)]).astype(np.int32)
    order = np.array([b for group in ends for b in group], np.int32)
    free_ptr = np.cumsum([0, *map(len, ends)]).astype(np.int32)
    rows, base = np.zeros(1, np.int32), np.full((count, 1), -1, np.int32)
    _pack(
        (np.zeros(count, np.int32), ptr),
        1,
        (np.zeros((1, 1), np.int32), np.ones(1, np.int32)),
        np.arange(count + 1, dtype=np.int32),
        (free_ptr, order, ptr[order], ptr[order + 1]),
        (np.full(1, -1, np.int32), *np.empty((3, count), np.int32)),
        rows,
        base,
    )
    return base[:, 0].tolist(), int(rows[0])


def overlap(a: Block, b: Block) -> bool:
    return a[0] <= b[1] and b[0] <= a[1]


def fewest_rows(blocks: list[Block]) -> int:
    """The least height in which blocks can lie: one order of laying each as low as it can is best."""
    best = sum(size for *_, size in blocks)
    for order in permutations(range(len(blocks))):
        laid: dict[int, int] = {}
        for b in order:
            others = sorted((laid[o], laid[o] + blocks[o][2]) for o in laid if overlap(blocks[o], blocks[b]))
            at = 0
            for low, high in others:
                if at + blocks[b][2] <= low:
                    break
                at = max(at, high)
            laid[b] = at
        best = min(best, max(laid[b] + blocks[b][2] for b in order))
    return best


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(1, 6)), min_size=1, max_size=6))
def test_packing_against_the_best(drawn: list[tuple[int, int]]) -> None:
    blocks = [(b, b + length, size) for b, (length, size) in enumerate(drawn)]
    base, rows = packed(blocks)
    for i, a in enumerate(blocks):
        assert 0 <= base[i] <= rows - a[2]
        for j in range(i):
            if overlap(a, blocks[j]):
                assert base[i] + a[2] <= base[j] or base[j] + blocks[j][2] <= base[i]
    live = max(sum(b[2] for b in blocks if b[0] <= t <= b[1]) for t in range(len(blocks)))
    best = fewest_rows(blocks)
    assert live <= best <= rows <= sum(b[2] for b in blocks)
    # best fit without a look ahead: never more than this on blocks so few and small
    assert rows <= 2 * best


def test_a_hole_at_the_end_grows() -> None:
    # 0 and 1 lie side by side; 1 ends, and a larger block takes its place and goes beyond
    base, rows = packed([(0, 3, 2), (1, 1, 2), (2, 3, 3), (3, 3, 1)])
    assert base == [0, 2, 2, 5]
    assert rows == 6


def test_the_smallest_hole_is_taken() -> None:
    base, rows = packed([(0, 2, 4), (1, 5, 1), (2, 2, 2), (3, 5, 1), (4, 5, 2), (5, 5, 4)])
    assert base == [0, 4, 5, 5, 0, 6]
    assert rows == 10


REAL = {
    "bilstm": "tags/dev.txt",
    "lstm-nmt": "pairs/tst2012.en-vi.txt",
    "treelstm": "trees/train.txt",
    "treelstm-2type": "trees/train.txt",
    "mvrnn": "trees/train.txt",
    "lattice": "lattice/train.txt",
    "lattice-gru": "lattice/train.txt",
}


@pytest.mark.parametrize("spec", REAL)
def test_real_data(spec: str, root: Path, shared_data: Path) -> None:
    overrides = Overrides(data=shared_data / REAL[spec], batch=32, limit=32, dims={"hidden": 8})
    workload = load_workload(open_model(root / "specs" / f"{spec}.yaml", overrides), "cell")
    graph = workload.graph(0, 32)
    schedule, keep = Critical().schedule(graph.dag), results_of(graph)
    made, whole = plan(graph, schedule, keep), plan(graph, schedule)
    check_plan(graph, made, keep)
    head, floats = made.arenas.head, made.arenas.row_floats
    taken, least = (int((rows - head) @ floats) for rows in (made.rows, live_rows(made, keep)))
    assert taken <= 1.1 * least
    assert taken < int((whole.rows - head) @ floats)
    assert made.counts.memory_kernels <= 1.03 * whole.counts.memory_kernels
