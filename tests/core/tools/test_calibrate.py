"""Measuring costs: on an executor whose clock is ours, so that the right answer is known."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from abw.core.base.errors import AbwError
from abw.core.exec.interface import Executor, Result
from abw.core.exec.params import Params, init_params
from abw.core.exec.registry import get_executor
from abw.core.graph.graph import Graph
from abw.core.ir.network import Network
from abw.core.plan.plan import Plan, plan
from abw.core.policy.check import check_schedule
from abw.core.policy.costfile import read_cost
from abw.core.policy.rules.critical import Critical
from abw.core.run.batchsize import cut, fit, measure, section
from abw.core.run.workload import open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides
from abw.core.tools.calibrate import calibrate

LAUNCH, ROW = (3e-6, 5e-6, 2e-6, 7e-6), (4e-8, 0.0, 9e-8, 1e-8)


@dataclass
class Clockwork(Executor):
    """An executor that computes nothing and takes a known time."""

    name = "clockwork"
    now: float = 0.0
    seen: list[int] = field(default_factory=list)

    def prepare(self, network: Network, params: Params, threads: int | None = None) -> None: ...

    def update(self, params: Params, rows: object = None) -> None: ...

    def run(self, plan: Plan) -> Result:  # type: ignore[return]
        self.now += 1e-4  # what every run takes
        for t, rows in zip(plan.schedule.type.tolist(), np.diff(plan.schedule.ptr).tolist(), strict=True):
            self.now += LAUNCH[t] + ROW[t] * rows
            self.seen.append(rows)


def lattices(root: Path, count: int = 48) -> Graph:
    model = open_model(root / "specs/lattice.yaml", Overrides())
    workload = open_workload(model, read_instances(model.data, count), open_networks(model, "cell"))
    return workload.graph(0, len(workload.instances))


def test_a_known_cost_is_found_again(root: Path) -> None:
    executor = Clockwork()
    found = measure(lattices(root), executor, clock=lambda: executor.now)
    assert [m.type for m in found] == ["char", "word", "state", "tag"]
    for m, launch, row in zip(found, LAUNCH, ROW, strict=True):
        assert m.launch == pytest.approx(launch, rel=1e-3)
        assert m.row == pytest.approx(row, rel=1e-3, abs=1e-12)
        assert m.error < 1e-3
        assert [rows for rows, _ in m.samples] == [1, 2, 4, 8, 16, 32, 64, 128, 256][: len(m.samples)]
        assert len(m.samples) > 3
    assert max(executor.seen) >= max(m.samples[-1][0] for m in found)


@given(
    st.floats(1e-7, 1e-3),
    st.floats(0, 1e-5),
    st.lists(st.integers(1, 256), min_size=2, max_size=9, unique=True),
)
def test_fit_finds_the_line(launch: float, row: float, sizes: list[int]) -> None:
    rows = np.array(sorted(sizes), np.float64)
    found_launch, found_row, error = fit(rows, launch + row * rows)
    np.testing.assert_allclose(found_launch + found_row * rows, launch + row * rows, rtol=1e-6)
    assert min(found_launch, found_row) >= 0
    assert error < 1e-6


@given(st.lists(st.floats(1e-7, 1e-3), min_size=1, max_size=9))
def test_fit_is_never_negative_and_no_worse_than_simpler_ones(seconds: list[float]) -> None:
    rows = np.array([2.0**k for k in range(len(seconds))])
    taken = np.array(seconds)
    launch, row, error = fit(rows, taken)
    assert launch >= 0
    assert row >= 0
    assert error == pytest.approx(np.abs((launch + row * rows) / taken - 1).mean())

    def squares(launch: float, row: float) -> float:
        return float((((launch + row * rows) / taken - 1) ** 2).sum())

    others = [(k * launch, j * row) for k in (0.9, 1.0, 1.1) for j in (0.9, 1.0, 1.1)]
    others += [(float(taken.mean()), 0.0), (0.0, float((taken / rows).mean()))]
    if len(seconds) > 1:
        assert squares(launch, row) <= min(squares(*other) for other in others) + 1e-9


@pytest.mark.parametrize(("rows", "batches"), [(1, 1), (1, 5), (2, 3), (4, 2), (0, 0)])
def test_a_cut_schedule_is_a_schedule(root: Path, rows: int, batches: int) -> None:
    graph = lattices(root, 8)
    schedule = Critical().schedule(graph.dag)
    width = np.diff(schedule.ptr)
    widest = int(np.argmax(width))
    if rows == 0:
        rows, batches = int(width[widest]), 1  # all of it: nothing is cut
    found = cut(schedule, widest, rows, batches)
    check_schedule(graph.dag, found)
    assert np.diff(found.ptr)[widest : widest + batches].tolist() == [rows] * batches
    assert len(found) == len(schedule) + batches - (rows * batches == width[widest])


@pytest.mark.parametrize("name", ["blas", "cpu"])
def test_a_plan_in_sections_computes_the_same(root: Path, name: str) -> None:
    graph = lattices(root, 8)
    planned = plan(graph, Critical().schedule(graph.dag))
    params = init_params(graph.network, 0)
    refs = graph.results[0].reference
    whole, parts = get_executor(name), get_executor(name)
    for executor in (whole, parts):
        executor.prepare(graph.network, params, 1)
    expected = whole.run(planned).values(refs)
    for first in range(0, len(planned.schedule), 3):
        found = parts.run(section(planned, first, first + 3)).values(refs)
    np.testing.assert_array_equal(found, expected)


def test_the_file_holds_what_was_measured(root: Path, tmp_path: Path) -> None:
    path = tmp_path / "cost.yaml"
    report = calibrate(root / "specs/treelstm.yaml", Overrides(limit=8), path)
    names = tuple(t["type"] for t in report["types"])
    cost = read_cost(path, names)
    np.testing.assert_allclose(cost.launch, [t["launch"] for t in report["types"]], rtol=1e-3)
    np.testing.assert_allclose(cost.row, [t["row"] for t in report["types"]], rtol=1e-3)
    for t in report["types"]:
        assert t["launch"] + t["row"] > 0
        assert t["samples"][0][0] == 1


def test_what_cannot_be_measured_is_refused(root: Path, tmp_path: Path) -> None:
    with pytest.raises(AbwError, match="runs node by node"):
        calibrate(root / "specs/treelstm.yaml", Overrides(), tmp_path / "c.yaml", executor="reference")
    lonely = tmp_path / "one.txt"
    lonely.write_text("(2 word)\n", encoding="utf-8")
    with pytest.raises(AbwError, match=r"no node of type .* is in the data"):
        calibrate(root / "specs/treelstm.yaml", Overrides(data=lonely), tmp_path / "c.yaml")
    assert not (tmp_path / "c.yaml").exists()
