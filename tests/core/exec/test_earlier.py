"""Plans that go on from earlier runs, and parameters that are renewed: as one run, and as prepared anew."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abw.core.base.errors import CheckError
from abw.core.exec.blas.executor import BlasExecutor
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.cuda.executor import CudaExecutor
from abw.core.exec.interface import Executor
from abw.core.exec.params import Params, init_params
from abw.core.exec.reference import ReferenceExecutor
from abw.core.graph.graph import Graph
from abw.core.ir.network import LISTED
from abw.core.plan.check import check_plan
from abw.core.plan.plan import Earlier, Plan, plan
from abw.core.policy.schedule import Schedule
from tests.core.exec.builder import (
    check_values,
    fused_graph,
    make_graph,
    random_graph,
    random_network,
    random_schedule,
    reference,
)
from tests.core.exec.cuda.simulated import SimulatedDevice

EXECUTORS: dict[str, Callable[[], Executor]] = {
    "reference": ReferenceExecutor,
    "blas": BlasExecutor,
    "cpu": CpuExecutor,
    "cuda": lambda: CudaExecutor(SimulatedDevice()),
}
# What random networks are run by: to simulate a GPU takes seconds.
CHEAP = ("reference", "blas", "cpu")


def first_batches(graph: Graph, schedule: Schedule, count: int) -> np.ndarray:
    """Which nodes (n,) are in the first batches."""
    inside = np.zeros(len(graph), bool)
    inside[schedule.nodes[: schedule.ptr[count]]] = True
    return inside


def part(graph: Graph, inside: np.ndarray) -> tuple[Graph, np.ndarray, list[int]]:
    """The nodes `inside` as a graph of their own, the number of each there, and the references that it reads
    of other nodes: reference n * width + i is the i-th of these."""
    width = graph.network.width
    number = np.cumsum(inside) - 1
    own = int(inside.sum()) * width
    outer: dict[int, int] = {}

    def renumbered(reference: int) -> int:
        if reference < 0:
            return reference
        if inside[reference // width]:
            return int(number[reference // width]) * width + reference % width
        return own + outer.setdefault(reference, len(outer))

    operands = [
        [renumbered(r) for r in graph.operand[graph.operand_ptr[v] : graph.operand_ptr[v + 1]].tolist()]
        for v in np.flatnonzero(inside)
    ]
    made = make_graph(graph.network, graph.dag.type[inside].tolist(), operands)
    return made, number, list(outer)


def of_part(schedule: Schedule, number: np.ndarray, first: int, last: int) -> Schedule:
    begin, end = schedule.ptr[[first, last]]
    ptr = (schedule.ptr[first : last + 1] - begin).astype(np.int32)
    return Schedule(schedule.type[first:last], ptr, number[schedule.nodes[begin:end]].astype(np.int32))


class Rounds:
    """A schedule of a graph run in several rounds, each a plan that goes on from those before."""

    def __init__(self, graph: Graph, schedule: Schedule, cuts: list[int]) -> None:
        self.graph = graph
        self.plans: list[Plan] = []
        self.graphs: list[Graph] = []
        self.whose: list[np.ndarray] = []
        """Of each round's nodes, their numbers in the graph."""
        width = graph.network.width
        where: dict[int, tuple[int, int]] = {}
        done = np.zeros(len(graph), bool)
        for first, last in zip([0, *cuts], [*cuts, len(schedule)], strict=True):
            inside = first_batches(graph, schedule, last) & ~done
            done |= inside
            small, number, outer = part(graph, inside)
            earlier = None
            if self.plans:
                places = np.array([where[r] for r in outer], np.int32).reshape(-1, 2)
                earlier = Earlier(self.plans[-1].rows, places[:, 0], places[:, 1])
            made = plan(small, of_part(schedule, number, first, last), earlier=earlier)
            check_plan(small, made)
            self.plans.append(made)
            self.graphs.append(small)
            self.whose.append(np.flatnonzero(inside))
            for own, node in enumerate(self.whose[-1].tolist()):
                for o, arena in enumerate(made.arenas.output_arena[graph.dag.type[node]].tolist()):
                    if arena >= 0:
                        where[node * width + o] = arena, int(made.row[own * width + o])

    def run(self, executor: Executor, params: Params) -> None:
        """Run all rounds, then compare every node's outputs with those of one run: all can still be read."""
        results = [executor.run(made) for made in self.plans]
        expected = reference(self.graph, params)
        for small, whose, result in zip(self.graphs, self.whose, results, strict=True):
            for t, net_type in enumerate(small.network.types):
                first, last = small.type_ptr[t : t + 2].tolist()
                if first == last:
                    continue
                for o in range(len(net_type.outputs)):
                    handles = whose[first:last] * small.network.width + o
                    found = result.values(np.arange(first, last) * small.network.width + o)
                    check_values(found, expected, handles, self.graph, params)


@pytest.mark.parametrize("name", CHEAP)
@settings(max_examples=15)
@given(seed=st.integers(0, 10**6), nodes=st.integers(2, 25), data=st.data())
def test_rounds_compute_what_one_run_does(name: str, seed: int, nodes: int, data: st.DataObject) -> None:
    rng = np.random.default_rng(seed)
    graph = random_graph(rng, random_network(rng), nodes)
    schedule = random_schedule(rng, graph)
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(schedule) - 1)), max_size=3)))
    rounds = Rounds(graph, schedule, cuts if len(schedule) > 1 else [])
    executor = EXECUTORS[name]()
    params = init_params(graph.network, seed)
    executor.prepare(graph.network, params)
    rounds.run(executor, params)
    rounds.run(executor, params)  # from the beginning, in the memory of the rounds before


def test_rounds_on_a_simulated_device() -> None:
    rng = np.random.default_rng(3)
    graph = random_graph(rng, random_network(rng), 14)
    schedule = random_schedule(rng, graph)
    executor = EXECUTORS["cuda"]()
    params = init_params(graph.network, 3)
    executor.prepare(graph.network, params)
    Rounds(graph, schedule, [1, len(schedule) // 2]).run(executor, params)


def small() -> tuple[Graph, Schedule]:
    rng = np.random.default_rng(5)
    graph = random_graph(rng, random_network(rng), 12)
    return graph, random_schedule(rng, graph)


def test_what_goes_on_from_other_runs_is_refused() -> None:
    graph, schedule = small()
    rounds = Rounds(graph, schedule, [1, 2])
    executor = CpuExecutor()
    executor.prepare(graph.network, init_params(graph.network, 0))
    with pytest.raises(ValueError, match="other runs"):
        executor.run(rounds.plans[1])
    executor.run(rounds.plans[0])
    with pytest.raises(ValueError, match="other runs"):
        executor.run(rounds.plans[2])


def test_a_run_from_the_beginning_takes_the_memory() -> None:
    graph, schedule = small()
    rounds = Rounds(graph, schedule, [1])
    executor = CpuExecutor()
    executor.prepare(graph.network, init_params(graph.network, 0))
    result = executor.run(rounds.plans[0])
    executor.run(rounds.plans[1])
    values = np.array([0])
    result.values(values)
    executor.run(rounds.plans[0])
    with pytest.raises(RuntimeError, match="run again"):
        result.values(values)


def test_the_checker_finds_earlier_rows_overwritten_or_named_wrongly() -> None:
    graph, schedule = small()
    made = Rounds(graph, schedule, [len(schedule) // 2]).plans[1]
    assert made.earlier is not None and len(made.earlier.row)
    used = made.base.copy()
    used[used >= 0] = 0
    with pytest.raises(CheckError, match="overwrite"):
        check_plan(made.graph, _changed(made, base=used))
    wrong = _changed(made, earlier=Earlier(made.earlier.rows, made.earlier.arena, made.earlier.row + 1))
    with pytest.raises(CheckError):
        check_plan(made.graph, wrong)


def _changed(made: Plan, **fields: object) -> Plan:
    from dataclasses import replace

    return replace(made, **fields)  # type: ignore[arg-type]


def test_a_plan_that_goes_on_keeps_all() -> None:
    graph, schedule = small()
    earlier = Earlier(np.zeros(1, np.int32), np.zeros(0, np.int32), np.zeros(0, np.int32))
    with pytest.raises(ValueError, match="keeps all"):
        plan(graph, schedule, np.zeros(1, np.int32), earlier)


@pytest.mark.parametrize("name", EXECUTORS)
def test_renewed_parameters_are_those_of_an_executor_prepared_with_them(name: str) -> None:
    rng = np.random.default_rng(16)
    graph = random_graph(rng, random_network(rng), 12)
    while name in CHEAP and not (graph.operand <= LISTED).any():
        graph = fused_graph(rng, 12)
    made = plan(graph, random_schedule(rng, graph))
    before, after = init_params(graph.network, 0), init_params(graph.network, 1)
    executor = EXECUTORS[name]()
    executor.prepare(graph.network, before)
    old = executor.run(made)
    everything = {
        (t, o): old.value(t, o).copy()
        for t, net_type in enumerate(graph.network.types)
        for o in range(len(net_type.outputs))
    }
    executor.update(after)
    if name != "reference":  # whose results are arrays of their own
        with pytest.raises(RuntimeError, match="run again"):
            old.value(0, 0)
    found, expected = executor.run(made), reference(graph, after)
    changed = False
    for (t, o), values in everything.items():
        handles = np.arange(*graph.type_ptr[t : t + 2]) * graph.network.width + o
        check_values(found.value(t, o), expected, handles, graph, after)
        changed |= not np.allclose(found.value(t, o), values)
    assert changed
    unlike = Params(tuple(v[..., :0] for v in after.values), tuple(t[:0] for t in after.tables))
    with pytest.raises(ValueError, match="shapes"):
        executor.update(unlike)
