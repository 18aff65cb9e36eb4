"""What `abw explain` says of bytes and times is what the plan and the run say."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from abw.core.base.progress import Quiet
from abw.core.exec.interface import Executed
from abw.core.plan.plan import outputs_to_keep, plan
from abw.core.policy.registry import get_policy
from abw.core.policy.schedule import Schedule
from abw.core.run.pipeline import RunOptions, run
from abw.core.run.workload import load_workload, open_model
from abw.core.spec.load import Overrides
from abw.core.store.runs import find_run
from abw.core.tools.explain import batch_times, explain_run, explain_spec

SMALL = Overrides(dims={"hidden": 8, "embed": 8}, limit=6, batch=6)


@pytest.mark.parametrize("policy", ["depth", "critical"])
def test_bytes_are_the_plans(root: Path, policy: str) -> None:
    spec = root / "specs/treelstm.yaml"
    memory = explain_spec(spec, SMALL, policy, Quiet())["memory"]
    graph = load_workload(open_model(spec, SMALL), "cell").graph(0, 6)
    schedule = get_policy(policy).schedule(graph.dag)
    made = plan(graph, schedule, outputs_to_keep(graph))
    sizes = 4 * made.arenas.row_floats.astype(np.int64)
    assert memory["rows_bytes"] == int(sizes @ (made.rows - made.arenas.head))
    assert memory["most_bytes"] == sum(each["type_bytes"] for each in memory["types"]) <= memory["rows_bytes"]
    assert 1 <= memory["most_in"] <= len(schedule)
    # all leaves are computed in one batch, and nothing reads them before
    leaves = int((graph.dag.type == graph.dag.types.index("leaf")).sum())
    most = max(each["type_bytes"] for each in memory["types"])
    assert most >= 4 * 8 * leaves


def test_times_of_batches_are_of_all_threads_together() -> None:
    schedule = Schedule(
        np.array([1, 0, 1], np.int32), np.array([0, 1, 2, 3], np.int32), np.arange(3, dtype=np.int32)
    )
    found = Executed(
        np.array([0, 1, 0, 0]), np.array([0, 0, 1, 2]), np.array([1, 1, 0, 1], np.int32),
        np.ones(4, np.int64),
        np.array([1.0, 1.0, 4.0, 6.0]), np.array([3.0, 4.0, 5.0, 6.5]), np.full(4, np.nan),
    )  # fmt: skip
    told = batch_times(found, schedule, ("a", "b"))
    assert (told["seconds"], told["threads"]) == (5.5, 2)
    assert told["types"] == [{"type": "b", "seconds": 5.5}, {"type": "a", "seconds": 1.0}]
    assert told["longest"] == [
        {"step": 1, "type": "b", "seconds": 5.0},
        {"step": 2, "type": "a", "seconds": 1.0},
        {"step": 3, "type": "b", "seconds": 0.5},
    ]


def test_a_profiled_run_has_times_and_another_policy_none(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ABW_HOME", str(tmp_path))
    run(root / "specs/treelstm.yaml", SMALL, RunOptions(policy="depth", profile=True, threads=1))
    stored = find_run(None)
    time = explain_run(stored)["time"]
    assert time["threads"] == 1
    assert 0 < sum(each["seconds"] for each in time["types"]) <= time["seconds"] * 1.001
    assert explain_run(stored, policy="agenda")["time"] is None
