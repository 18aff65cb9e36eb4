"""The IR's kernels on AArch64, under emulation, against the reference: random cells, and the specs'."""

from __future__ import annotations

from pathlib import Path

import llvmlite.binding as llvm
import numpy as np
import pytest

from abw.core.exec.cpu import target
from abw.core.exec.cpu.llvm.clock import emit_clock
from abw.core.exec.cpu.llvm.emit import Module
from abw.core.exec.params import init_params
from abw.core.graph.graph import Graph
from abw.core.plan.plan import plan
from abw.core.policy.rules.sufficient import Sufficient
from abw.core.policy.schedule import Schedule
from abw.core.run.workload import open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides
from tests.conftest import ROOT
from tests.core.exec.builder import (
    error,
    fused_graph,
    random_graph,
    random_network,
    random_schedule,
    reference,
)
from tests.core.exec.cpu.emulated import MISSING, Emulated, machine
from tests.core.exec.cpu.outside import OutsideExecutor, kept_error, summed, trees

emulated = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")


SPECS = ("treelstm", "treegru", "mvrnn", "lattice", "lattice-gru", "bilstm-chars", "dag", "plans/bao")


def check(graph: Graph, schedule: Schedule, folder: Path, tolerance: float, threads: int = 2) -> None:
    params = init_params(graph.network, 0)
    executor = OutsideExecutor(Emulated(folder), threads)
    executor.prepare(graph.network, params)
    result = executor.run(plan(graph, schedule))
    assert error(result, reference(graph, params)) < tolerance


@emulated
@pytest.mark.parametrize("spec", SPECS)
def test_specs(spec: str, tmp_path: Path) -> None:
    model = open_model(ROOT / "specs" / f"{spec}.yaml", Overrides(dims={"hidden": 38}))
    networks = open_networks(model, "cell", fuse=spec.startswith("lattice"))
    workload = open_workload(model, read_instances(model.data, 4), networks)
    graph = workload.graph(0, 4)
    check(graph, Sufficient().schedule(graph.dag), tmp_path, 1e-5)


@emulated
@pytest.mark.parametrize("seed", range(8))
def test_random_cells(seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    graph = fused_graph(rng, 20) if seed % 2 else random_graph(rng, random_network(rng), 20)
    check(graph, random_schedule(rng, graph), tmp_path, 1e-4, 2 + seed % 3)


@emulated
@pytest.mark.parametrize(("spec", "threads"), [("treelstm", 2), ("treegru", 4)])
def test_parts_apart(spec: str, threads: int, tmp_path: Path) -> None:
    """Threads that take parts, section by section: what one wrote, others read or write over."""
    graph, planned = trees(spec, parts=3 * threads)
    params = init_params(graph.network, 0)
    executor, expected = OutsideExecutor(Emulated(tmp_path), threads), reference(graph, params)
    executor.prepare(graph.network, params)
    for _ in range(10):
        assert kept_error(planned, executor.run(planned), expected) < 1e-5


@emulated
def test_sums_of_gradients(tmp_path: Path) -> None:
    summed(Emulated(tmp_path), 4)


def test_the_target_there_and_on_unknown_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llvm, "get_host_cpu_features", dict)
    monkeypatch.setattr(target, "IS_AARCH64", True)
    assert target.get_target.__wrapped__() is target.AARCH64
    monkeypatch.setattr(target, "IS_AARCH64", False)
    found = target.get_target.__wrapped__()
    assert (found.name, found.cpu, found.features) == ("plain", "generic", "")


def test_stamps_are_of_a_clock_that_any_process_may_read() -> None:
    module = Module(target.AARCH64)
    emit_clock(module)
    text = machine().emit_assembly(llvm.parse_assembly(module.text()))
    assert "CNTVCT_EL0" in text.upper()
    assert "PMCCNTR" not in text.upper()
