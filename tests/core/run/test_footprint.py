"""What a mini-batch is said to take is what it takes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from abw.core.base.memory import peak_since, settle
from abw.core.exec.cpu.executor import CpuExecutor
from abw.core.exec.lower.rows import row_floats
from abw.core.exec.params import init_params
from abw.core.plan.plan import plan, results_of
from abw.core.policy.rules.critical import Critical
from abw.core.run.observing.footprint import LANES, footprint
from abw.core.run.workload import load_workload, open_model
from abw.core.spec.load import Overrides


@pytest.mark.parametrize("spec", ["treelstm", "lattice", "mvrnn"])
@pytest.mark.parametrize("hidden", [5, 32])
def test_parts(spec: str, hidden: int, root: Path) -> None:
    model = open_model(root / "specs" / f"{spec}.yaml", Overrides(dims={"hidden": hidden}))
    workload = load_workload(model, "cell")
    graph = workload.graph(0, 20)
    executor = CpuExecutor()
    executor.prepare(workload.network, init_params(workload.network, 0), 1)
    schedule = Critical().schedule(graph.dag)
    keep = results_of(graph)
    planned = plan(graph, schedule, keep)
    found = footprint(planned)
    rows = zip(planned.rows.tolist(), planned.arenas.shape, strict=True)
    assert found.arenas == sum(4 * count * row_floats(shape, LANES) for count, shape in rows)
    assert found.arenas < footprint(plan(graph, schedule)).arenas
    result = executor.run(planned)
    assert found.outputs == sum(result.values(r.reference).nbytes for r in graph.results)
    assert found.graph > planned.index.nbytes + graph.operand.nbytes + planned.row.nbytes
    assert found.total == found.arenas + found.graph + found.outputs


def test_the_peak_of_memory_begins_anew() -> None:
    np.ones(30 << 20, np.uint8)
    before = settle()
    if before is None:
        pytest.skip("the system does not let a process reset its peak memory")
    peak = peak_since()
    assert peak is not None
    assert peak < before + (10 << 20)
    # the system counts pages in bunches
    least = before + (45 << 20)
    held = np.ones(50 << 20, np.uint8)
    peak = peak_since()
    assert peak is not None
    assert peak >= least
    del held
    peak = peak_since()
    assert peak is not None
    assert peak >= least
