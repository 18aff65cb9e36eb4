"""Where the time of runs goes: all of it is accounted for, each part where it belongs, results as without."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.cpu.llvm.clock import LAST, WALKER, WHOLE
from abw.core.exec.cpu.prepare import emit_network
from abw.core.exec.cpu.profile import Profile
from abw.core.exec.cpu.target import get_target
from abw.core.exec.params import init_params
from abw.core.plan.plan import Plan, plan
from abw.core.policy.rules.sufficient import Sufficient
from abw.core.run.workload import open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides
from tests.core.exec.corners import words_network

RUNS = 5


def prepared(root: Path, spec: str, threads: int) -> tuple[CpuExecutor, Plan]:
    """An executor of a spec of ours, with a plan large enough that calling it is little of the time."""
    model = open_model(root / "specs" / f"{spec}.yaml", Overrides())
    workload = open_workload(model, read_instances(model.data, 64), open_networks(model, "cell"))
    graph = workload.graph(0, min(64, len(workload.instances)))
    executor = CpuExecutor()
    executor.prepare(workload.network, init_params(workload.network, 0), threads)
    schedule = executor.arrange(graph, Sufficient().schedule(graph.dag))
    return executor, plan(graph, schedule)


def measured(executor: CpuExecutor, planned: Plan) -> tuple[Profile, float]:
    """The profile of some runs, and their seconds by this test's clock."""
    executor.profiler.measure()
    seconds = 0.0
    for _ in range(RUNS):
        start = time.perf_counter()
        executor.run(planned)
        seconds += time.perf_counter() - start
        executor.profiler.sample(planned)
    return executor.profiler.profile(), seconds


@pytest.mark.parametrize("way", ["alone", "apart", "together"])
@pytest.mark.parametrize("spec", ["treelstm", "lattice", "mvrnn"])
@pytest.mark.usefixtures("always_shared")
def test_all_time_is_accounted_for(spec: str, way: str, root: Path) -> None:
    executor, planned = prepared(root, spec, 1 if way == "alone" else 2)
    if way == "together":
        planned = replace(planned, schedule=replace(planned.schedule, split=None))
    profile, seconds = measured(executor, planned)
    assert profile.seconds <= seconds
    assert profile.accounted == pytest.approx(profile.seconds)
    reasons = ("gather", "product", "elementwise", "walker", "waiting")
    assert sum(profile.reason(name) for name in reasons) == pytest.approx(profile.accounted)
    assert min(profile.reason(name) for name in reasons) >= 0
    assert (profile.waiting > 0) == (way != "alone")
    # a batch that threads do together is one batch
    types = planned.schedule.type
    lanes = np.diff(planned.schedule.ptr)
    assert [t.name for t in profile.types] == [t.name for t in planned.graph.network.types]
    for t, found in enumerate(profile.types):
        assert found.batches == RUNS * (types == t).sum()
        assert found.rows == RUNS * lanes[types == t].sum()
        assert found.gather + found.product + found.elementwise == pytest.approx(found.seconds)
        flops = planned.arenas.product_flops[t]
        assert (found.share_of_peak is None) == (found.product == 0) == (flops == 0)
        if found.share_of_peak is not None and found.product_share_of_peak is not None:
            assert 0 < found.share_of_peak <= found.product_share_of_peak


@pytest.mark.parametrize("lost", [0, 200])
def test_lost_time_is_missed(lost: int, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made-up ticks, a microsecond each: 1000 in the walk, 20 around it and 50 before it; a made-up peak."""
    executor, planned = prepared(root, "treelstm", 1)
    executor.profiler.measure()
    profiler = executor.profiler
    profiler._start = 0.0, 0
    monkeypatch.setattr(profiler, "_both_clocks", lambda: (1.0, 1_000_000))
    clock = profiler.clocks[0]
    clock[0, LAST], clock[0, WALKER] = 1000, 100
    clock[1:, WHOLE] = 400, 300 - lost, 200
    profiler._inside[0], profiler._computing[0] = 1000, 1e-3
    profiler.took = 1, 50e-6, 1020e-6
    profiler._sampled[:] = 10, 60, 30
    monkeypatch.setattr("abw.core.exec.cpu.profile.peak_meter", lambda: lambda: 1e12)
    profiler.settle(planned)
    profile = executor.profiler.profile()
    assert profile.seconds == pytest.approx(1070e-6)
    assert profile.walker == pytest.approx(170e-6)
    assert profile.accounted == pytest.approx(1070e-6 - lost * 1e-6)
    for t, found in enumerate(profile.types):
        assert found.seconds == pytest.approx((400e-6, (300 - lost) * 1e-6, 200e-6)[t])
        shares = found.gather / found.seconds, found.product / found.seconds
        assert shares == pytest.approx((0.1, 0.6))
        done = np.diff(planned.graph.type_ptr)[t] * planned.arenas.product_flops[t]
        assert found.share_of_peak == pytest.approx(done / found.seconds / 1e12)
        assert found.product_share_of_peak == pytest.approx(done / (0.6 * found.seconds) / 1e12)


def test_results_are_the_same_and_outlive_the_samples(root: Path) -> None:
    executor, planned = prepared(root, "treelstm", 1)
    types = range(len(planned.graph.network.types))
    result = executor.run(planned)
    expected = [result.value(t, 0).copy() for t in types]
    executor.profiler.measure()
    result = executor.run(planned)
    executor.profiler.sample(planned)
    assert all(np.array_equal(result.value(t, 0), expected[t]) for t in types)


def test_without_measuring_there_are_no_stamps() -> None:
    executor = CpuExecutor()
    network = words_network()
    executor.prepare(network, init_params(network, 0), 1)
    assert "counter" not in emit_network(network, get_target(), None)[0]
    assert "counter" in emit_network(network, get_target(), None, stamped=True)[0]
    with pytest.raises(ValueError, match="not told"):
        executor.profiler.profile()


def test_the_document_is_complete(root: Path) -> None:
    profile, _ = measured(*prepared(root, "lattice", 1))
    document = profile.document()
    assert sum(document["reasons"].values()) == pytest.approx(document["accounted_seconds"])
    assert document["types"][0].keys() >= {"name", "batches", "rows", "seconds", "product", "share_of_peak"}
    state = next(t for t in document["types"] if t["name"] == "state")
    # a reduction
    assert state["elementwise"] == pytest.approx(state["seconds"])
    assert state["share_of_peak"] is None
