"""Kernels of plain numba against the reference and against those written as IR; what is kept of them on disk.

Compiling a network takes seconds. So most tests run the generated Python as it is, over compiled loops.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from abw.core.base.errors import AbwError
from abw.core.cell.normal import normalise
from abw.core.exec import registry
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.cpu.njit.executor import SCALAR, NjitExecutor
from abw.core.exec.cpu.tiling import StageLayout, layout_of
from abw.core.exec.interface import Executor, Result
from abw.core.exec.params import Params, init_params
from abw.core.exec.registry import get_executor
from abw.core.ir.cell import Cell
from abw.core.ir.network import Granularity
from abw.core.plan.plan import Plan, plan
from abw.core.policy.rules.sufficient import Sufficient
from abw.core.run.workload import open_model, open_networks, open_workload, read_instances, whole
from abw.core.spec.load import Overrides
from tests.core.exec import builder
from tests.core.exec.builder import (
    UNARY,
    error,
    launched,
    lstm,
    make_graph,
    reference,
)
from tests.core.exec.corners import (
    EDGES,
    check_nan_and_infinity,
    functions,
    gates_cell,
    once,
    one_by_one,
    one_type,
    products_cell,
    words_network,
)
from tests.core.exec.cpu.test_cpu import LARGE, RANDOM_TOLERANCE, SPECS, WIDTH
from tests.core.exec.interpreted import njit_interpreted

seeds = st.integers(0, 2**32 - 1)


def run(executor: Executor, planned: Plan, params: Params) -> Result:
    executor.prepare(planned.graph.network, params, 1)
    with np.errstate(all="ignore"):
        return executor.run(planned)


@pytest.mark.usefixtures("interpreted")
@settings(max_examples=25)
@given(seeds, st.integers(0, 25), st.booleans())
def test_equals_reference(seed: int, nodes: int, large: bool) -> None:
    rng = np.random.default_rng(seed)
    with patch.object(builder, "SHAPES", LARGE if large else builder.SHAPES):
        graph, schedule = launched(rng, nodes)
    planned = plan(graph, schedule)
    params = init_params(graph.network, seed)
    result = run(NjitExecutor(), planned, params)
    assert result.counts.batches == len(schedule)
    assert result.counts.launches == len(schedule.launches) - 1
    assert error(result, reference(graph, params)) < RANDOM_TOLERANCE


@pytest.mark.usefixtures("interpreted", "optimised")
@pytest.mark.parametrize("granularity", ["cell", "op"])
# numba takes long to compile the wide products of bao
@pytest.mark.parametrize("spec", [spec for spec in SPECS if spec != "plans/bao"])
def test_every_spec_as_by_the_ir(spec: str, granularity: Granularity, root: Path) -> None:
    model = open_model(root / "specs" / f"{spec}.yaml", Overrides(dims={"hidden": WIDTH}))
    if model.growth and granularity == "op":
        with pytest.raises(AbwError, match="grows round by round, and granularity op"):
            open_networks(model, granularity)
        return
    workload = whole(open_workload(model, read_instances(model.data, 2), open_networks(model, granularity)))
    graph = workload.graph(0, min(2, len(workload.instances)))
    planned = plan(graph, Sufficient().schedule(graph.dag))
    params = init_params(workload.network, 0)
    found = run(NjitExecutor(), planned, params)
    assert error(found, reference(graph, params)) < 1e-5
    if granularity == "cell":
        assert error(found, run(CpuExecutor(), planned, params)) < 1e-5


@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("cell", [gates_cell(5, 19), gates_cell(13, 4), products_cell()])
def test_cells_of_all_kinds(cell: Cell) -> None:
    graph, network = one_type(cell, 7)
    params = init_params(network, 0)
    assert error(run(NjitExecutor(), plan(graph, once(graph)), params), reference(graph, params)) < 1e-5


def test_the_layout_is_the_irs_with_all_gates_of_a_row_together() -> None:
    layout = layout_of(normalise(lstm(20)), SCALAR, (None,) * 3)
    (stage,) = layout.stages
    assert isinstance(stage, StageLayout)
    (weights,) = stage.weights
    assert (stage.units, weights.blocks, len(weights.group.gates)) == (20, 1, 4)
    assert layout.constants == 4 * 20 + 2 * 4 * 20 * 20


@pytest.mark.parametrize("reduction", ["sum", "mean", "max", "var", "std"])
@pytest.mark.usefixtures("interpreted")
def test_nan_and_infinity_pass_through(reduction: str) -> None:
    check_nan_and_infinity(lambda planned, params: run(NjitExecutor(), planned, params), reduction)


# what follows is compiled


def test_functions_at_their_ends() -> None:
    planned, params = functions([*EDGES, *np.linspace(-30, 30, 301)])
    found = run(NjitExecutor(), planned, params)
    with np.errstate(all="ignore"):
        expected = reference(planned.graph, params)
        for o, name in enumerate(UNARY):
            wanted = expected.value(0, o).astype(np.float32)
            np.testing.assert_allclose(found.value(0, o), wanted, rtol=4e-6, atol=1e-15, err_msg=name)


def test_compiled_as_interpreted_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ABW_HOME", str(tmp_path))
    network = words_network()
    graph = make_graph(network, [0] * 4, [[-1, -7, -7], [-2, -7, -7], [-3, 0, 1], [-4, 2, 3]])
    planned, params = plan(graph, one_by_one(graph)), init_params(network, 0)

    def fresh() -> tuple[Result, ModuleType]:
        """By an executor of a process that has not seen the module."""
        for name in [name for name in sys.modules if name.startswith("abw_njit_")]:
            del sys.modules[name]
        result = run(NjitExecutor(), planned, params)
        (name,) = (name for name in sys.modules if name.startswith("abw_njit_"))
        return result, sys.modules[name]

    result, compiled = fresh()
    assert not compiled.walk.stats.cache_hits
    assert error(result, reference(graph, params)) < 1e-5
    with njit_interpreted():
        assert error(result, run(NjitExecutor(), planned, params)) < 1e-6

    result, again = fresh()
    assert again is not compiled
    assert again.walk.stats.cache_hits
    assert not again.walk.stats.cache_misses

    files = list(Path(again.walk.stats.cache_path).glob(f"{again.__name__}*.nb?"))
    assert len(files) == 1
    for file in files:
        file.write_bytes(file.read_bytes()[:100])
    result, _ = fresh()
    assert error(result, reference(graph, params)) < 1e-5
    result, again = fresh()
    assert again.walk.stats.cache_hits

    # a folder that cannot be written
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("ABW_HOME", str(tmp_path / "file"))
    result, _ = fresh()
    assert error(result, reference(graph, params)) < 1e-5


def test_results_do_not_outlive_the_next_run() -> None:
    network = words_network()
    graph = make_graph(network, [0], [[-1, -7, -7]])
    executor = NjitExecutor()
    with njit_interpreted():
        planned = plan(graph, one_by_one(graph))
        first = run(executor, planned, init_params(network, 0))
        executor.run(planned)
        with pytest.raises(RuntimeError, match="run again"):
            first.value(0, 0)
        with pytest.raises(ValueError, match="another network"):
            executor.run(plan(make_graph(words_network(), [0], [[-1, -7, -7]]), planned.schedule))


def test_who_is_asked_for_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(get_executor("cpu", kernels="njit"), NjitExecutor)
    assert isinstance(get_executor("cpu", kernels="ir"), CpuExecutor)
    with pytest.raises(AbwError, match="no choice of kernels"):
        get_executor("blas", kernels="ir")
    monkeypatch.setattr(registry, "KNOWN", False)
    assert isinstance(get_executor("cpu"), NjitExecutor)
    assert isinstance(get_executor("cpu", kernels="ir"), CpuExecutor)
