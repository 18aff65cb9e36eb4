"""Several threads: the same bits as one, whichever way they share; lanes by part are a right schedule."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abw.core.exec.cpu import team
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.cpu.partition import divide, sort
from abw.core.exec.cpu.target import TARGETS, TargetName, get_target
from abw.core.exec.cpu.team import Team
from abw.core.exec.interface import Result
from abw.core.exec.params import init_params
from abw.core.graph.fuse import fuse, fuse_network
from abw.core.graph.graph import Graph
from abw.core.ir.network import Network
from abw.core.plan.check import check_plan
from abw.core.plan.plan import plan, results_of
from abw.core.policy.check import check_schedule
from abw.core.policy.rules.sufficient import Sufficient
from abw.core.run.workload import open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides
from tests.core.exec.builder import (
    check,
    fused_graph,
    launched,
    make_graph,
    random_graph,
    random_network,
    random_schedule,
)

seeds = st.integers(0, 2**32 - 1)
HERE = [name for name in TARGETS if TARGETS.index(name) >= TARGETS.index(get_target().name)]


NETWORKS = 10

pytestmark = pytest.mark.usefixtures("always_shared")


def equal(a: Result, b: Result) -> bool:
    return all(
        np.array_equal(a.value(t, o), b.value(t, o), equal_nan=True)
        for t, net_type in enumerate(a.nodes.network.types)
        for o in range(len(net_type.outputs))
    )


def few_network(rng: np.random.Generator) -> Network:
    """One of some random networks: compiling takes time, and it is the graphs that matter here."""
    return random_network(np.random.default_rng(int(rng.integers(NETWORKS))))


def instances_graph(rng: np.random.Generator) -> Graph:
    """Some random graphs of one network side by side: an instance each."""
    network = few_network(rng)
    parts = [random_graph(rng, network, int(rng.integers(0, 12))) for _ in range(rng.integers(1, 6))]
    nodes = [(part, v, g) for g, part in enumerate(parts) for v in range(len(part))]
    nodes.sort(key=lambda node: int(node[0].dag.type[node[1]]))
    number = {(g, v): at for at, (_, v, g) in enumerate(nodes)}
    operands = []
    for part, v, g in nodes:
        found = part.operand[part.operand_ptr[v] : part.operand_ptr[v + 1]].tolist()
        w = network.width
        operands.append([r if r < 0 else number[g, r // w] * w + r % w for r in found])
    graph = make_graph(network, [int(part.dag.type[v]) for part, v, _ in nodes], operands)
    return replace(graph, instance=np.array([g for *_, g in nodes], np.int32), instances=len(parts))


@settings(max_examples=25)
@given(seeds, st.integers(2, 4), st.booleans())
def test_instances_apart(seed: int, threads: int, fused: bool) -> None:
    rng = np.random.default_rng(seed)
    graph = instances_graph(rng)
    if fused:
        graph = fuse(graph, fuse_network(graph.network))
    params = init_params(graph.network, seed)
    one, several = CpuExecutor(), CpuExecutor()
    one.prepare(graph.network, params, 1)
    several.prepare(graph.network, params, threads)
    schedule = random_schedule(rng, graph)
    arranged = several.arrange(graph, schedule)
    check_schedule(graph.dag, arranged)
    planned = plan(graph, arranged)
    check_plan(graph, planned)
    expected = one.run(plan(graph, schedule))
    for _ in range(5):
        assert equal(several.run(planned), expected)


@pytest.mark.parametrize("threads", [2, 3])
def test_what_threads_read_stays_while_others_allocate(threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[object] = []
    share = Team.share

    def crowded(team: Team, work: Callable[[int], object]) -> None:
        """Take all small memory that was given back since the run was prepared."""
        held.extend(np.full(size, -1, np.int32) for size in range(1, 33) for _ in range(16))
        share(team, work)

    monkeypatch.setattr(Team, "share", crowded)
    rng = np.random.default_rng(0)
    for _ in range(10):
        graph = instances_graph(rng)
        params = init_params(graph.network, 0)
        one, several = CpuExecutor(), CpuExecutor()
        one.prepare(graph.network, params, 1)
        several.prepare(graph.network, params, threads)
        schedule = random_schedule(rng, graph)
        expected = one.run(plan(graph, schedule))
        assert equal(several.run(plan(graph, several.arrange(graph, schedule))), expected)


@settings(max_examples=25)
@given(seeds, st.integers(2, 4), st.booleans())
def test_batches_together(seed: int, threads: int, fused: bool) -> None:
    rng = np.random.default_rng(seed)
    few = np.random.default_rng(seed % NETWORKS)
    graph = fused_graph(few, 30) if fused else random_graph(rng, few_network(rng), 30)
    params = init_params(graph.network, seed)
    one, several = CpuExecutor(), CpuExecutor()
    one.prepare(graph.network, params, 1)
    several.prepare(graph.network, params, threads)
    planned = plan(graph, random_schedule(rng, graph))
    expected = one.run(planned)
    for _ in range(5):
        assert equal(several.run(planned), expected)


@settings(max_examples=25)
@given(seeds, st.integers(1, 4), st.sampled_from(HERE))
def test_launches_together(seed: int, threads: int, target: TargetName) -> None:
    rng = np.random.default_rng(seed)
    graph, schedule = launched(rng, 30)
    params = init_params(graph.network, seed)
    one, several = CpuExecutor(target), CpuExecutor(target)
    one.prepare(graph.network, params, 1)
    several.prepare(graph.network, params, threads)
    planned = plan(graph, schedule)
    check_plan(graph, planned)
    found = several.run(planned)
    assert found.counts.batches == len(schedule)
    assert found.counts.launches == len(schedule.launches) - 1
    check(found, graph, params)
    expected = one.run(plan(graph, replace(schedule, launch_ptr=None)))
    for _ in range(5):
        assert equal(several.run(planned), expected)


@settings(max_examples=25)
@given(seeds, st.integers(2, 4), st.booleans())
def test_a_run_in_two_halves(seed: int, threads: int, apart: bool) -> None:
    """As trainings run: forward, then backward. Threads wait for each other in the second half, too."""
    rng = np.random.default_rng(seed)
    graph = instances_graph(rng)
    params = init_params(graph.network, seed)
    one, several = CpuExecutor(), CpuExecutor()
    one.prepare(graph.network, params, 1)
    several.prepare(graph.network, params, threads)
    schedule = random_schedule(rng, graph)
    planned = plan(graph, several.arrange(graph, schedule) if apart else schedule)
    expected = one.run(plan(graph, schedule))
    until = int(rng.integers(0, len(planned.launch_ptr)))
    several.begin(planned, until)
    assert equal(several.resume(planned, until), expected)


@settings(max_examples=25)
@given(seeds, st.integers(2, 4), st.booleans())
def test_memory_given_again(seed: int, threads: int, apart: bool) -> None:
    rng = np.random.default_rng(seed)
    graph = instances_graph(rng)
    params = init_params(graph.network, seed)
    one, several = CpuExecutor(), CpuExecutor()
    one.prepare(graph.network, params, 1)
    several.prepare(graph.network, params, threads)
    schedule = random_schedule(rng, graph)
    if apart:
        schedule = several.arrange(graph, schedule)
    outputs = [len(t.outputs) for t in graph.network.types]
    width = graph.network.width
    values = [v * width + o for v in range(len(graph)) for o in range(outputs[graph.dag.type[v]])]
    keep = np.array([value for value in values if rng.random() < 0.3], np.int32)
    planned = plan(graph, schedule, keep)
    check_plan(graph, planned, keep)
    expected = one.run(plan(graph, schedule))
    for _ in range(5):
        result = several.run(planned)
        for value in keep.tolist():
            one_value = np.array([value])
            assert np.array_equal(result.values(one_value), expected.values(one_value), equal_nan=True)


@pytest.mark.parametrize("spec", ["treelstm", "treegru", "lattice", "mvrnn"])
def test_real_data_in_both_forms(spec: str, root: Path, shared_data: Path) -> None:
    source = shared_data / ("lattice/train.txt" if spec == "lattice" else "trees/train.txt")
    model = open_model(root / "specs" / f"{spec}.yaml", Overrides(data=source, dims={"hidden": 38}))
    workload = open_workload(model, read_instances(model.data, 32), open_networks(model, "cell"))
    graph = workload.graph(0, 32)
    params = init_params(workload.network, 0)
    one, two = CpuExecutor(), CpuExecutor()
    one.prepare(workload.network, params, 1)
    two.prepare(workload.network, params, 2)
    schedule = Sufficient().schedule(graph.dag)
    arranged = two.arrange(graph, schedule)
    assert not np.array_equal(arranged.nodes, schedule.nodes)
    planned = plan(graph, arranged)
    expected = one.run(planned)
    for _ in range(20):
        assert equal(two.run(planned), expected)
    keep = results_of(graph)
    sparing, results = plan(graph, arranged, keep), expected.values(keep)
    assert sparing.rows.sum() < planned.rows.sum() or spec == "treegru"
    for _ in range(20):
        assert np.array_equal(two.run(sparing).values(keep), results)
    # a plan of another schedule knows no parts
    other = plan(graph, schedule)
    expected = one.run(other)
    for _ in range(20):
        assert equal(two.run(other), expected)


@given(seeds, st.integers(1, 5))
def test_lanes_are_sorted_by_part(seed: int, parts: int) -> None:
    rng = np.random.default_rng(seed)
    graph = instances_graph(rng)
    schedule = random_schedule(rng, graph)
    found = sort(graph, schedule, parts)
    assert found is not None
    assert found.split is not None
    part_of: dict[int, int] = {}
    for b in range(len(schedule)):
        lanes = slice(schedule.ptr[b], schedule.ptr[b + 1])
        assert sorted(found.nodes[lanes]) == sorted(schedule.nodes[lanes])
        assert found.split[b, 0] == 0
        assert found.split[b, -1] == lanes.stop - lanes.start
        for p in range(parts):
            begin, end = found.split[b, p : p + 2]
            for node in found.nodes[lanes][begin:end].tolist():
                # one part for all nodes of an instance
                assert part_of.setdefault(int(graph.instance[node]), p) == p


@given(st.lists(st.integers(0, 90), min_size=1, max_size=7), st.integers(1, 3))
def test_parts_are_nearly_equal(sizes: list[int], parts: int) -> None:
    part = divide(np.array(sizes, np.int64), parts)
    largest = np.bincount(part, sizes, parts).max()
    best = min(
        max(sum(s for s, p in zip(sizes, way, strict=True) if p == q) for q in range(parts))
        for way in product(range(parts), repeat=len(sizes))
    )
    # Graham's bound of "largest first"; or no more than a tenth above the mean
    assert largest <= max(1.1 * sum(sizes) / parts, (4 / 3 - 1 / (3 * parts)) * best)


def test_parts_that_need_each_other_are_refused() -> None:
    rng = np.random.default_rng(0)
    while True:
        graph = instances_graph(rng)
        if graph.instances > 1 and (graph.operand >= 0).sum() > 5 and len(set(graph.instance)) > 1:
            break
    schedule = random_schedule(rng, graph)
    assert sort(graph, schedule, graph.instances) is not None
    own = replace(graph, instance=np.arange(len(graph), dtype=np.int32), instances=len(graph))
    assert sort(own, schedule, len(graph)) is None


def test_parts_may_all_need_values_of_earlier_runs() -> None:
    rng = np.random.default_rng(1)
    graph = instances_graph(rng)
    schedule = random_schedule(rng, graph)
    own = len(graph) * graph.network.width
    # far behind the graph's own nodes, where there are no instances to look up
    outer = np.where(graph.operand >= 0, own + (1 << 24) + graph.operand, graph.operand).astype(np.int32)
    alone = np.arange(len(graph), dtype=np.int32)
    apart = replace(graph, operand=outer, instance=alone, instances=len(graph))
    assert sort(apart, schedule, len(graph)) is not None


@given(seeds)
def test_parts_that_need_each_other_through_a_list_are_refused(seed: int) -> None:
    rng = np.random.default_rng(seed)
    graph = fused_graph(rng, 12)
    found = sort(graph, random_schedule(rng, graph), len(graph))
    # every node is its own instance, and its part where there are as many
    crosses = (graph.operand >= 0).any() or any(
        value >= 0 for r in graph.operand.tolist() for value in graph.values_of(r)
    )
    assert (found is None) == crosses


class Clock:
    """What a team takes for the time: it goes on only where work says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.undo()  # the team decides
        monkeypatch.setattr(team, "time", self)
        self.now = 0.0

    def perf_counter(self) -> float:
        return self.now


def test_a_team_rests_while_sharing_is_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, done = Clock(monkeypatch), ""

    def takes(seconds: float, way: str) -> None:
        nonlocal done
        clock.now += seconds
        done += way

    two = Team(2)
    for _ in range(16):
        two.do(lambda thread: takes(3, "s") if thread == 0 else None, lambda: takes(2, "a"), 1)
    assert done == "a" + "s" + "aaaa" + "s" + "aaaaaaaa" + "s"


def test_a_team_shares_while_that_is_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    threads: list[int] = []
    amounts = (4, 6, 8, 2, 4)

    def alone(amount: int) -> None:
        clock.now += amount

    def shared(thread: int, amount: int) -> None:
        threads.append(thread)
        if thread == 0:
            clock.now += 0.9 * amount

    three = Team(3)
    for amount in amounts:
        three.do(partial(shared, amount=amount), partial(alone, amount), amount)
    assert sorted(threads) == [0] * 4 + [1] * 4 + [2] * 4


def test_an_error_of_another_thread_is_raised() -> None:
    def work(thread: int) -> None:
        if thread:
            raise ValueError("of the other thread")

    with pytest.raises(ValueError, match="of the other thread"):
        Team(2).share(work)


def test_an_error_of_this_thread_waits_for_the_others() -> None:
    begun, left = threading.Event(), []

    def work(thread: int) -> None:
        if thread:
            begun.set()
            left.append(sum(range(1_000_000)))
        else:
            begun.wait(timeout=30)
            raise ValueError("of this thread")

    with pytest.raises(ValueError, match="of this thread"):
        Team(2).share(work)
    assert len(left) == 1


def test_an_interrupted_thread_leaves_no_other_one_waiting() -> None:
    met, left = threading.Event(), []

    def work(thread: int) -> None:
        if thread:
            left.append(met.wait(timeout=30))
        else:
            signal.raise_signal(signal.SIGINT)
            met.set()

    with pytest.raises(KeyboardInterrupt):
        Team(2).share(work)
    assert left == [True]
