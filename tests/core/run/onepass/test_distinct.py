"""Equal nodes that a pass leaves out, compared with a dictionary and with what the steps leave out."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from abw.core.api import load
from abw.core.base.errors import AbwError
from abw.core.base.progress import Clock
from abw.core.exec.params import init_params
from abw.core.exec.registry import get_executor
from abw.core.graph.equal.consing import DedupMode
from abw.core.plan.check import check_plan
from abw.core.policy.check import check_schedule
from abw.core.policy.registry import get_policy
from abw.core.run.checks import compare_with_reference
from abw.core.run.dedup import TRUST, Deduplicator
from abw.core.run.minibatches import Passed, planned
from abw.core.run.onepass import workspace
from abw.core.run.onepass.onepass import Passes
from abw.core.run.parallel import PHASES, Done, Part, PartRunner
from abw.core.run.workload import Workload, open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides
from abw.core.store.outputs import Column, outputs_of
from tests.core.graph.test_dedup import check
from tests.core.run.onepass.test_texts import SPECS


@cache
def opened(spec: str, dedup: DedupMode, *, leaves: bool = False) -> Workload:
    small = {} if spec.startswith("plans/") else {"hidden": 8}
    model = open_model(Path(f"specs/{spec}.yaml"), Overrides(dims=small))
    networks = open_networks(model, "cell", dedup=dedup, leaves=leaves)
    return open_workload(model, read_instances(model.data, 24), networks)


def runner_of(workload: Workload, threads: int = 1) -> PartRunner:
    """What runs mini-batches by passes, of which graphs and plans can be looked at."""
    executor, networks = get_executor("cpu"), workload.networks
    executor.prepare(networks.network, init_params(networks.cells, 0), threads)
    passes, policy = (
        Passes(workload.model, networks, executor, outputs_of(workload.model)),
        get_policy("critical"),
    )
    passes.make(policy)
    return PartRunner(policy, executor, Clock(*PHASES), passes, looked_at=True, reuse=True)


def ran(
    runner: PartRunner, workload: Workload, windows: list[tuple[int, int]]
) -> Iterator[tuple[Done, bytes]]:
    """The mini-batches and the bits of their outputs; each is to be looked at before the next."""
    for _, _, each in runner.run([Part(workload, windows)]):
        for done in each:
            columns = done.columns()
            yield done, b"".join(a.tobytes() for c in columns for a in arrays(c))


def arrays(column: Column) -> tuple[NDArray[Any], ...]:
    return column.values, column.vertex, column.counts


def bits_of(workload: Workload, windows: list[tuple[int, int]]) -> list[bytes]:
    """The bits of outputs."""
    return [bits for _, bits in ran(runner_of(workload), workload, windows)]


@pytest.mark.parametrize("spec", SPECS)
def test_what_stands_for_what(spec: str) -> None:
    """A dictionary says which nodes are equal; the outputs have the bits of all nodes."""
    every, equal = opened(spec, "off"), opened(spec, "on")
    count = len(every.instances)
    windows = [(0, count), (count // 2, count), (0, 1)]
    found = ran(runner_of(equal), equal, windows)
    for (first, last), (done, bits), other in zip(windows, found, bits_of(every, windows), strict=True):
        assert isinstance(done.batch.made, Passed) and bits == other
        whole, graph = every.unfused(first, last), done.batch.graph
        check(whole, graph, set(), np.zeros(last - first, np.int32))
        check_schedule(graph.dag, done.batch.schedule)
        check_plan(graph, done.batch.plan)
        assert done.nodes == len(graph) == len(whole) - done.batch.equal_nodes
        values = [done.result().values(refs.reference) for refs in graph.results]
        if not every.model.answers:
            assert [v.tobytes() for v in values] == [c.values.tobytes() for c in done.columns()]


spans = st.tuples(st.integers(0, 23), st.integers(1, 6)).map(lambda w: (w[0], min(24, w[0] + w[1])))


@settings(max_examples=12)
@given(
    windows=st.lists(spans, min_size=1, max_size=6),
    apart=st.integers(0, 3),
    rows=st.sampled_from([0, 9, 999]),
)
def test_kept_leaves(windows: list[tuple[int, int]], apart: int, rows: int) -> None:
    """A pass leaves out the leaves of earlier mini-batches, as the steps do, and so do both in turns."""
    with pytest.MonkeyPatch.context() as change:
        change.setattr("abw.core.graph.equal.leaves.LEAST_FLOPS", 0)
        every, kept = opened("treelstm", "off"), opened("treelstm", "on", leaves=True)
        assert any(c.kind == "kept" for c in kept.networks.cells.constants)
        executors = [runner_of(kept), runner_of(kept), runner_of(kept)]
        steps = [replace(runner, passes=None) for runner in executors]
        for runner in executors:
            executor = runner.executor
            executor.run(
                planned(kept, runner.policy, executor, 0, 24, apart=True).plan
            )  # no memory moves now
            assert executor.leaves is not None
            executor.leaves.types.rows[0] = rows
            executor.leaves.forget()
        for number, (window, other) in enumerate(zip(windows, bits_of(every, windows), strict=True)):
            part, counts = Part(kept, [window], apart=int(number < apart)), []
            for runner in (executors[0], steps[1], (executors, steps)[number % 2][2]):
                ((_, _, found),) = runner.run([part])
                for done in found:
                    distinct, columns = done.batch.graph.distinct, done.columns()
                    assert distinct and b"".join(a.tobytes() for c in columns for a in arrays(c)) == other
                    counts.append(
                        (distinct.kept, done.nodes, distinct.place.tolist(), distinct.epoch is None)
                    )
            assert counts[0] == counts[1] == counts[2] and counts[0][3] == (number < apart)


@pytest.mark.parametrize("passes", [True, False])
def test_results_that_are_kept_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, passes: bool) -> None:
    """A sum over one leaf gives back what an earlier mini-batch has computed."""
    monkeypatch.setattr("abw.core.graph.equal.leaves.LEAST_FLOPS", 0)
    shutil.copytree("specs/cells", tmp_path / "cells")
    shutil.copytree("specs/data", tmp_path / "data")
    text = Path("specs/treelstm.yaml").read_text()
    text = text.replace("outputs:", '  kids: {per: internal, sum: {s: "children.leaf.h or zeros"}}\noutputs:')
    (tmp_path / "m.yaml").write_text(text.replace("{classes: output.y}", "{classes: output.y, kids: kids.s}"))
    model = open_model(tmp_path / "m.yaml", Overrides(dims={"hidden": 8}))
    instances, found = read_instances(model.data, 24), []
    for dedup in ("off", "on"):
        networks = open_networks(model, "cell", dedup=dedup, leaves=dedup == "on")
        workload = open_workload(model, instances, networks)
        runner = runner_of(workload)
        runner = runner if passes else replace(runner, passes=None)
        windows = [(0, 24), (0, 24), (3, 20), (0, 24)]
        found.append([bits for window in windows for _, bits in ran(runner, workload, [window])])
    assert found[0] == found[1]
    assert runner.executor.leaves and (runner.executor.leaves.row_of >= 0).any()


def test_verification_reads_what_a_pass_has_kept() -> None:
    """Every node is compared with the reference, also those that an earlier mini-batch has computed."""
    with pytest.MonkeyPatch.context() as change:
        change.setattr("abw.core.graph.equal.leaves.LEAST_FLOPS", 0)
        workload = opened("treelstm", "on", leaves=True)
        runner, params = runner_of(workload), init_params(workload.networks.cells, 0)
        found = [done for done, _ in ran(runner, workload, [(0, 6)] * 3)]
        last, whole = found[-1], workload.unfused(0, 6)
        distinct = last.batch.graph.distinct
        assert distinct and distinct.kept
        compare_with_reference(whole, last.result(), runner.executor, params, None, distinct)
        place = distinct.place.copy()
        place[np.flatnonzero(place < 0)[0]] -= 1
        with pytest.raises(AbwError, match="type 'leaf'"):
            wrong = replace(distinct, place=place)
            compare_with_reference(whole, last.result(), runner.executor, params, None, wrong)


@pytest.mark.parametrize("spec", ["treelstm", "rings", "ggnn"])
def test_room_for_one_grows(spec: str) -> None:
    """Also that of the rows of fields."""
    every, equal = opened(spec, "off"), opened(spec, "on")
    windows = [(0, 1), (0, len(every.instances))]
    with patch.object(workspace, "LEAST", 64):
        assert bits_of(equal, windows) == bits_of(every, windows)
    with patch.object(workspace, "LEAST", 64), patch.object(workspace, "MOST", 64):
        ((_, _, found),) = runner_of(equal).run([Part(equal, windows)])
        assert [type(done.batch.made).__name__ for done in found] == ["Planned", "Planned"]


def test_growing_models_leave_the_pass_where_they_are_looked_at() -> None:
    made = load("specs/greedy.yaml", threads=1, policy="critical")
    found, some = made._passes.make(made._ready()), Path("specs/data/pairs.txt").read_text().splitlines()[:2]
    assert found and found.objects(list(some)) is not None
    with patch("abw.core.run.dedup.LEAST_NODES", 3):
        assert found.objects(list(some)) is None


def test_looking_less_often_where_it_does_not_pay() -> None:
    """`auto` skips 1, 2, 4 … mini-batches, by passes as by steps; small ones do not count."""
    workload = opened("lattice", "auto")
    equal = workload.networks.equal
    assert equal is not None
    for runner in (runner_of(workload), replace(runner_of(workload), passes=None)):
        looked = []
        equal.pause, equal.next_pause = 0, 1
        with pytest.MonkeyPatch.context() as change:
            change.setattr("abw.core.run.dedup.LEAST_NODES", 30)
            change.setattr("abw.core.run.dedup.worth", lambda *_: False)
            for done, _ in ran(runner, workload, [(0, 8), (0, 1)] * 8):
                looked.append(done.batch.graph.distinct is not None)
        assert looked[1::2] == [False] * 8
        assert looked[::2] == [True, False, True, False, False, True, False, False]
        assert (equal.pause, equal.next_pause) == (2, 8)


def test_mini_batches_at_once_are_looked_at_in_order() -> None:
    """One is planned in its turn, and says whether passes look at the next ones."""
    equal = opened("lattice", "auto").networks.equal
    assert equal is not None
    equal.pause, equal.next_pause, equal.trust = 0, 1, 0
    few, many = (partial(equal.foreseen, most, grows=False) for most in (999, 1000))
    assert few() is False and many() is None
    equal.ran(1000, np.full(len(equal.flops), 10**9))
    assert [many() for _ in range(TRUST + 1)] == [True] * TRUST + [None]
    equal.ran(1000, np.zeros(len(equal.flops), np.int64))
    assert [few(), many(), many()] == [False, False, None]
    equal.ran(1000, np.full(len(equal.flops), 10**9))
    assert equal.foreseen(1000, grows=True) is None
    assert Deduplicator("on", keys=equal.keys).foreseen(1, grows=False) is True


def test_threads_look_at_the_same_mini_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("abw.core.run.parallel.LEAST", 0)
    monkeypatch.setattr("abw.core.run.parallel.FEWEST", 1)
    monkeypatch.setattr("abw.core.run.dedup.LEAST_NODES", 30)
    monkeypatch.setattr("abw.core.run.dedup.TRUST", 3)
    monkeypatch.setattr("abw.core.run.dedup.worth", lambda *_: True)
    workload, windows = opened("treelstm", "auto"), [(n, n + 3) for n in range(12)]
    counts = []
    for _ in range(3):
        equal = workload.networks.equal
        assert equal is not None
        equal.pause, equal.next_pause, equal.trust = 0, 1, 0
        runner = replace(runner_of(workload, threads=2), reuse=False)
        found = list(ran(runner, workload, windows))
        assert [bits for _, bits in found] == bits_of(opened("treelstm", "off"), windows)
        counts.append([(done.nodes, type(done.batch.made).__name__) for done, _ in found])
    assert counts[0] == counts[1] == counts[2]
    assert [how for _, how in counts[0]][:6] == ["Planned", *["Passed"] * 3, "Planned", "Passed"]
