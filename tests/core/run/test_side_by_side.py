"""Mini-batches that run side by side give what they give one by one, to the bit, and in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import abw
from abw.core.base.errors import AbwError, InstanceError, Problem
from abw.core.base.progress import Clock
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.interface import Executor, Result, TooLargeError
from abw.core.exec.params import Params, init_params
from abw.core.exec.reference import ReferenceExecutor
from abw.core.plan.plan import Plan
from abw.core.policy.registry import get_policy
from abw.core.run import minibatches, parallel
from abw.core.run.minibatches import MiniBatch
from abw.core.run.parallel import Done, Part, PartRunner, should_parallelise, side_by_side
from abw.core.run.workload import Workload, open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides

SPECS = ("treelstm", "lattice", "bilstm")


@pytest.fixture(scope="module")
def workloads(root: Path) -> dict[str, Workload]:
    found = {}
    for name in SPECS:
        model = open_model(root / "specs" / f"{name}.yaml", Overrides(dims={"hidden": 8}))
        found[name] = open_workload(model, read_instances(model.data, 40), open_networks(model, "cell"))
    return found


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "LEAST", 0)


def prepared(workload: Workload, threads: int, params: Params | None = None) -> CpuExecutor:
    executor = CpuExecutor()
    executor.prepare(workload.network, params or init_params(workload.network, 0), threads)
    return executor


def values(done: Done) -> bytes:
    return b"".join(column.values.tobytes() for column in done.columns())


Row = tuple[int, int, int, int, bytes]


def each(parts: Iterable[Part], executor: Executor, *, alone: bool) -> Iterator[Row]:
    """Each mini-batch with the number of its part, its place there, and its values."""
    clock = Clock("construct", "schedule", "plan", "execute")
    every = PartRunner(get_policy("depth"), executor, clock, alone=alone).run(parts)
    for number, (_, _, found) in enumerate(every):
        for done in found:
            yield number, done.batch.window, done.batch.first, done.batch.last, values(done)


def told(
    workload: Workload,
    executor: Executor,
    windows: list[tuple[int, int]],
    leave_out: Callable[[InstanceError], None] | None = None,
    *,
    alone: bool = False,
) -> list[Row]:
    return list(each([Part(workload, windows, leave_out)], executor, alone=alone))


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    name=st.sampled_from(SPECS),
    cuts=st.sets(st.integers(1, 39), max_size=12),
    threads=st.integers(2, 4),
    together=st.sampled_from([1, 200, 10**9]),
    parts=st.sets(st.integers(0, 13), max_size=4),
)
def test_they_give_the_same(
    workloads: dict[str, Workload], monkeypatch: pytest.MonkeyPatch, name: str, cuts: set[int], threads: int,
    together: int, parts: set[int],
) -> None:  # fmt: skip
    workload = workloads[name]
    ends = [0, *sorted(cuts), 40]
    windows = list(pairwise(ends))
    executor = prepared(workload, threads)
    cut = [0, *sorted(parts), len(windows)]
    made = [Part(workload, windows[i:j]) for i, j in pairwise(cut)]
    with monkeypatch.context() as patched:
        patched.setattr(parallel, "FEWEST", together)
        assert [side_by_side(executor, p) for p in made] == [threads * (len(p.windows) > 1) for p in made]
        found = list(each(made, executor, alone=False))
    assert found == list(each(made, prepared(workload, 1), alone=False))
    assert [row[2:4] for row in found] == windows


class Small(CpuExecutor):
    """Has room for so many nodes."""

    room = 150

    def run(self, plan: Plan) -> Result:
        if len(plan.graph) > self.room:
            raise TooLargeError(len(plan.graph), self.room, "a small machine")
        return super().run(plan)


def test_what_does_not_fit_runs_in_pieces(workloads: dict[str, Workload]) -> None:
    workload, windows = workloads["treelstm"], [(0, 2), (2, 24), (24, 40)]
    executor = Small()
    executor.prepare(workload.network, init_params(workload.network, 0), 2)
    found = told(workload, executor, windows)
    assert found == told(workload, executor, windows, alone=True)
    assert len(found) > len(windows)


def test_what_is_wrong_is_told_in_its_place_or_left_out(
    workloads: dict[str, Workload], monkeypatch: pytest.MonkeyPatch
) -> None:
    workload, made = workloads["bilstm"], minibatches.planned

    def planned(*args: object, **named: object) -> MiniBatch:
        if args[3] <= 25 < args[4]:  # type: ignore[operator]
            raise InstanceError(Problem("the 26th"), 25)
        return made(*args, **named)  # type: ignore[arg-type]

    for module in (minibatches, parallel):
        monkeypatch.setattr(module, "planned", planned)
    windows = [(i, i + 4) for i in range(0, 40, 4)]
    executor, alone = prepared(workload, 3), prepared(workload, 1)
    found = each([Part(workload, windows[:2]), Part(workload, windows[2:])], executor, alone=False)
    assert [next(found)[:2] for _ in range(6)] == [(0, 0), (0, 1), (1, 0), (1, 1), (1, 2), (1, 3)]
    with pytest.raises(InstanceError, match="the 26th"):
        next(found)
    left: list[int] = []
    kept = told(workload, executor, windows, lambda e: left.append(e.instance))
    assert left == [25]
    assert kept == told(workload, alone, windows, lambda e: left.append(e.instance))


def test_twins_have_the_weights_that_were_given_last(workloads: dict[str, Workload]) -> None:
    workload, windows = workloads["treelstm"], [(0, 20), (20, 40)]
    executor, others = prepared(workload, 2), init_params(workload.network, 1)
    before = told(workload, executor, windows)
    executor.update(others)
    after = told(workload, executor, windows)
    assert after == told(workload, prepared(workload, 1, others), windows) != before


def test_when_they_run_one_by_one(
    workloads: dict[str, Workload], root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workload, windows = workloads["treelstm"], [(0, 20), (20, 40)]
    assert should_parallelise(workload, windows)
    executor = prepared(workload, 2)
    assert len(executor.twins()) == 2 and prepared(workload, 1).twins() == ()
    executor.profiler.measure()
    assert executor.twins() == ()  # threads are told apart by what they share
    assert ReferenceExecutor().twins() == ()
    assert not should_parallelise(workload, windows[:1])
    model = open_model(root / "specs" / "greedy.yaml", Overrides(dims={"hidden": 8}))
    growing = open_workload(model, read_instances(model.data, 8), open_networks(model, "cell"))
    assert not should_parallelise(growing, [(0, 4), (4, 8)])
    monkeypatch.setattr(parallel, "LEAST", 1 << 40)
    assert not should_parallelise(workload, windows)
    monkeypatch.setattr(parallel, "LEAST", 0)
    monkeypatch.setattr(parallel, "MOST", 1 << 10)
    assert not should_parallelise(workload, windows)


def test_a_value_that_is_not_finite_is_told_alike(root: Path) -> None:
    said = []
    for threads in (1, 2):
        spec = root / "specs" / "treelstm.yaml"
        model = abw.load(spec, dims={"hidden": 8}, policy="depth", threads=threads, check_finite=True)
        params = init_params(model.network, 0)
        huge = Params(tuple(np.full_like(value, 3e38) for value in params.values), params.tables)
        model._current().update(huge)
        with pytest.raises(AbwError) as error:
            model(model.spec.data.path)
        said.append(str(error.value))
    assert said[0] == said[1]
