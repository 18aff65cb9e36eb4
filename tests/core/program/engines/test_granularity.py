"""Granularities: the same numbers, other nodes; equal structures share a schedule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import abw
from abw import AbwError, Net
from abw.core.graph.ops import op_network
from abw.core.plan.check import check_plan
from abw.core.policy.check import check_schedule
from abw.core.program.network import library_network
from tests.core.program.cells import LIBRARY, Programs, small
from tests.core.program.engines.test_engine import Counting
from tests.core.program.test_random import instances, program

SENTENCES = [[i % 7, (3 * i) % 20, i, 5][: 1 + i % 4] for i in range(11)]
# What programs return.
Found = Any


@pytest.fixture(scope="module")
def net(tmp_path_factory: pytest.TempPathFactory) -> Net:
    return small(tmp_path_factory.mktemp("granularity"))


def tree(net: Net, item: tuple[int, int]) -> Found:
    """A tree as deep as the item says, and a decision at its end."""
    depth, word = item

    def state(left: int) -> Found:
        if left == 0:
            return net.words[(word + left) % 20]
        return net.join(state(left - 1), net.two(net.step(net.words[word], [0.1] * 6))[1])

    value = state(depth)
    return value, net.score(value, net.start).argmax()


def batches_of(depth: int) -> int:
    """Of one tree: all steps, all twos, a join after the other, the score."""
    return depth + 3 if depth else 1


@given(instances)
@settings(max_examples=8)
def test_operations_give_what_cells_give(net: Net, drawn: list[Any]) -> None:
    def run(item: Any) -> Found:  # noqa: ANN401
        return program(net, abw.each, item)

    cells, ops = net.run(run, drawn), net.run(run, drawn, granularity="op")
    for plan in net._session.engine().tape.plans:
        check_plan(plan.graph, plan)
        check_schedule(plan.graph.dag, plan.schedule)
    for (decided, held), (same, values) in zip(cells, ops, strict=True):
        assert decided == same
        for a, b in zip(held, values, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5)


def test_operations_are_what_cells_are_made_of(tmp_path: Path) -> None:
    net = small(tmp_path)
    network = library_network(net.library)
    per = {t.name: len(e.steps) for t, e in zip(network.types, op_network(network).templates, strict=True)}

    def both(word: int) -> Found:
        return net.step(net.words[word], net.two(net.words[word])[0])

    (found,) = net.run(both, [3], granularity="op")
    engine = net._session.engine()
    assert sum(map(len, engine.segments)) == per["step"] + per["two"] + 2  # two rows are looked up
    (cell,) = net.run(both, [3])
    np.testing.assert_allclose(found, cell, atol=1e-6)
    assert net.verify(Programs(net).parse, SENTENCES, granularity="op").ok


def test_equal_structures_share_a_schedule(tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(LIBRARY)
    policy = Counting()
    net = abw.cells(tmp_path / "small.yaml", policy=policy, threads=1)
    items = [(number % 4, number) for number in range(20)]
    found = net.run(lambda item: tree(net, item), items, granularity="graph")
    sizes = sorted(len(net.trace(lambda item: tree(net, item), item)) for item in items[:4])
    assert sorted(policy.asked[:4]) == sizes and len(policy.asked) == 8  # one of each structure, four traces
    net.run(lambda item: tree(net, item), items[::-1], granularity="graph")  # in another order: seen before
    engine = net._session.engine()
    assert len(policy.asked) == 12 and engine.tape.batches == sum(map(batches_of, range(4)))
    for item in items[::-1]:  # prepared once, whatever mini-batches
        net.run(lambda one: tree(net, one), [item], granularity="graph")
    assert len(policy.asked) == 12
    (plan,) = engine.tape.plans
    check_plan(plan.graph, plan)
    check_schedule(plan.graph.dag, plan.schedule)
    for (a, i), (b, j) in zip(found, net.run(lambda item: tree(net, item), items), strict=True):
        assert a.tobytes() == b.tobytes() and i == j
    assert net.verify(lambda item: tree(net, item), items, granularity="graph").ok


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 19)), min_size=1, max_size=12))
@settings(max_examples=8)
def test_whatever_structures_meet(net: Net, items: list[tuple[int, int]]) -> None:
    found = net.run(lambda item: tree(net, item), items, granularity="graph")
    plans = net._session.engine().tape.plans
    for plan in plans:
        check_plan(plan.graph, plan)
        check_schedule(plan.graph.dag, plan.schedule)
    assert sum(len(plan.schedule) for plan in plans) == sum(map(batches_of, {depth for depth, _ in items}))
    for (a, i), (b, j) in zip(found, net.run(lambda item: tree(net, item), items), strict=True):
        assert a.tobytes() == b.tobytes() and i == j


def test_branches_of_an_instance_are_its_structure(net: Net) -> None:
    def branching(words: list[int]) -> Found:
        values = abw.each(lambda word: net.step(net.words[word], net.start), words)
        return net.join(values[0], values[-1])

    items = [[1, 2, 3], [4], [5, 6, 7]]
    found = net.run(branching, items, granularity="graph")
    assert net._session.engine().tape.batches == 4
    for a, b in zip(found, net.run(branching, items), strict=True):
        assert a.tobytes() == b.tobytes()


def test_what_decides_on_the_way_has_no_graph_before(net: Net) -> None:
    with pytest.raises(AbwError, match="granularity graph: the program calls cells after it has waited"):
        net.run(Programs(net).parse, SENTENCES, granularity="graph")
    assert net.run(lambda _: net.gate(net.start).above(0), [0], granularity="graph") in ([True], [False])
    with (
        pytest.raises(AbwError, match="an instance reads another one's value"),
        net.batching(granularity="graph") as batch,
    ):
        shared = []
        batch(lambda _: shared.append(net.step(net.start, net.start)), 0)
        batch(lambda _: net.step(shared[0], net.start), 1)
    for run in (net.run, net.verify):
        with pytest.raises(AbwError, match="did you mean 'graph'"):
            run(len, [[]], granularity="graphs")
    assert net.run(Programs(net).parse, SENTENCES[:2])


@pytest.mark.parametrize("name", ["reference", "blas"])
def test_executors_know_granularities(net: Net, tmp_path: Path, name: str) -> None:
    other = small(tmp_path, name)
    wanted = net.run(lambda item: tree(net, item), [(2, 3), (1, 4)])
    for granularity in ("op", "graph", "cell"):
        found = other.run(lambda item: tree(other, item), [(2, 3), (1, 4)], granularity=granularity)
        for (a, i), (b, j) in zip(found, wanted, strict=True):
            assert i == j
            np.testing.assert_allclose(a, b, atol=1e-5)
