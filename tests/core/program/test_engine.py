"""The pieces of a run: their graphs and schedules are right, and plans are found again."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

import abw
from abw.core.graph.dag import Dag
from abw.core.plan.check import check_plan
from abw.core.policy.check import check_schedule
from abw.core.policy.registry import get_policy
from abw.core.policy.schedule import Schedule
from abw.core.program.net import Net
from abw.core.program.recorder import joined
from tests.core.program.cells import LIBRARY, Programs, small

SENTENCES = [[1, 2, 3], [4], [5, 6, 7, 8, 9], [3, 3]]


@dataclass
class Counting:
    """The critical rule, which counts how often it is asked."""

    asked: list[int] = field(default_factory=list)

    def schedule(self, dag: Dag) -> Schedule:
        self.asked.append(len(dag))
        return get_policy("critical").schedule(dag)


def test_what_was_run_before_is_neither_scheduled_nor_planned(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(LIBRARY)
    policy = Counting()
    net: Net = abw.cells(tmp_path / "small.yaml", policy=policy, threads=1)
    parse = Programs(net).parse
    first = net.run(parse, SENTENCES)
    pieces = len(policy.asked)
    assert pieces == len(net._ready().engine.segments) > 3
    again = net.run(parse, SENTENCES)
    assert len(policy.asked) == pieces
    for a, b in zip(first, again, strict=True):
        assert a[0] == b[0] and a[1].tobytes() == b[1].tobytes()
    other = net.run(parse, [[9, 8, 7], *SENTENCES[1:]])  # the same shape, other rows
    assert len(policy.asked) > pieces
    assert other[1][1].tobytes() == first[1][1].tobytes()


def test_plans_are_not_kept_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("abw.core.program.engine.MOST_KEPT", 50)
    net = small(tmp_path)
    for number in range(12):
        net.run(Programs(net).parse, [[number, 3, 1], [2]])
        assert net._ready().engine._kept < 100


def test_plans_of_all_pieces_are_right(tmp_path: Path) -> None:
    net = small(tmp_path)
    net.run(Programs(net).parse, SENTENCES)
    engine = net._ready().engine
    known, held = engine._first, []
    while known:
        (found,) = known.values()
        held.append(found)
        check_plan(found.plan.graph, found.plan)
        check_schedule(found.plan.graph.dag, found.plan.schedule)
        known = found.behind
    assert len(held) == len(engine.segments) and sum(len(h.plan.graph) for h in held) == engine._count


def test_a_trace_is_the_graph_of_all_calls(tmp_path: Path) -> None:
    net = small(tmp_path)
    graph = net.trace(Programs(net).parse, [1, 2, 3])
    sizes = dict(zip(graph.dag.types, graph.type_sizes.tolist(), strict=True))
    assert sizes == {"step": 10, "join": 2, "two": 0, "score": 5, "gate": 0}
    assert graph.instances == 1 and set(graph.instance.tolist()) == {0}
    schedule = get_policy("critical").schedule(graph.dag)
    check_schedule(graph.dag, schedule)
    segments = net._ready().engine.segments
    assert len(segments) == 6
    whole = joined(segments)
    np.testing.assert_array_equal(np.diff(whole.operand_ptr).sum(), len(whole.operand))
    assert len(net.trace(lambda _: 3, 0)) == 0
