"""Plans: random graphs pass the checker, planted faults do not, counts are what they say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.base.errors import CheckError, Span
from abw.core.cell.layout import CONTIGUOUS, COPIED
from abw.core.graph.graph import Graph
from abw.core.ir.model import Table
from abw.core.ir.network import Constant, Slot
from abw.core.plan.arenas import arenas_of
from abw.core.plan.check import check_plan
from abw.core.plan.counts import programs_of
from abw.core.plan.kernels import GATHERED
from abw.core.plan.plan import Plan, plan
from abw.core.policy.schedule import Schedule
from tests.core.exec.builder import (
    fused_graph,
    lstm,
    make_graph,
    make_network,
    random_graph,
    random_network,
    random_schedule,
)
from tests.core.exec.corners import words_network

seeds = st.integers(0, 2**32 - 1)


def chains(words: list[list[int]]) -> tuple[Graph, Schedule]:
    """One chain a row of words, and the schedule that takes the chains' steps together."""
    operands: list[list[int]] = []
    steps: dict[int, list[int]] = {}
    for row in words:
        for i, word in enumerate(row):
            before = 2 * (len(operands) - 1)
            operands.append([-1 - word, *((before, before + 1) if i else (-7, -7))])
            steps.setdefault(i, []).append(len(operands) - 1)
    graph = make_graph(words_network(), [0] * len(operands), operands)
    ptr = np.cumsum([0, *(len(nodes) for nodes in steps.values())]).astype(np.int32)
    nodes = np.array([v for group in steps.values() for v in group], np.int32)
    return graph, Schedule(np.zeros(len(steps), np.int32), ptr, nodes)


@given(seeds, st.integers(0, 30), st.booleans())
def test_random_plans_pass_the_checker(seed: int, nodes: int, fused: bool) -> None:
    rng = np.random.default_rng(seed)
    graph = fused_graph(rng, nodes) if fused else random_graph(rng, random_network(rng), nodes)
    made = plan(graph, random_schedule(rng, graph))
    check_plan(graph, made)
    assert made.counts == recount(graph, made)


def recount(graph: Graph, made: Plan) -> object:
    """The counts again, batch by batch."""
    kernels, floats, launches = 0, 0, 0
    for b, t in enumerate(made.schedule.type.tolist()):
        program = programs_of(graph.network).programs[t]
        lanes = int(made.schedule.ptr[b + 1] - made.schedule.ptr[b])
        launches += len(program.batches) if program else len(graph.network.types[t].outputs)
        for o in (o for batch in program.batches for o in batch.operands) if program else ():
            if program and o.status == COPIED:
                kernels += 1
                floats += lanes * len(o.values) * int(np.prod(program.cell.shape_of(o.values[0])))
        for s, slot in enumerate(graph.network.types[t].slots):
            k = made.operand_ptr[b] + s
            launches += program is not None and bool(made.list_ptr[k] >= 0)
            if made.status[k] != CONTIGUOUS or (program and program.staged[s] and made.list_ptr[k] < 0):
                kernels += 1
                floats += int(made.index_ptr[k + 1] - made.index_ptr[k]) * int(np.prod(slot.shape))
    return type(made.counts)(len(made.schedule), launches, kernels, 4 * floats)


def test_chains_are_contiguous_where_they_go_on_together() -> None:
    graph, schedule = chains([[0, 1], [1, 1], [5, 1]])
    made = plan(graph, schedule)
    check_plan(graph, made)
    # step 0: words 0, 1, 5; zeros for all. Step 1: one word for all; h and c of step 0, in order
    assert made.status.tolist() == [GATHERED, 2, 2, 2, CONTIGUOUS, CONTIGUOUS]
    assert made.stride.tolist()[1:] == [0, 0, 0, 1, 1]
    # h and c have arenas of their own, each with its row of zeros
    assert sorted(made.rows.tolist()) == [6, 7, 7]
    assert made.base.tolist() == [[1, 1], [4, 4]]
    assert made.product_flops == 6 * 8 * 2 * 9
    # c is staged: its contiguous operand is copied as well
    assert made.counts.memory_kernels == 5
    assert made.counts.bytes_moved == 5 * 3 * 3 * 4


def test_values_that_flow_into_one_slot_share_an_arena() -> None:
    constants = (Constant("table", 0, (3,), 0, 4), Constant("zeros", 0, (3,), 4, 1))
    table = Table("words", 4, (3,), None, None, Span("test", 1))
    cell = lstm(3)
    mixed = Slot("x", (3,), ((1, 0),), (1, 0))
    others = tuple(Slot(n, (3,), (), (1,)) for n in "hc")
    network = make_network(
        [("a", cell, None, (mixed, *others)), ("b", cell, None, (Slot("x", (3,), (), (1,)), *others))],
        (table,),
        constants,
        [],
    )
    arenas = arenas_of(network)
    a = arenas.slot_arena[0, 0]
    assert arenas.output_arena[1, 0] == a
    assert arenas.output_arena[1, 1] != a
    # the table's rows first, then the zeros
    assert arenas.constant_row[a].tolist() == [0, 4]
    assert arenas.head[a] == 5
    assert arenas_of(network) is arenas


def test_an_empty_graph_and_one_node() -> None:
    graph = make_graph(words_network(), [], [])
    empty = Schedule(np.zeros(0, np.int32), np.zeros(1, np.int32), np.zeros(0, np.int32))
    made = plan(graph, empty)
    check_plan(graph, made)
    assert made.counts.batches == 0
    graph, schedule = chains([[3]])
    made = plan(graph, schedule)
    check_plan(graph, made)
    # one row is always contiguous; c is staged
    assert made.counts.memory_kernels == 1


def changed(array: Any, at: Any, value: Any) -> Any:  # noqa: ANN401
    copy = array.copy()
    copy[at] = value
    return copy


def test_the_checker_catches_a_launch_that_reads_its_own_results() -> None:
    graph, schedule = chains([[0, 1], [1, 1], [5, 1]])
    with pytest.raises(CheckError, match="reads a row not written yet"):
        check_plan(graph, plan(graph, replace(schedule, launch_ptr=np.array([0, 2], np.int32))))


FAULTS: dict[str, Callable[[Plan], Plan]] = {
    "reads other values": lambda p: replace(p, index=changed(p.index, [0, 1], p.index[[1, 0]])),
    "reads a row not written yet": lambda p: replace(p, index=changed(p.index, 3, 4)),
    "a row outside the arena": lambda p: replace(p, index=changed(p.index, 0, 99)),
    "overwrites what its launch reads": lambda p: replace(p, base=changed(p.base, (1, 0), 3)),
    "overwrites a constant": lambda p: replace(p, base=changed(p.base, (0, 0), 0)),
    "not kept where `row` says": lambda p: replace(p, base=changed(p.base, (0, 0), 2)),
    "sections are not all launches": lambda p: replace(p, sections=p.sections[1:]),
    "rows outside the arena": lambda p: replace(p, base=changed(p.base, (1, 1), 5)),
    "where `row` says": lambda p: replace(p, row=changed(p.row, 0, 2)),
    "under status": lambda p: replace(p, status=changed(p.status, 1, CONTIGUOUS)),
    "said to be gathered": lambda p: replace(p, status=changed(p.status, 4, GATHERED)),
    "not where start and stride say": lambda p: replace(p, start=changed(p.start, 4, 2)),
    "do not run exactly once": lambda p: replace(
        p, schedule=replace(p.schedule, nodes=changed(p.schedule.nodes, 0, 1))
    ),
}


@pytest.mark.parametrize("message", FAULTS)
def test_the_checker_catches(message: str) -> None:
    graph, schedule = chains([[0, 1], [1, 1], [5, 1]])
    with pytest.raises(CheckError, match=message):
        check_plan(graph, FAULTS[message](plan(graph, schedule)))


@given(seeds, st.booleans())
def test_the_checker_catches_any_changed_row(seed: int, fused: bool) -> None:
    rng = np.random.default_rng(seed)
    nodes = int(rng.integers(1, 20))
    graph = fused_graph(rng, nodes) if fused else random_graph(rng, random_network(rng), nodes)
    made = plan(graph, random_schedule(rng, graph))
    if len(made.index):
        at = int(rng.integers(len(made.index)))
        with pytest.raises(CheckError):
            check_plan(graph, replace(made, index=changed(made.index, at, made.index[at] + 1)))


def test_the_checker_catches_wrong_lists() -> None:
    constants = (Constant("table", 0, (2,), 0, 4),)
    table = Table("t", 4, (2,), None, None, Span("test", 1))
    network = make_network([("r", None, "sum", (Slot("a", (2,), (), (0,)),))], (table,), constants, [])
    graph = make_graph(network, [0, 0], [[-1, -2, -2], [-3, -4]])
    schedule = Schedule(np.zeros(1, np.int32), np.array([0, 2], np.int32), np.array([1, 0], np.int32))
    made = plan(graph, schedule)
    check_plan(graph, made)
    assert made.lists.tolist() == [0, 2, 5]
    assert made.index.tolist() == [2, 3, 0, 1, 1]
    assert made.other_flops == (1 + 2) * 2
    with pytest.raises(CheckError, match="lists have the wrong ends"):
        check_plan(graph, replace(made, lists=np.array([0, 3, 5], np.int32)))
