"""The pieces of a run: their graphs, schedules and plans are right."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

import abw
from abw.core.exec.cpu.tape.tape import CompiledTape
from abw.core.graph.dag import Dag
from abw.core.plan.arenas import arenas_of
from abw.core.plan.check import check_plan
from abw.core.policy.check import check_schedule
from abw.core.policy.registry import get_policy
from abw.core.policy.schedule import Schedule
from abw.core.program.net import Net
from abw.core.program.recording.segments import joined
from tests.core.program.cells import Programs, small
from tests.core.program.test_random import bits, instances, program

SENTENCES = [[1, 2, 3], [4], [5, 6, 7, 8, 9], [3, 3]]


@dataclass
class Counting:
    """The critical rule, which counts how often it is asked."""

    asked: list[int] = field(default_factory=list)

    def schedule(self, dag: Dag) -> Schedule:
        self.asked.append(len(dag))
        return get_policy("critical").schedule(dag)


@pytest.fixture(scope="module")
def nets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Net, Net]:
    """By the tape, and by plans."""
    folder = tmp_path_factory.mktemp("engine")
    taped = small(folder)
    planned: Net = abw.cells(folder / "small.yaml", policy=Counting(), threads=1)
    return taped, planned


def test_plans_of_all_pieces_are_right(tmp_path: Path) -> None:
    net = small(tmp_path, executor="blas")
    net.run(Programs(net).parse, SENTENCES)
    engine = net._session.engine()
    plans = engine.tape.plans
    for plan in plans:
        check_plan(plan.graph, plan)
        check_schedule(plan.graph.dag, plan.schedule)
    assert len(plans) == len(engine.segments) and sum(len(plan.graph) for plan in plans) == engine.nodes


@given(instances)
@settings(max_examples=15)
def test_the_tape_runs_what_plans_run(
    nets: tuple[Net, Net], drawn: list[tuple[int, list[tuple[str, int, int]]]]
) -> None:
    taped, planned = nets
    found = [net.run(partial(program, net, abw.each), drawn) for net in nets]
    assert bits(found[0]) == bits(found[1])
    tape, plans = taped._session.engine(), planned._session.engine()
    tape.prepare()  # where nothing was computed
    assert isinstance(tape.tape, CompiledTape) and not isinstance(plans.tape, CompiledTape)
    assert tape.tape.batches == plans.tape.batches
    assert not tape.tape.plans
    in_order(taped)
    for one, other in zip(tape.segments, plans.segments, strict=True):
        assert one.first == other.first
        for name in ("type", "instance", "operand_ptr", "operand"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def in_order(net: Net) -> None:
    """The batches that are shown are those that were run: rows are given batch by batch."""
    engine, arenas = net._session.engine(), arenas_of(net._session.engine().network)
    assert isinstance(engine.tape, CompiledTape) and not engine.tape.plans
    width, last = net._session.engine().cells.width, dict.fromkeys(range(len(arenas.shape)), -1)
    for graph, schedule in engine.pieces:
        check_schedule(graph.dag, schedule)
        for t, nodes in zip(schedule.type, np.split(schedule.nodes, schedule.ptr[1:-1]), strict=True):
            rows = np.sort(engine.tape.row[graph.vertex[nodes] * width])
            arena = int(arenas.output_arena[t, 0])
            assert rows[0] > last[arena] and (np.diff(rows) == 1).all()
            last[arena] = int(rows[-1])


@pytest.mark.parametrize("limit", [1, 400])
def test_large_pieces_are_planned_amid_those_of_the_tape(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: int
) -> None:
    one = small(tmp_path)
    alone = one.run(Programs(one).parse, SENTENCES)
    monkeypatch.setattr("abw.core.exec.cpu.partition.APART_FLOPS", limit)
    net = small(tmp_path, threads=2)
    for _ in range(2):
        found = net.run(Programs(net).parse, SENTENCES)
        engine = net._session.engine()
        assert isinstance(engine.tape, CompiledTape)
        own = engine.tape.own_batches
        assert (own == 0) == (limit == 1) and own < engine.tape.batches
        for a, b in zip(found, alone, strict=True):
            assert a[0] == b[0] and a[1].tobytes() == b[1].tobytes()


def test_without_numba_s_compiler_there_is_no_tape(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taped = small(tmp_path)
    wanted = taped.run(Programs(taped).parse, SENTENCES)
    monkeypatch.setattr("numba.config.DISABLE_JIT", 1)
    net = small(tmp_path)
    found = net.run(Programs(net).parse, SENTENCES)
    assert isinstance(taped._session.engine().tape, CompiledTape)
    assert not isinstance(net._session.engine().tape, CompiledTape)
    assert [(actions, value.tobytes()) for actions, value in found] == [
        (actions, value.tobytes()) for actions, value in wanted
    ]


def test_a_trace_is_the_graph_of_all_calls(tmp_path: Path) -> None:
    net = small(tmp_path)
    graph = net.trace(Programs(net).parse, [1, 2, 3])
    sizes = dict(zip(graph.dag.types, graph.type_sizes.tolist(), strict=True))
    assert sizes == {"step": 10, "join": 2, "two": 0, "score": 5, "gate": 0}
    assert graph.instances == 1 and set(graph.instance.tolist()) == {0}
    schedule = get_policy("critical").schedule(graph.dag)
    check_schedule(graph.dag, schedule)
    segments = net._session.engine().segments
    assert len(segments) == 6
    whole = joined(segments)
    np.testing.assert_array_equal(np.diff(whole.operand_ptr).sum(), len(whole.operand))
    assert len(net.trace(lambda _: 3, 0)) == 0
