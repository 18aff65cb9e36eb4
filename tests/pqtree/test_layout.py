"""The layout planner against brute force, known optima, the separate checker, and the paper's example."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abw.bench.graphs.layout import planted_program
from abw.pqtree import Layout, PQTree, Status, declared_layout, plan_layout
from abw.pqtree.layouts.closure import Closure
from abw.pqtree.layouts.hitting import greedy_hitting_set, hitting_set, packing_bound
from abw.pqtree.layouts.paper import paper_layout
from abw.pqtree.layouts.problem import Program
from tests.pqtree import oracle
from tests.pqtree.programs import Batches, Case, best_cost, cases, cost_of, forest, generate
from tests.pqtree.verify import verify_layout

# As many programs of 20 and of 30 variables as the planner is held to, in about 5 minutes:
# ABW_LAYOUT_PROGRAMS=200 pytest tests/pqtree/test_layout.py -k generated
PROGRAMS = int(os.environ.get("ABW_LAYOUT_PROGRAMS", "4"))

FIGURE_3: Batches = [[[3, 4], [0, 2], [1, 0]], [[7, 5, 6], [2, 3, 4]]]


def plan(case: Case, **options: Any) -> Layout:  # noqa: ANN401
    layout = plan_layout(
        case.sizes, case.batches, arenas=case.arenas, constant=case.constant, launch=case.launch, **options
    )
    verify_layout(layout, case.sizes, case.batches, arenas=case.arenas, constant=case.constant)
    return layout


@given(case=cases())
@settings(max_examples=60, deadline=None)
def test_it_finds_the_cheapest_order(case: Case) -> None:
    layout = plan(case)
    best = best_cost(case)
    assert layout.cost == best == layout.bound == cost_of(case, layout.order)
    assert layout.gap == 0


@given(case=cases(7))
@settings(max_examples=30, deadline=None)
def test_few_variables_have_all_orders_tried_when_time_is_up(case: Case) -> None:
    layout = plan(case, time_limit=1e-9)
    assert layout.cost == best_cost(case) == layout.bound


def test_no_small_program_stays_unproven() -> None:
    """Many batches over seven variables, with no time for a search; the same as with much time."""
    rng = random.Random(3)
    for _ in range(6):
        batches = [batch for _ in range(3) for batch in generate(rng, 7)]
        hurried, patient = (plan_layout([8] * 7, batches, time_limit=limit) for limit in (1e-9, 60))
        verify_layout(hurried, [8] * 7, batches)
        assert hurried.gap == patient.gap == 0
        assert hurried.cost == patient.cost > 0


@given(case=cases(wild=False))
@settings(max_examples=60, deadline=None)
def test_it_finds_the_cheapest_order_of_tame_programs(case: Case) -> None:
    assert plan(case).cost == best_cost(case)


@given(case=cases())
@settings(max_examples=60, deadline=None)
def test_without_time_the_bound_is_still_one(case: Case) -> None:
    layout = plan(case, time_limit=0)
    best = best_cost(case)
    assert layout.bound <= best <= layout.cost == cost_of(case, layout.order)
    assert layout.gap == layout.cost - layout.bound
    assert (layout.cost == 0) == (best == 0)


def test_it_finds_the_cheapest_order_of_seven_variables() -> None:
    rng = random.Random(7)
    for _ in range(2):
        case = Case([8] * 7, generate(rng, 7), ["a"] * 7, [], 100)
        assert plan(case).cost == best_cost(case)


@given(case=cases())
@settings(max_examples=50, deadline=None)
def test_strides_never_cost_more(case: Case) -> None:
    assert plan(case, strided=True).cost <= plan(case).cost


@given(case=cases())
@settings(max_examples=60, deadline=None)
def test_the_papers_algorithm_gives_layouts_too(case: Case) -> None:
    layout = paper_layout(
        case.sizes, case.batches, arenas=case.arenas, constant=case.constant, launch=case.launch
    )
    verify_layout(layout, case.sizes, case.batches, arenas=case.arenas, constant=case.constant)
    assert layout.cost == cost_of(case, layout.order) >= plan(case).cost


def aligned(orders: np.ndarray, batches: Batches) -> np.ndarray:
    """In which of the orders every operand is contiguous, and those of each batch have one lane order."""
    place = np.argsort(orders, axis=1)
    good = np.ones(len(orders), np.bool_)
    for batch in batches:
        ranks = [place[:, operand] - place[:, operand].min(axis=1, keepdims=True) for operand in batch]
        for rank in ranks:
            good &= (rank.max(axis=1) == rank.shape[1] - 1) & (rank == ranks[0]).all(axis=1)
    return good


def test_the_papers_example() -> None:
    orders = oracle.permutations(8)
    good = aligned(orders, FIGURE_3)
    assert (len(orders), good.sum()) == (40_320, 4)
    layout = plan_layout([64] * 8, FIGURE_3)
    verify_layout(layout, [64] * 8, FIGURE_3)
    assert layout.ideal
    assert layout.order in set(map(tuple, orders[good].tolist()))
    assert layout.copy_free_operands == 5
    assert (layout.bytes_moved, layout.kernels, layout.cost, layout.gap) == (0, 0, 0, 0)
    assert PQTree.from_text(layout.tree).count() == 32
    assert paper_layout([64] * 8, FIGURE_3).ideal
    declared = declared_layout([64] * 8, FIGURE_3)  # two gathers and a scatter, as in Fig. 3(c)
    copied = [o.key for batch in declared.operands for o in batch if o.status is Status.COPIED]
    assert copied == [(0, 1), (0, 2), (1, 0)]
    assert (declared.bytes_moved, declared.kernels) == (7 * 64, 3)


def test_lane_orders_are_decided_exactly() -> None:
    """Permutations of four lanes do not commute: two groups, tied by batches in several ways."""
    rng, orders, ideal = random.Random(4), oracle.permutations(8), 0
    for _ in range(60):
        groups = [[0, 1, 2, 3], [4, 5, 6, 7]]
        tie = rng.sample(range(4), 4)
        batches = []
        for _ in range(rng.randint(1, 3)):
            lanes = rng.sample(range(4), 4)
            other = tie if rng.random() < 0.8 else rng.sample(range(4), 4)
            batches.append([[groups[0][i] for i in lanes], [groups[1][other[i]] for i in lanes]])
        expected = bool(aligned(orders, batches).any())
        assert plan_layout([1] * 8, batches).ideal == expected
        ideal += expected
    assert 10 < ideal < 50


def heaviest(closure: Closure) -> int:
    """The weight of the heaviest possible set of items, by trying all."""
    weight = [item.weight for item in closure.items]
    best = 0

    def extend(at: int, kept: list[int], total: int) -> None:
        nonlocal best
        best = max(best, total)
        if at == len(weight) or total + sum(weight[at:]) <= best:
            return
        if closure.feasible([*kept, at]):
            extend(at + 1, [*kept, at], total + weight[at])
        extend(at + 1, kept, total)

    extend(0, [], 0)
    return best


def test_the_choice_is_the_heaviest_and_proven() -> None:
    """On programs where greedy choice and swaps often fall short."""
    rng = random.Random(12)
    for _ in range(15):
        batches = generate(rng, 12)
        items = Program.of([1] * 12, batches, launch=0).items()
        layout = plan_layout([1] * 12, batches, launch=0, time_limit=60)
        optimum = sum(item.weight for item in items) - heaviest(Closure(12, items))
        assert layout.cost == layout.bound == optimum


@given(
    sets=st.lists(st.sets(st.integers(0, 6), min_size=1, max_size=4), max_size=8),
    weight=st.lists(st.integers(0, 5), min_size=7, max_size=7),
)
@settings(max_examples=80, deadline=None)
def test_hitting_sets_are_cheapest(sets: list[set[int]], weight: list[int]) -> None:
    every = [{i for i in range(7) if mask >> i & 1} for mask in range(128)]
    best = min(sum(weight[i] for i in some) for some in every if all(some & one for one in sets))
    known = greedy_hitting_set(sets, weight)
    assert all(known & one for one in sets)
    found, proven = hitting_set(sets, weight, known, 0, time.thread_time() + 60)
    assert proven
    assert all(found & one for one in sets)
    assert sum(weight[i] for i in found) == best
    assert packing_bound(sets, weight) <= best
    late, proven = hitting_set(sets, weight, known, 0, time.thread_time() - 1)
    assert late == known or proven


def test_known_optima(shared_data: Path) -> None:
    """The best possible number of operands and of lanes, and how far the paper's algorithm gets."""
    programs = json.loads((shared_data / "pq" / "layout_random.json").read_text())
    papers = 0
    for known in programs:
        sizes, batches = [1] * known["n"], known["batches"]
        layout = plan_layout(sizes, batches)
        verify_layout(layout, sizes, batches)
        assert (layout.ideal, layout.copy_free_operands) == (known["ideal"], known["opt_operands"])
        assert layout.gap == 0
        lanes = sum(len(operand) for batch in batches for operand in batch)
        assert lanes - plan_layout(sizes, batches, launch=0).bytes_moved == known["opt_lanes"]
        paper = paper_layout(sizes, batches)
        assert paper.ideal == known["ideal"]
        assert paper.copy_free_operands <= known["opt_operands"]
        papers += paper.copy_free_operands == known["opt_operands"]
    assert len(programs) == 500
    assert 0.88 < papers / len(programs) < 0.94


def test_named_programs(shared_data: Path) -> None:
    for name, known in json.loads((shared_data / "pq" / "layout_named.json").read_text()).items():
        sizes, batches = [256] * known["n"], known["batches"]
        layout = plan_layout(sizes, batches)
        verify_layout(layout, sizes, batches)
        assert layout.gap == 0
        if "ideal" in known:
            assert layout.ideal == known["ideal"], name
        if known.get("ideal_ignoring_repeats"):
            reasons = [o.reason for batch in layout.operands for o in batch if o.status is Status.COPIED]
            assert all(reason.startswith("repeats variable") for reason in reasons), name


@pytest.mark.parametrize("n", [20, 30])
def test_generated_programs(n: int) -> None:
    rng = random.Random(n)
    for _ in range(PROGRAMS):
        batches = generate(rng, n)
        layout = plan_layout([1] * n, batches, time_limit=2.0)
        verify_layout(layout, [1] * n, batches)
        assert layout.cost <= paper_layout([1] * n, batches).cost
        assert layout.gap == layout.cost - layout.bound
        assert 0 < layout.bound <= layout.cost  # each holds conflicts


@pytest.mark.parametrize("n", [64, 100, 150])
def test_noisy_programs_reach_the_planted_order(n: int) -> None:
    for seed in range(3):
        order, batches = planted_program(random.Random(1000 * n + seed), n, 0.1)
        layout = plan_layout([64] * n, batches, time_limit=60)
        verify_layout(layout, [64] * n, batches)
        assert layout.gap == 0
        assert 0 < layout.cost <= declared_layout([64] * n, batches, order).cost


@given(case=cases(8), data=st.data())
@settings(max_examples=60, deadline=None)
def test_machine_code_decides_as_plain_python(case: Case, data: st.DataObject) -> None:
    n = len(case.sizes)
    items = Program.of(case.sizes, case.batches, case.arenas).items()
    plain, machine = Closure(n, items), Closure(n, items, PQTree(n, use_compiled=True))
    for some in data.draw(st.lists(st.permutations(range(len(items))), min_size=1, max_size=4)):
        some = some[: data.draw(st.integers(0, len(some)))]
        assert machine.hold(some) == plain.hold(some)
        assert machine.tree.canonical() == plain.tree.canonical()
        assert machine.agrees() == plain.agrees()
        assert machine.fill([], some) == plain.fill([], some)
        assert machine.feasible(some) == plain.feasible(some) == plain.feasible(some, at_once=True)


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[], float]:
    """A clock that counts the work: a step for each set of items added or compared, and each look."""
    now = 0.0

    def work(*_: object) -> float:
        nonlocal now
        now += 1
        return now

    for name in ("hold", "fill", "agrees"):
        does = getattr(Closure, name)
        monkeypatch.setattr(
            Closure, name, lambda *args, does=does, **named: (work(), does(*args, **named))[1]
        )
    monkeypatch.setattr(time, "thread_time", work)
    return work


@pytest.mark.parametrize("limit", [100, 400])
def test_the_time_limit_is_kept(limit: int, counted: Callable[[], float]) -> None:
    _, batches = planted_program(random.Random(8), 50, 0.5)
    layout = plan_layout([64] * 50, batches, time_limit=limit)
    verify_layout(layout, [64] * 50, batches)
    assert layout.gap > 0  # it was the limit that ended the search
    assert limit < counted() < 1.1 * limit + 50  # the last conflict is worked out, and the layout made


def test_exchanges_make_noisy_layouts_cheaper(
    counted: Callable[[], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = [planted_program(random.Random(seed), 50, 0.5)[1] for seed in range(4)]

    def costs() -> list[int]:
        layouts = [plan_layout([64] * 50, batches, time_limit=300) for batches in programs]
        for layout, batches in zip(layouts, programs, strict=True):
            verify_layout(layout, [64] * 50, batches)
        return [layout.cost for layout in layouts]

    after = costs()
    monkeypatch.setattr("abw.pqtree.layouts.choice._Search.exchange", lambda *_: None)
    before = costs()
    assert all(b >= a for a, b in zip(after, before, strict=True))
    assert sum(after) < 0.9 * sum(before)


def test_whole_graphs_keep_more_lanes_than_results_alone() -> None:
    n, batches = forest(random.Random(3), 6, 12)
    layout = plan_layout([64] * n, batches, launch=0, time_limit=5.0)
    verify_layout(layout, [64] * n, batches)
    results = declared_layout([64] * n, batches, [v for batch in batches for v in batch[0]], launch=0)
    verify_layout(results, [64] * n, batches)
    assert layout.bytes_moved < results.bytes_moved


def test_statuses_bytes_and_reasons() -> None:
    sizes = [4, 4, 4, 4, 8, 16, 16, 4]
    batches = [
        [[0, 1], [2, 2], [3]],  # broadcasts of two kinds
        [[2, 3], [0, 4], [5, 6]],  # of two sizes; of weights
        [[1, 7], [0, 0, 1], [3, 5]],  # too many lanes; of two arenas
        [[7, 3, 2], [0, 1, 0]],  # a repeated variable
        [[0], [4], [0, 1]],
    ]
    arenas = ["values"] * 5 + ["weights"] * 2 + ["values"]
    layout = plan_layout(sizes, batches, arenas=arenas, constant=["weights"], launch=100)
    verify_layout(layout, sizes, batches, arenas=arenas, constant=["weights"])
    found = [[(o.status.value, o.moved, o.packed, o.reason) for o in batch] for batch in layout.operands]
    free = ("contiguous", 0, 0, "")
    assert found == [
        [free, ("broadcast", 0, 0, ""), ("broadcast", 0, 0, "")],
        [free, ("copied", 12, 0, "its lanes differ in size"), free],
        [free, ("copied", 12, 0, "has 3 lanes, its batch 2"), ("copied", 20, 0, "mixes arenas")],
        [free, ("copied", 12, 0, "repeats variable 0")],
        [free, free, ("copied", 8, 0, "has 2 lanes, its batch 1")],
    ]
    assert (layout.bytes_moved, layout.bytes_packed, layout.kernels, layout.cost) == (64, 0, 5, 564)
    assert layout.copy_free_operands == 9


def test_what_never_changes_is_packed_once() -> None:
    batches = [[[0, 1], [4, 5]], [[2, 3], [5, 4]], [[2, 3], [4, 6]], [[2, 3], [5, 6]]]
    sizes, arenas = [1, 1, 1, 1, 9, 9, 9], [0, 0, 0, 0, 1, 1, 1]
    layout = plan_layout(sizes, batches, arenas=arenas, constant={1})
    verify_layout(layout, sizes, batches, arenas=arenas, constant={1})
    assert (layout.bytes_moved, layout.cost, layout.gap) == (0, 0, 0)
    assert layout.bytes_packed == 18  # of the three pairs of weights two can be together
    assert not layout.ideal
    moving = plan_layout(sizes, batches, arenas=arenas)
    assert (moving.bytes_moved, moving.bytes_packed) == (18, 0)


def test_the_reason_names_what_stands_against_it() -> None:
    layout = plan_layout([8, 8, 8, 8], [[[0, 1]], [[1, 2]], [[0, 2]]])
    (lost,) = (o for batch in layout.operands for o in batch if o.status is Status.COPIED)
    others = [f"batch {b}'s result" for b in range(3) if b != lost.key[0]]
    assert lost.reason == f"conflicts with {', '.join(others)}"


def test_strides_are_for_batches_that_take_them() -> None:
    batches = [[[0, 1]], [[1, 2]], [[0, 2]]]
    for strided, free in ((False, 2), ([0, 1], 2), ([0, 1, 2], 3), (True, 3)):
        layout = plan_layout([8, 8, 8], batches, strided=strided)
        verify_layout(layout, [8, 8, 8], batches)
        if free == 3 or strided is False:
            assert layout.copy_free_operands == free
    stride = next(o for batch in layout.operands for o in batch if o.status is Status.STRIDED)
    assert stride.stride == 16


def test_wrong_programs_are_refused() -> None:
    for sizes, batches, options in (
        ([1], [[[0], [1]]], {}),
        ([1], [[[-1]]], {}),
        ([1], [[[]]], {}),
        ([1], [[]], {}),
        ([-1], [[[0]]], {}),
        ([1], [[[0]]], {"arenas": [0, 1]}),
        ([1], [[[0]]], {"launch": -1}),
    ):
        with pytest.raises(ValueError, match=r".+"):
            plan_layout(sizes, batches, **options)
    with pytest.raises(ValueError, match="each variable once"):
        declared_layout([1, 1], [[[0, 1]]], [0, 0])


def test_empty_programs() -> None:
    assert plan_layout([], []).order == ()
    layout = plan_layout([4, 4], [])
    assert (layout.order, layout.tree, layout.ideal) == ((0, 1), "(0 1)", True)


def test_the_same_program_gives_the_same_layout() -> None:
    batches = generate(random.Random(5), 16)
    assert plan_layout([8] * 16, batches) == plan_layout([8] * 16, batches)


def test_small_programs_load_no_compiler() -> None:
    code = (
        "import sys; from abw.pqtree import plan_layout;"
        "b = [[[3, 4], [0, 2], [1, 0]], [[7, 5, 6], [2, 3, 4]]];"
        "assert plan_layout([8] * 63, b).ideal;"
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
