"""Mini-batches that come again keep their plans, up to some bytes, and give the same bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from abw.core.exec.interface import Executor
from abw.core.exec.params import init_params
from abw.core.exec.registry import get_executor
from abw.core.policy.registry import get_policy
from abw.core.run import minibatches
from abw.core.run.observing.footprint import PlanCache, footprint_of
from abw.core.run.workload import open_model, open_networks, open_workload, read_instances
from abw.core.spec.load import Overrides


def opened(root: Path, spec: str, executor: Executor, most: int) -> PlanCache:
    dims = {"hidden": 8}
    model = open_model(root / "specs" / f"{spec}.yaml", Overrides(dims=dims, batch=4))
    found = open_workload(model, read_instances(model.data, 12), open_networks(model, "cell"))
    executor.prepare(found.network, init_params(found.network, 0), 1)
    return PlanCache(found, get_policy("depth"), most)


def outputs(batches: PlanCache, executor: Executor) -> list[bytes]:
    return [
        np.asarray(result.values(refs.reference)).tobytes()
        for batch, result in batches.run(executor)
        for refs in batch.graph.results
    ]


@pytest.mark.parametrize("executor", ["cpu", "blas", "reference"])
def test_plans_are_made_once(root: Path, executor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = get_executor(executor)
    batches = opened(root, "treelstm", made, 1 << 20)
    first = outputs(batches, made)
    taken = sum(footprint_of(batch).graph for batch in batches.kept)
    assert len(batches.kept) == 3
    assert 0 < taken <= 1 << 20
    made.update(init_params(batches.workload.network, 1))
    monkeypatch.setattr(minibatches, "plan", None)
    second = outputs(batches, made)
    assert first != second
    made.update(init_params(batches.workload.network, 0))
    assert outputs(batches, made) == first


@pytest.mark.parametrize(("spec", "most"), [("treelstm", 20_000), ("seq2seq", 1 << 20)])
def test_nothing_is_kept_that_is_large_or_grows(root: Path, spec: str, most: int) -> None:
    made = get_executor("cpu")
    batches = opened(root, spec, made, most)
    first = outputs(batches, made)
    assert not batches.kept
    assert outputs(batches, made) == first
    assert not batches.kept


def test_what_is_not_read_to_its_end_is_not_kept(root: Path) -> None:
    made = get_executor("cpu")
    batches = opened(root, "treelstm", made, 1 << 20)
    next(batches.run(made))
    assert not batches.kept
    assert len(outputs(batches, made)) == 3
