"""Mini-batches planned while others run, and in pieces where a device has too little memory."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from abw.core.base.errors import AbwError
from abw.core.base.progress import Clock
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.interface import Abilities, Executor, Result, TooLargeError
from abw.core.exec.params import init_params
from abw.core.plan.plan import Plan
from abw.core.policy.registry import get_policy
from abw.core.run import minibatches
from abw.core.run.minibatches import run_all
from abw.core.run.workload import Workload, open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides
from tests.core.base.test_prefetch import WAIT


class Device(CpuExecutor):
    """The executor cpu as one that overlaps with planning: with `room` for so many nodes, and told of each
    run."""

    abilities = Abilities(overlaps=True)

    def __init__(self, room: int = 1 << 30, told: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.room, self.told = room, told

    def run(self, plan: Plan) -> Result:
        if len(plan.graph) > self.room:
            raise TooLargeError(len(plan.graph), self.room, "a small device")
        self.told()
        return super().run(plan)


@pytest.fixture(scope="module")
def workload(root: Path) -> Workload:
    model = open_model(root / "specs" / "lattice.yaml", Overrides(dims={"hidden": 8, "embed": 8}, batch=4))
    return open_workload(model, read_instances(model.data, 12), open_networks(model, "cell"))


def outputs(workload: Workload, executor: Executor) -> tuple[list[tuple[int, int, int]], np.ndarray]:
    executor.prepare(workload.network, init_params(workload.network, 0))
    clock = Clock("construct", "schedule", "plan", "execute")
    windows, values = [], []
    for batch, result in run_all(workload, get_policy("depth"), executor, clock):
        windows.append((batch.window, batch.first, batch.last))
        values += [result.values(refs.reference) for refs in batch.graph.results]
    return windows, np.concatenate(values)


def test_what_does_not_fit_runs_in_pieces(workload: Workload) -> None:
    windows, expected = outputs(workload, CpuExecutor())
    assert windows == [(0, 0, 4), (1, 4, 8), (2, 8, 12)]
    room = len(workload.graph(4, 6))
    pieces, found = outputs(workload, Device(room))
    assert [p[1] for p in pieces][1:] == [p[2] for p in pieces][:-1]
    assert (pieces[0][1], pieces[-1][2]) == (0, 12)
    assert len(pieces) > 3
    assert all(len(workload.graph(first, last)) <= room for _, first, last in pieces)
    assert all(windows[w][1] <= first < last <= windows[w][2] for w, first, last in pieces)
    assert np.allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_one_instance_that_does_not_fit_is_an_error(workload: Workload) -> None:
    with pytest.raises(TooLargeError, match="on a small device"):
        outputs(workload, Device(3))


class Told(CpuExecutor):
    """The executor cpu, which notes its runs."""

    def __init__(self, done: list[str]) -> None:
        super().__init__()
        self.done = done

    def run(self, plan: Plan) -> Result:
        self.done.append("run")
        return super().run(plan)


@pytest.mark.parametrize(
    ("nodes", "expected"), [(1, "plan run plan run plan run"), (10**9, "plan plan plan run run run")]
)
def test_small_mini_batches_are_planned_together(
    nodes: int, expected: str, workload: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    made = minibatches.planned

    def tell(*args: object, **named: object) -> object:
        done.append("plan")
        return made(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(minibatches, "planned", tell)
    monkeypatch.setattr(minibatches, "TOGETHER", nodes)
    windows, found = outputs(workload, Told(done))
    assert " ".join(done) == expected
    assert windows == [(0, 0, 4), (1, 4, 8), (2, 8, 12)]
    assert np.array_equal(found, outputs(workload, CpuExecutor())[1])


def test_an_error_comes_behind_what_was_planned_before_it(
    workload: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = minibatches.planned

    def fail(*args: object, **named: object) -> object:
        if args[5] == 2:
            raise AbwError("the third")
        return made(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(minibatches, "planned", fail)
    executor = CpuExecutor()
    executor.prepare(workload.network, init_params(workload.network, 0))
    batches = run_all(
        workload, get_policy("depth"), executor, Clock("construct", "schedule", "plan", "execute")
    )
    assert [next(batches)[0].window, next(batches)[0].window] == [0, 1]
    with pytest.raises(AbwError, match="the third"):
        next(batches)


def test_the_next_is_planned_while_one_runs(workload: Workload, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run ends only when the next mini-batch has been planned: it would wait for ever without a thread."""
    planned = [threading.Event() for _ in range(3)]
    made = minibatches.planned

    def tell(*args: object, **named: object) -> object:
        found = made(*args, **named)  # type: ignore[arg-type]
        planned[found.window].set()
        return found

    runs = iter(range(3))

    def wait() -> None:
        k = next(runs)
        assert k == 2 or planned[k + 1].wait(WAIT)

    monkeypatch.setattr(minibatches, "planned", tell)
    windows, _ = outputs(workload, Device(told=wait))
    assert len(windows) == 3


def test_a_workload_that_was_run_is_freed_without_the_collector(root: Path) -> None:
    """Else a stream's chunks pile up: what is in a circle waits for a collection that hardly ever comes."""
    model = open_model(root / "specs" / "lattice.yaml", Overrides(dims={"hidden": 8, "embed": 8}, batch=4))
    networks, executor = open_networks(model, "cell"), CpuExecutor()
    executor.prepare(networks.network, init_params(networks.network, 0))

    def run() -> weakref.ref[Any]:
        instances = read_instances(model.data, 8)
        workload = open_workload(model, instances, networks)
        clock = Clock("construct", "schedule", "plan", "execute")
        assert sum(1 for _ in run_all(workload, get_policy("depth"), executor, clock)) == 2
        return weakref.ref(instances.start)

    gc.collect()
    gc.disable()
    try:
        assert run()() is None
    finally:
        gc.enable()
